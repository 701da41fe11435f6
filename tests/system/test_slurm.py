"""The script of Slurm in examples/deploy as it runs, with a stand-in for Slurm's command."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "deploy" / "slurm" / "dpeer.sbatch"
QUICK = ("--rounds", "2", "--local-steps", "1", "--head-epochs", "1", "--alone", "never", "--threads", "1")

SRUN = """#!/bin/bash
# Stands in for Slurm's: a process for each task, all on this host.
label=""
while [[ $1 == -* ]]; do [[ $1 == --label ]] && label=1; shift; done
pids=()
for ((rank = 0; rank < SLURM_NTASKS; rank++)); do
    if [[ $label ]]; then echo "$rank: $("$@")"; else SLURM_PROCID=$rank "$@" & pids+=($!); fi
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
"""


@pytest.mark.slow
def test_the_script_of_slurm_runs_a_federation(tmp_path, free_ports):
    number = (free_ports(20) - 20_000 + 9) // 10  # the job's, from which its ports follow
    programs = {
        "srun": SRUN, "hostname": "#!/bin/sh\necho 127.0.0.1\n",
        "dpeer": f'#!/bin/sh\nexec {sys.executable} -m dpeer "$@"\n',
    }  # fmt: skip
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    job = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": str(number), "SLURM_NTASKS": "2"}
    ended = subprocess.run(
        ["bash", SCRIPT, *QUICK], cwd=tmp_path, check=False, capture_output=True, text=True, env={**os.environ, **job}
    )
    assert ended.returncode == 0, ended.stderr
    for rank in range(2):
        assert json.loads((tmp_path / f"run/rank-{rank}/summary.json").read_text())["status"] == "done"
    secret = tmp_path / f"federation-{number}-0" / "keys" / "rank-0.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert "--resume-or-start" in SCRIPT.read_text(), "submitted again, it goes on"
