"""Keys of operators: made, read and listed."""

import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpeer.federation.config import load
from dpeer.federation.keys import read_secret
from dpeer.federation.operators import check_operators, write_operator
from dpeer.federation.settings import Settings


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
        check_operators(settings)
    check_operators(Settings())
