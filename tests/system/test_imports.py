"""What a peer does without."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TRAIN = """
import sys

from dpeer.cli import main

RUN = ["simulate", "--size", "2", "--rounds", "1", "--local-steps", "1", "--algorithm", "dfedsmdc", "--overwrite"]
for more in ([], ["--privacy", "sample", "--noise-multiplier", "1", "--records", "200"]):
    try:
        main([*RUN, *more])
    except SystemExit as ended:
        assert ended.code == 0
print(sorted(name for name in sys.modules if name in ("torch._dynamo", "torch._inductor")))

import torch

torch.optim.SGD([torch.zeros(1)], lr=1.0)
print("torch._dynamo" in sys.modules)
"""


def test_a_training_peer_has_not_imported_torchs_compiler(tmp_path: Path) -> None:
    """The first optimizer of torch.optim would, and a mode that watches operations: 0.7 s and 73 MB in every peer."""
    ended = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=True
    )
    *_, before, after = ended.stdout.splitlines()
    assert before == "[]"
    assert after == "True", "the test looks for the right thing"
