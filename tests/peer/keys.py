"""Keys for tests."""

from dpeer.peer.transports import Keyring
from dpeer.peer.transports.curve import new_secret, public_of


def keyrings(size):
    """A keyring for each rank, in which all are listed."""
    secrets = [new_secret() for _ in range(size)]
    listed = {rank: (public_of(secret),) for rank, secret in enumerate(secrets)}
    return [Keyring(secret, listed) for secret in secrets]
