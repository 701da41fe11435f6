"""Differential privacy: mechanisms, ledger and accounting. Knows no network and no training loop."""
