"""`dpeer init`, as it is typed: what it writes, refuses and leaves alone. That it starts is in tests/system."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpeer.federation import config, keys
from dpeer.federation.addresses import addresses, listen_address
from dpeer.federation.settings import Settings
from tests.conftest import Ended

Run = Callable[..., Ended]

ROOT = Path(__file__).parents[2]

LAST = """\
    dpeer check{named} --rank {rank}
    dpeer start{named} --rank {rank}
docs/running.md, "What a site does", has every step: files, keys, firewall, data.
"""

HOSTS = "10.8.0.10 Clinic A\n10.8.0.11 Clinic B\n- Clinic C\n10.8.0.13 Clinic D\n"


def loaded(file: Path = Path("dpeer.toml")) -> Settings:
    return config.load(file, {})


def uncommented(text: str) -> str:
    """The text with every commented default or example in force."""
    changed, count = re.subn(r"^#(?=[a-z_]+ = )", "", text, flags=re.MULTILINE)
    assert count > 10
    return changed


def test_without_anything_it_is_eight_peers_on_this_host(dpeer: Run) -> None:
    ended = dpeer("init")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("dpeer.toml: 8 peers, ring\n")
    assert [str(path) for path in Path().rglob("*") if path.is_file()] == ["dpeer.toml"]
    assert loaded().model_fields_set == {"size", "rank"}
    assert addresses(loaded(), 8)[3] == "tcp://127.0.0.1:7703"
    assert "dpeer start --rank R" in ended.out


def test_each_commented_line_of_the_file_is_a_setting_with_its_default_or_an_example(dpeer: Run) -> None:
    assert dpeer("init", "--size", 3).code == 0
    before = loaded()
    text = Path("dpeer.toml").read_text()
    examples = {"name", "task_options", "schema", "target_epsilon", "deadline", "operators"}
    Path("all.toml").write_text(uncommented(re.sub("^#(key|secret) = .*", "", text, flags=re.MULTILINE)))
    after = loaded(Path("all.toml"))
    assert len(after.model_fields_set) > len(before.model_fields_set) + 10
    different = {name for name in Settings.model_fields if getattr(after, name) != getattr(before, name)}
    assert different == examples


def test_keys_and_an_operator_are_those_that_the_file_lists(dpeer: Run) -> None:
    assert dpeer("init", "trial", "--size", 3, "--keys", "--operator").code == 0
    settings = loaded(Path("trial/dpeer.toml"))
    for rank in range(3):
        ring = keys.keyring(settings.of_rank(rank), 3, rank)
        assert ring.public in ring.listed[rank]
    secret = Ed25519PrivateKey.from_private_bytes(keys.read_secret(Path("trial/keys/operator.secret")))
    assert settings.operators == [secret.public_key().public_bytes_raw().hex()]
    assert {path.stat().st_mode & 0o777 for path in Path("trial/keys").iterdir()} == {0o600}


def test_settings_that_are_given_are_in_the_file_and_paths_count_from_it(dpeer: Run) -> None:
    shutil.copy(ROOT / "examples" / "visits-schema.toml", "visits.toml")
    given: Mapping[str, Any] = {
        "rounds": 7, "body_lr": 0.01, "wait": 7200.0, "quorum": 2, "task": "csv",
        "task_options": {"path": "tables/site-{rank}.csv"},
    }  # fmt: skip
    words = ["--size", 3, "--rounds", 7, "--body-lr", "0.01", "--wait", "2h", "--quorum", 2, "--task", "csv"]
    words += ["--task-option", "path=tables/site-{rank}.csv", "--schema", "visits.toml"]
    assert dpeer("init", "trial", *words).code == 0
    settings = loaded(Path("trial/dpeer.toml"))
    assert {name: getattr(settings, name) for name in given} == given
    assert str(settings.schema) == "trial/visits.toml"
    assert Path("trial/visits.toml").read_text() == Path("visits.toml").read_text()
    assert settings.model_fields_set == {*given, "size", "schema", "rank"}


def test_declared_weights_stand_with_the_ranks(dpeer: Run) -> None:
    assert dpeer("init", "--size", 3, "--weights", "declared:400,20,30.5").code == 0
    text = Path("dpeer.toml").read_text()
    assert 'weights = "declared"\n' in text
    assert "[rank.2]\nweight = 30.5\n" in text
    assert loaded().weights == "declared:400,20,30.5"
    (line,) = dpeer("init", "other", "--size", 3, "--weights", "declared").complaints
    assert line.startswith("dpeer: weights declared: no rank has a weight: write weight = NUMBER into each [rank.N] of")


def test_the_last_lines_are_a_sites_commands_and_name_a_section_that_is_there(dpeer: Run) -> None:
    Path("hosts.txt").write_text(HOSTS)
    assert dpeer("init", "here").out.endswith(LAST.format(named=" --federation here/dpeer.toml", rank="R"))
    own = dpeer("init", "own", "--hosts", "hosts.txt").out
    assert own.endswith("    dpeer keygen --rank ITS RANK --out keys\n" + LAST.format(named="", rank="ITS RANK"))
    assert "keygen" not in dpeer("init", "kept", "--hosts", "hosts.txt", "--keys").out
    assert "\n### What a site does\n" in (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    assert loaded(Path("own/dpeer.toml")).wait == 7 * 86400, "sites of several hosts do not start within five minutes"


def test_sites_that_make_their_own_keys_put_them_in_the_place_of_a_comment(dpeer: Run) -> None:
    Path("hosts.txt").write_text(HOSTS)
    assert dpeer("init", "--hosts", "hosts.txt").code == 0
    assert not Path("keys").exists()
    text = Path("dpeer.toml").read_text()
    for rank in range(4):
        line = dpeer("keygen", "--rank", rank, "--out", "keys").out.strip()
        text = re.sub(rf'#key = "64 digits, as `dpeer keygen --rank {rank} .*', line, text)
    Path("dpeer.toml").write_text(text)
    assert keys.keyring(loaded().of_rank(2), 4, 2) is not None


def test_an_operators_key_is_a_line_of_the_federation_file(dpeer: Run) -> None:
    line = dpeer("keygen", "--operator", "--out", "keys").out.strip()
    Path("dpeer.toml").write_text(f'name = "ward-study-1"\n{line}\n')
    assert len(loaded().operators) == 1
    assert Path("keys/operator.secret").exists()


def test_a_site_may_replace_the_key_that_the_keeper_has_made(dpeer: Run) -> None:
    Path("hosts.txt").write_text(HOSTS)
    assert dpeer("init", "--hosts", "hosts.txt", "--keys").code == 0
    line = dpeer("keygen", "--rank", 2, "--out", "own").out.strip()
    before, after = Path("dpeer.toml").read_text().split("[rank.2]")
    Path("dpeer.toml").write_text(f"{before}[rank.2]{re.sub('key = .*', line, after, count=1)}")
    settings = config.load(None, {"secret": Path("own/rank-2.secret")})
    assert keys.keyring(settings.of_rank(2), 4, 2) is not None


@pytest.mark.parametrize("there", ["dpeer.toml", "keys/rank-1.secret", "keys/operator.secret"])
def test_nothing_is_overwritten_and_nothing_else_is_written(dpeer: Run, there: str) -> None:
    path = Path(there)
    path.parent.mkdir(exist_ok=True)
    path.write_text("precious")
    ended = dpeer("init", "--size", 3, "--keys", "--operator")
    assert ended.code == 2
    assert ended.err == f"dpeer: {there!r} exists, and nothing is overwritten: name another folder\n"
    assert [str(one) for one in Path().rglob("*") if one.is_file()] == [there]
    assert path.read_text() == "precious"


def test_a_disk_that_is_full_ends_it_in_one_line(dpeer: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    ended = dpeer("init", "trial", "--size", 3)
    assert (ended.code, ended.err) == (75, "dpeer: 'trial' cannot be written: No space left on device\n")


def test_ranks_of_containers_listen_at_all_interfaces(dpeer: Run) -> None:
    Path("hosts.txt").write_text("10.8.0.10:7800\n[fd00::3]\nrelay://relay.example:7790\n- Clinic\n10.8.0.14\n")
    assert dpeer("init", "--hosts", "hosts.txt", "--keys", "--bind-all").code == 0
    settings = loaded()
    assert [settings.rank[rank].bind for rank in range(5)] == [
        "tcp://*:7800",
        "tcp://*:7700",
        None,
        None,
        "tcp://*:7700",
    ]
    assert listen_address(settings, 5, 0, encrypted=True) == "tcp://*:7800"
