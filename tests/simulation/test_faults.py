"""The file of `--faults`; tests/messages/simulation.py holds its refusals."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.folders import refuse_faults
from dpeer.federation.settings import Settings
from dpeer.simulation.faults import check_faults, read_faults


@pytest.mark.parametrize("check", [partial(check_faults, size=4, rounds=20), refuse_faults])
def test_a_run_that_had_faults_is_not_resumed_without_them(check: Callable[..., None], tmp_path: Path) -> None:
    settings = Settings(size=4, out=tmp_path)
    (tmp_path / "summary.json").write_text('{"algorithm": "fedavg", "size": 4, "settings": {"faults": null}}')
    check(settings, resume=True)
    (tmp_path / "summary.json").write_text('{"algorithm": "fedavg", "size": 4, "settings": {"faults": "f.toml"}}')
    with pytest.raises(ConfigurationError):
        check(settings, resume=True)
    check(settings, resume=False)


def test_a_file_has_its_faults_with_their_defaults(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(
        '[[fault]]\nwhat = "slow"\nranks = [3, 1]\nround = 4\n'
        '[[fault]]\nwhat = "cut"\nranks = [2]\nround = 1\nfor = 0.5\n'
    )
    found = read_faults(path, 4, 5)
    assert found.round_seconds == 60
    slow, cut = found.fault
    assert (slow.what, slow.ranks, slow.round, slow.lasts, slow.times) == ("slow", [3, 1], 4, None, 5)
    assert (cut.what, cut.ranks, cut.round, cut.lasts) == ("cut", [2], 1, 0.5)
