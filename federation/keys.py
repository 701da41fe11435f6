"""Keys: those of ranks and operators that a federation file lists, their secrets, and those that a relay lets in."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpeer.encoding import read_text
from dpeer.exceptions import ConfigurationError, not_written
from dpeer.federation.run_settings import NetworkPart, OperatorSettings
from dpeer.peer.core.member_list import Signers
from dpeer.peer.relay.server import Listed
from dpeer.peer.transports.curve import KEY_BYTES, Keyring, new_secret, public_of
from dpeer.toml_text import read_toml

IN_ENVIRONMENT = "DPEER_SECRET"

_EXAMPLE = f"expected {2 * KEY_BYTES} hexadecimal digits, as `dpeer keygen` prints them"


def public_keys(network: NetworkPart, ranks: Iterable[int]) -> dict[int, tuple[bytes, ...]]:
    """The public keys of all ranks; empty if none has any.

    Raises:
        ConfigurationError: Ranks lack a key, or two have the same.
    """
    listed = {rank: keys_of(rank, own.key) for rank, own in network.rank.items() if own.key is not None}
    if not listed:
        return {}
    missing = [str(rank) for rank in ranks if rank not in listed]
    if missing:
        raise ConfigurationError(
            f"rank {', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no `key`, and others have one: list "
            "the keys of all ranks (dpeer keygen), or of none"
        )
    owners: dict[bytes, int] = {}
    for rank, keys in sorted(listed.items()):
        for key in keys:
            if owners.setdefault(key, rank) != rank:
                raise ConfigurationError(
                    f"rank.{rank}.key = {key.hex()!r} is rank {owners[key]}'s, too: each rank has keys of its own "
                    "(dpeer keygen)"
                )
    return listed


def keyring(network: NetworkPart, size: int, rank: int) -> Keyring | None:
    """What the peer proves who it is with; None where the federation file lists no keys.

    Raises:
        ConfigurationError: The secret is missing, cannot be used, or is not this rank's.
    """
    listed = public_keys(network, range(size))
    found = own_secret(network.secret)
    if not listed:
        if found is None or network.secret is None:  # the environment may hold one for other runs
            return None
        raise ConfigurationError(
            f"--secret {str(network.secret)!r}: the federation file lists no keys, so nothing would be encrypted: add "
            "every rank's `key` (dpeer keygen prints it)"
        )
    if found is None:
        raise ConfigurationError(
            f"the federation file lists keys, and this peer has no secret: name its file with --secret, for example "
            f"--secret rank-{rank}.secret (dpeer keygen makes one)"
        )
    secret, source = found
    mine = public_of(secret)
    if mine not in listed[rank]:
        owner = next((other for other, keys in listed.items() if mine in keys), None)
        whose = "no rank" if owner is None else f"rank {owner}"
        raise ConfigurationError(
            f"{source} belongs to the key {mine.hex()!r}, which the federation file lists for {whose}: use the secret "
            f"of rank {rank}, or list this key as rank.{rank}.key"
        )
    return Keyring(secret, listed)


def accepted(path: Path | None) -> str | None:
    """What is accepted about this peer's secret although others can read it, in a line; None if nothing is."""
    return _accepted(path) if path is not None and _open_to_others(path.stat().st_mode) else None


def own_secret(path: Path | None) -> tuple[bytes, str] | None:
    """The secret key of this peer and where it is from: the file, or what the environment holds."""
    if path is not None:
        return read_secret(path), f"--secret {str(path)!r}"
    held = os.environ.get(IN_ENVIRONMENT)
    if held:
        return _parsed(held, IN_ENVIRONMENT, "the environment variable"), f"the secret in {IN_ENVIRONMENT}"
    return None


def read_secret(path: Path) -> bytes:
    """The secret key in a file.

    Raises:
        ConfigurationError: it cannot be read, others can read it (but see `accepted`), or it is no key.
    """
    try:
        mode = path.stat().st_mode
        if _open_to_others(mode) and _accepted(path) is None:
            raise ConfigurationError(
                f"secret {str(path)!r}: others on this host can read or write it (mode {stat.S_IMODE(mode):04o}): type "
                f"chmod 600 {path}, keep it where files have modes (not on exFAT, CIFS or /mnt of WSL), or set "
                f"{IN_ENVIRONMENT} to the key"
            )
        text = read_text(path)
    except PermissionError as error:
        raise ConfigurationError(
            f"secret {str(path)!r}: the user of this process (uid {os.getuid()}) may not read it: make it this user's "
            f"(chown), mount it for this user (Docker: uid; Kubernetes: fsGroup), or set {IN_ENVIRONMENT} to the key"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"secret {str(path)!r}: {error.strerror}; `dpeer keygen` makes one") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"secret {str(path)!r}: it holds no key; {_EXAMPLE}") from error
    return _parsed(text, str(path), "the file")


def _open_to_others(mode: int) -> bool:
    return os.name == "posix" and stat.S_IMODE(mode) & 0o077 != 0


def _accepted(path: Path) -> str | None:
    """Why a file is accepted that others can read, in a line; None where it is not.

    Docker and Kubernetes mount secrets read-only, with modes that cannot be changed there. Nobody but the owner may
    write it, who is root or this user.
    """
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o022 or found.st_uid not in (0, os.getuid()) or not os.statvfs(path).f_flag & os.ST_RDONLY:
        return None
    readers = "everybody" if mode & 0o004 else f"group {found.st_gid}"
    return (
        f"secret {str(path)!r}: mode {mode:04o} is accepted, as of a mounted secret, since its file system is "
        f"read-only; {readers} in this container or on this host can read it"
    )


def secret_file(rank: int) -> str:
    """The name of the file with a rank's secret key."""
    return f"rank-{rank}.secret"


def write_secret(rank: int, folder: Path) -> tuple[Path, bytes]:
    """Make a secret key for a rank; returns its file and its public key.

    Raises:
        ConfigurationError: The file exists and is left as it is, or it cannot be written.
    """
    secret = new_secret()
    words = (
        f"The secret key of rank {rank} of a dpeer federation. Whoever has it can take part as rank {rank}:\n"
        "# keep it on the host that runs this rank, and never send it."
    )
    return write_key(folder / secret_file(rank), words, secret), public_of(secret)


def write_key(path: Path, words: str, secret: bytes) -> Path:
    """Write a secret key, below a comment, to a new file that only its owner can read; makes its folder, too.

    Raises:
        ConfigurationError: The file exists and is left as it is, or it cannot be written, or others could read it.
    """
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        found = f"{folder} exists"
        if os.path.lexists(path):  # a link that leads nowhere, too
            found = f"{path} exists: a secret is never overwritten; remove it first if nothing uses it any more"
        raise ConfigurationError(f"--out {str(folder)!r}: {found}") from error
    except OSError as error:
        raise not_written(f"--out {str(folder)!r}", error) from error
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"# {words}\n{secret.hex()}\n")
            file.flush()
            os.fsync(handle)
            open_to_others = _open_to_others(os.fstat(handle).st_mode)
    except OSError as error:
        path.unlink(missing_ok=True)  # an empty one would keep the next attempt from writing it
        raise not_written(f"--out {str(folder)!r}", error) from error
    if open_to_others:
        path.unlink()
        raise ConfigurationError(
            f"--out {str(folder)!r}: its file system keeps no modes, so others on this host could read the secret: put "
            "it on a disk of this host that does, such as below your home folder (on WSL not below /mnt)"
        )
    return path


def keyrings(size: int) -> list[Keyring]:
    """Keys for a federation on one machine, which end with it and are known in its processes alone."""
    secrets = [new_secret() for _ in range(size)]
    listed = {rank: (public_of(secret),) for rank, secret in enumerate(secrets)}
    return [Keyring(secret, listed) for secret in secrets]


def keys_of(rank: int | str, given: object) -> tuple[bytes, ...]:
    """The keys that a federation file gives for a rank: one, or two while it changes.

    Raises:
        ConfigurationError: they are more, fewer or no keys.
    """
    texts = given if isinstance(given, list) else [given]
    if not 1 <= len(texts) <= 2:
        raise ConfigurationError(
            f"rank.{rank}.key has {len(texts)} keys: expected one, or two while the rank changes from one to the other"
        )
    found = tuple(_key(text, f"rank.{rank}.key = {text!r}: {_EXAMPLE}") for text in texts)
    if len({*found}) < len(found):
        raise ConfigurationError(f"rank.{rank}.key = {texts[0]!r} stands twice: give the old key and the new one")
    return found


def _key(text: object, why: str) -> bytes:
    try:
        key = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES or not any(key):
        raise ConfigurationError(why)
    return key


def _parsed(text: str, where: str, what: str) -> bytes:
    """The key in a secret's text. Errors do not show its content."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    why = f"secret {where!r}: {what} holds no key; {_EXAMPLE.replace('prints', 'writes')}"
    return _key(lines[0] if len(lines) == 1 else None, why)


OPERATOR_FILE = "operator.secret"
"""The name of an operator's secret file."""


def write_operator(folder: Path) -> tuple[Path, str]:
    """Make an operator's secret key; returns its file and its public key, hexadecimal.

    Raises:
        ConfigurationError: The file exists and is left as it is, or it cannot be written.
    """
    secret = Ed25519PrivateKey.generate()
    words = (
        "The secret key of an operator of a dpeer federation:\n# keep it off the hosts that train, and never send it."
    )
    public = secret.public_key().public_bytes_raw().hex()
    return write_key(folder / OPERATOR_FILE, words, secret.private_bytes_raw()), public


def read_operator(path: Path, operators: Collection[str] | None) -> Ed25519PrivateKey:
    """An operator's secret key; `operators` are the federation's public ones, None where they are unknown.

    Raises:
        ConfigurationError: It cannot be read, others can read its file, or the federation file does not list it.
    """
    secret = Ed25519PrivateKey.from_private_bytes(read_secret(path))
    public = secret.public_key().public_bytes_raw().hex()
    if operators is not None and public not in operators:
        listed = ", ".join(f"{one[:16]}…" for one in operators) or "none"
        raise ConfigurationError(
            f"--operator {str(path)!r}: the federation file does not list its public key {public[:16]}…; `operators` "
            f"has {listed}"
        )
    return secret


def signers_of(settings: OperatorSettings) -> Signers:
    """The operators who sign member lists; a federation file without any is refused."""
    if not settings.operators:
        raise ConfigurationError(
            "no `operators` stand in the federation file, and without one no member list can be signed: dpeer init "
            "--operator, or dpeer keygen --operator, before the start"
        )
    return Signers(tuple(settings.operators), settings.signers)


def listed_keys(files: Sequence[Path]) -> dict[bytes, Listed]:
    """The keys of all files, of which nothing but `rank.N.key` is read.

    Raises:
        ConfigurationError: a file cannot be read or lists no key, or two ranks have one key; names them.
    """
    found: dict[bytes, Listed] = {}
    for file in files:
        ranks = read_toml(file, "--keys").get("rank")
        tables = ranks.items() if isinstance(ranks, dict) else ()
        keys = {rank: own["key"] for rank, own in tables if isinstance(own, dict) and "key" in own}
        if not keys:
            raise ConfigurationError(
                f"--keys {str(file)!r}: it lists no keys: expected a federation file, or lines such as rank.0.key = "
                '"…", as `dpeer keygen` prints them'
            )
        for rank, given in keys.items():
            name = f"rank {rank}" if len(files) == 1 else f"{file.name} rank {rank}"
            for key in keys_of(rank, given):
                if key in found:
                    raise ConfigurationError(
                        f"--keys {str(file)!r}: rank.{rank}.key is {found[key].name}'s, too: each rank has keys of its "
                        "own (dpeer keygen)"
                    )
                found[key] = Listed(str(file), name)
    return found
