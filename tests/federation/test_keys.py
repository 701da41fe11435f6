"""Keys of peers and operators: made, read and listed, or refused."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpeer.exceptions import ConfigurationError
from dpeer.federation.addresses import listen_address
from dpeer.federation.config import load
from dpeer.federation.keys import keyring, public_keys, read_secret, write_operator, write_secret
from dpeer.federation.settings import Settings
from dpeer.peer.transports.curve import public_of


@pytest.fixture(autouse=True)
def no_secret_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPEER_SECRET", raising=False)


@pytest.fixture
def made(tmp_path: Path) -> list[tuple[Path, str]]:
    """By rank: the file of the secret, and the public key as a federation file has it."""
    found = [write_secret(rank, tmp_path / "keys") for rank in range(3)]
    return [(path, public.hex()) for path, public in found]


def settings(keys: dict[int, Any], **more: Any) -> Settings:
    rank = {number: {"key": key} for number, key in keys.items()}
    return Settings.model_validate({"size": 3, "rank": rank, **more})


def test_a_secret_is_its_owners_alone_and_is_never_overwritten(tmp_path: Path) -> None:
    path, public = write_secret(2, tmp_path / "new" / "folder")
    assert path.name == "rank-2.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert public_of(read_secret(path)) == public
    content = path.read_bytes()
    with pytest.raises(ConfigurationError):
        write_secret(2, path.parent)
    assert path.read_bytes() == content
    assert public.hex() not in path.read_text()
    link = path.with_name("rank-3.secret")
    link.symlink_to("elsewhere")
    with pytest.raises(ConfigurationError):
        write_secret(3, path.parent)
    assert not link.exists()


def test_with_the_keys_of_all_ranks_a_peer_may_listen_anywhere(made: list[tuple[Path, str]]) -> None:
    addressed = {rank: {"key": key, "address": f"tcp://10.0.0.{rank}:7700"} for rank, (_, key) in enumerate(made)}
    addressed[1]["bind"] = "tcp://0.0.0.0:7700"
    given = Settings.model_validate({"size": 3, "rank": addressed, "secret": str(made[1][0])})
    ring = keyring(given, 3, 1)
    assert ring.public.hex() == made[1][1]
    assert {rank: [key.hex() for key in keys] for rank, keys in ring.listed.items()} == {
        rank: [key] for rank, (_, key) in enumerate(made)
    }
    assert listen_address(given, 3, 1, encrypted=True) == "tcp://0.0.0.0:7700"


def test_a_rank_may_have_two_keys_while_it_changes_them(made: list[tuple[Path, str]], tmp_path: Path) -> None:
    path, public = write_secret(1, tmp_path / "later")
    both = settings({0: made[0][1], 1: [made[1][1], public.hex()], 2: made[2][1]})
    for secret in (made[1][0], path):
        ring = keyring(both.model_copy(update={"secret": secret}), 3, 1)
        assert len(ring.listed[1]) == 2
    with pytest.raises(ConfigurationError):
        public_keys(settings({0: made[0][1], 1: [made[1][1], public.hex(), "ab" * 32], 2: made[2][1]}), range(3))


def test_a_secret_of_another_rank_or_of_none_is_refused(made: list[tuple[Path, str]], tmp_path: Path) -> None:
    keys = dict(enumerate(key for _, key in made))
    with pytest.raises(ConfigurationError):
        keyring(settings(keys, secret=str(made[2][0])), 3, 0)
    stray, _ = write_secret(0, tmp_path / "stray")
    with pytest.raises(ConfigurationError):
        keyring(settings(keys, secret=str(stray)), 3, 0)


def test_keys_without_a_secret_and_a_secret_without_keys_are_refused(made: list[tuple[Path, str]]) -> None:
    keys = dict(enumerate(key for _, key in made))
    with pytest.raises(ConfigurationError):
        keyring(settings(keys), 3, 0)
    with pytest.raises(ConfigurationError):
        keyring(settings({}, secret=str(made[0][0])), 3, 0)


def test_the_environment_may_hold_the_secret_and_the_setting_wins(
    made: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = dict(enumerate(key for _, key in made))
    monkeypatch.setenv("DPEER_SECRET", read_secret(made[0][0]).hex())
    assert keyring(settings(keys), 3, 0) is not None
    assert keyring(settings({}), 3, 0) is None, "a run without keys does not mind it"
    with pytest.raises(ConfigurationError):
        keyring(settings(keys), 3, 1)
    assert keyring(settings(keys, secret=str(made[2][0])), 3, 2) is not None
    monkeypatch.setenv("DPEER_SECRET", "nonsense")
    with pytest.raises(ConfigurationError) as raised:
        keyring(settings(keys), 3, 0)
    assert "nonsense" not in str(raised.value)


def test_an_operators_secret_is_its_owners_alone_and_belongs_to_the_printed_key(tmp_path: Path) -> None:
    path, public = write_operator(tmp_path / "keys")
    assert path == tmp_path / "keys" / "operator.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert public not in path.read_text()
    secret = Ed25519PrivateKey.from_private_bytes(read_secret(path))
    assert secret.public_key().public_bytes_raw().hex() == public


def test_operators_come_from_a_file_or_from_the_command_line(tmp_path: Path) -> None:
    one, two = "ab" * 32, "cd" * 32
    (tmp_path / "dpeer.toml").write_text(f'operators = ["{one}", "{two}"]\nsigners = 2\nname = "one"\n')
    flags = {"operators": f"{one}, {two}", "signers": 2, "name": "one"}
    for settings in (load(tmp_path / "dpeer.toml", {}), load(None, flags)):
        assert settings.operators == [one, two]
