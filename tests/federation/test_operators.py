"""Keys of operators: made, read and listed."""

import stat
from pathlib import Path

from dpeer.federation.config import load
from dpeer.federation.keys import keyring, public_keys, write_secret
from dpeer.federation.operators import changes, check_operators, read_operator, write_operator
from dpeer.federation.settings import Settings
from dpeer.peer.core.epoch import operator_of


def test_an_operators_secret_is_its_owners_alone_and_belongs_to_the_printed_key(tmp_path: Path) -> None:
    path, public = write_operator(tmp_path / "keys")
    assert path == tmp_path / "keys" / "operator.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert public not in path.read_text()
    secret = read_operator(path, ("cd" * 32, public))
    assert operator_of(secret) == public


def test_operators_come_from_a_file_or_from_the_command_line(tmp_path: Path) -> None:
    one, two = "ab" * 32, "cd" * 32
    (tmp_path / "dpeer.toml").write_text(f'operators = ["{one}", "{two}"]\nsigners = 2\nname = "one"\n')
    assert check_operators(load(tmp_path / "dpeer.toml", {})) == (one, two)
    assert check_operators(load(None, {"operators": f"{one}, {two}", "name": "one"})) == (one, two)
    assert check_operators(Settings()) == ()


def test_the_line_at_the_start_names_who_may_change_the_federation() -> None:
    assert "cannot change: its file lists no operator's key" in changes(0, 1)
    assert "its operator may let" in changes(1, 1)
    assert "any operator may let" in changes(3, 1)
    assert "2 of 3 operators may let" in changes(3, 2)


def test_with_operators_the_file_may_have_a_table_for_a_rank_that_joins(tmp_path: Path) -> None:
    secret, public = write_secret(2, tmp_path)
    text = 'size = 2\n[rank.0]\nkey = "{}"\n[rank.1]\nkey = "{}"\n[rank.2]\nsecret = "{}"\naddress = "tcp://h:7"\n'
    path = tmp_path / "dpeer.toml"
    path.write_text(f'operators = ["{"ab" * 32}"]\n' + text.format("cd" * 32, "ef" * 32, secret))
    own = load(path, {}).of_rank(2, joins=True)
    ring = keyring(own, 2, 2)
    assert ring is not None
    assert ring.listed == {0: (bytes.fromhex("cd" * 32),), 1: (bytes.fromhex("ef" * 32),), 2: (public,)}


def test_the_key_of_a_rank_beyond_the_size_lets_nobody_in_before_its_epoch() -> None:
    ranks = {rank: {"key": f"{rank + 1:02x}" * 32} for rank in range(4)}
    settings = Settings.model_validate({"size": 3, "operators": ["ab" * 32], "rank": ranks})
    assert public_keys(settings, 3).keys() == {0, 1, 2}
