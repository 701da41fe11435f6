"""Text files as Windows' editors save them, and programs under an ASCII locale."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpeer.encoding import read_text
from dpeer.toml_text import read_toml


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_federation_file_in_each_encoding(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "dpeer.toml"
    path.write_bytes('task = "bäsuche"\n'.encode(encoding))
    assert read_text(path) == 'task = "bäsuche"\n'
    assert read_toml(path, "federation") == {"task": "bäsuche"}


@pytest.mark.slow
def test_a_name_with_an_umlaut_under_an_ascii_locale(tmp_path: Path) -> None:
    (tmp_path / "bäsuche.csv").write_text("age,outcome\n" + "50,yes\n60,no\n" * 20, encoding="utf-8")
    (tmp_path / "schema.toml").write_text(
        'format = 1\n[target]\ncolumn = "outcome"\nclasses = ["no", "yes"]\n[columns.age]\nkind = "number"\n'
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "dpeer", "schema", "check", "bäsuche.csv"]
    found = subprocess.run(command, cwd=tmp_path, env=os.environ | plain, capture_output=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "bäsuche.csv fits schema.toml: 40 rows" in found.stdout.decode()
