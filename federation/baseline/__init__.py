"""The local-only baseline of a peer: trained beside its run or after it, and compared with the federated model."""
