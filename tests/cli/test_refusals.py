"""Refusals of the command line: one line on stderr, exit code 2, and no result of a run touched."""

import contextlib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.cli import main
from tests.conftest import SMALL_TASK

TASKS = (
    SMALL_TASK
    + """

def typo_in_head(rank, size, seed):
    good = task(rank, size, seed)
    return Task(model=good.model, head=("fcc",), train=good.train, test=good.test)


def batch_norm(rank, size, seed):
    good = task(rank, size, seed)
    good.model.body = nn.Sequential(good.model.body, nn.BatchNorm1d(6))
    return good


def raising(rank, size, seed):
    raise FileNotFoundError("no scans\\nfor this site")
"""
)

VISITS = "".join(f"{20 + n},{60 + n % 9},{'yes' if n % 3 else 'no'}\n" for n in range(40))
FILES = {
    "mine.py": TASKS,
    "visits.csv": "age,pulse,outcome\n" + VISITS,
    "new.csv": "age,pulse\n50,70\n",
    "few.csv": "pulse\n1\n",
    "strange.csv": "age,pulse,outcome\n1,2,maybe\n",
    "schema.toml": "edited",
    "typo.toml": "topolgy = 'ring'\n",
    "open.toml": "size = 2\n[rank.0]\naddress = 'tcp://0.0.0.0:7700'\n",
    "unreached.toml": "size = 4\n[rank.0]\naddress = 'tcp://127.0.0.1:7700'\n",
    "three.txt": "0 1\n1 2\n",
    "folder.png/empty": "",
}
RUN = (
    "simulate --size 2 --body-epochs 1 --task csv --task-option path=visits.csv --task-option target=outcome "
    "--partition iid --alone never"
)
TASK = "simulate --overwrite --task"
CLIENT = "privacy --noise-multiplier 5 --rounds 20"
SAMPLE = "privacy --privacy sample --batch-size 100 --records 2000 --steps 20 --rounds 15 --noise-multiplier 1"

REFUSED = {
    # The command line as a whole.
    "clutser": "unknown command 'clutser'",
    "--verison": "No such option '--verison'. Did you mean '--version'?",
    "simulate --topolgy ring": "No such option '--topolgy'.",
    "start --lr 1": "No such option '--lr'. (Did you mean one of: '--body-lr', '--head-lr'",
    "start --rank 0 --privacy record": "'none', 'client', 'sample': `dpeer settings privacy` says what they do",
    "start --learning-rate 1": "No such option '--learning-rate': `dpeer settings WORD` finds a setting",
    "simulate surplus=1": "Got unexpected extra argument (surplus=1)",
    "cluster --faults faults.toml": "--faults: only dpeer simulate",
    # Settings of a run.
    "simulate --topology rnig": "unknown topology 'rnig'",
    "simulate --size 1": "--size = 1",
    "simulate --size eight": "'--size': 'eight'",
    "simulate --body-lr -1": "--body-lr = -1.0",
    "simulate --keep first": "'--keep': 'first'",
    "simulate --compress int3": "--compress = 'int3': expected float32, ",
    "simulate --size 2 --overwrite --compress bfloat16 --algorithm dis-pfl": "--compress bfloat16, --robust none",
    "simulate --task-option data": "--task-option 'data'",
    "simulate --federation none.toml": "--federation 'none.toml': No such file or directory",
    "simulate --federation typo.toml": "unknown key 'topolgy' in typo.toml",
    # Tasks and algorithms; an earlier run stays although --overwrite is given.
    f"{TASK} digit": "unknown task 'digit'",
    f"{TASK} mine.py:tsk": "rank 0: task 'mine.py:tsk' has no 'tsk': did you mean 'task'?",
    f"{TASK} mine.py:task --algorithm dfedmcd": "unknown algorithm 'dfedmcd'",
    f"{TASK} mine.py:typo_in_head --size 2": "rank 0: the task's head prefix 'fcc'",
    "start --overwrite --rank 0 --task mine.py:batch_norm --size 2": "BatchNorm1d 'body.1'",
    f"{TASK} mine.py:raising --size 2": "task 'mine.py:raising' failed: FileNotFoundError: no scans for this site",
    f"{TASK} mine.py:task --partition iid": "--partition iid is for built-in tasks (digits",
    f"{TASK} mine.py:task --keep best --validation 0": "--keep best needs validation data",
    f"{TASK} mine.py:task --keep blend": "--keep blend with --alone auto: it needs the local-only model",
    # Ranks and addresses.
    "start": "Missing option '--rank'.",
    "start --rank 8": "rank 8 does not exist in a federation of size 8: 0..7",
    "start --rank one": "--rank 'one': expected a number from 0, or `--rank env`",
    "start --rank 0 --base-port 65530": "--base-port 65530",
    "start --rank 0 --federation open.toml": "rank 0 would listen at 'tcp://0.0.0.0:7700'",
    "start --rank 1 --federation unreached.toml": "ranks 1 and 2 are neighbors and neither has an address",
    # A folder with a run of two rounds.
    "simulate --size 2 --task mine.py:task": "'dpeer-run/rank-0' holds an earlier run",
    "simulate --resume --overwrite": "--resume and --overwrite exclude each other",
    f"{RUN} --rounds 3 --resume --body-lr 0.5": "is of another run: body_lr is 0.05 there and 0.5 here",
    f"{RUN} --resume --rounds 1": "round-00000001' has completed 2 rounds",
    "worth dpeer-run/rank-0 --give-away no/w.json": "--give-away 'no/w.json' is in a folder that does not exist",
    "worth dpeer-run/rank-0 --give-away dpeer-run": "--give-away 'dpeer-run' is a folder",
    "worth dpeer-run --give-away w.json": "--give-away is for one rank",
    "worth --combine a.json --device cpu": "--combine reads files and trains nothing",
    "worth a b": "2 paths: name one rank's or run's folder",
    "worth a": "no folder 'a' exists",
    "predict --run dpeer-run/rank-0 --input few.csv --output out.csv": "'few.csv': column 'age' is not in the file",
    "predict --run dpeer-run/rank-0 --input none.csv --output out.csv": "'none.csv' does not exist",
    "predict --run dpeer-run/rank-0 --input new.csv --output new.csv": "--output 'new.csv' is the input",
    "predict --run dpeer-run/rank-0 --input new.csv --output .": "--output '.' is a folder",
    "predict --run dpeer-run/rank-0 --input new.csv --output a/b/out.csv": "--output 'a/b/out.csv' cannot be written",
    "predict --run dpeer-run --input new.csv --output out.csv": ": name one of rank-0, rank-1",
    "evaluate --run dpeer-run/rank-0 --input new.csv": "'new.csv' has no column 'outcome'",
    "evaluate --run dpeer-run/rank-0 --input strange.csv": "'strange.csv': column 'outcome', 1 of 1 cells",
    "export --run dpeer-run/rank-0 --format onnx --output m": "--format has been removed: leave it out",
    "export --run dpeer-run/rank-0 --output .": "--output '.' is a folder: name a file",
    "export --run dpeer-run/rank-0 --output m.pt": "--output 'm.pt': the model is written as ONNX: name a file that",
    "model dpeer-run/rank-0": "'dpeer-run/rank-0/model.safetensors' exists: give --overwrite",
    "model dpeer-run/rank-0 --output m.pt": "--output 'm.pt': name a file that ends in .safetensors",
    "model dpeer-run/rank-0 --output no/m.safetensors": "--output 'no/m.safetensors': no such folder: 'no'",
    "report gone": "'gone' is no folder",
    # Pages.
    "dashboard gone": "no folder 'gone' exists; name the --out of a run, or rank-R in it",
    "dashboard dpeer-run --listen dpeer-run": "'--listen': 'dpeer-run'",
    "dashboard dpeer-run --listen *:7790": "--listen *:7790: name one address of this host",
    # Other commands.
    "keygen --rank -1": "--rank -1: expected a rank, from 0",
    "keygen": "keygen: give either --rank R or --operator",
    "start --rank 0 --operators ab": "operators.0 = 'ab'",
    "compare --shard 9/8": "'--shard': '9/8'",
    "algorithms --rho 0.1": "No such option '--rho'",
    "algorithms dfedavg": "unknown algorithm or preset 'dfedavg': did you mean 'dfedavgm'?",
    "schema init visits.csv": "--out 'schema.toml' exists, maybe with edits",
    "schema init visits.csv --out new.toml --target outcom": "unknown column of --target 'outcom' in 'visits.csv'",
    "schema init visits.csv --out none/x.toml": "--out 'none/x.toml' cannot be written",
    "schema check visits.csv --schema none.toml": "schema 'none.toml'",
    "schema check": "Missing argument 'FILE.csv|.parquet'.",
    # Graphs.
    "topology show --size ''": "'--size': ''",
    "topology show --size 8,16": "'--size': '8,16'",
    "topology show --size 2001": "--size 2001",
    "topology show --topology file:three.txt --size 4": "file:three.txt: joins 3 peers",
    "topology spectral-gap --topology ring,grid --size 8,13": "grid: size 13 is prime, which leaves only a line",
    "topology spectral-gap --size eight": "--size 'eight'",
    "topology show --plot a.pdf": "--plot 'a.pdf': name a file that ends in .png or .svg",
    "topology show --plot no/such/a.png": "--plot 'no/such/a.png' cannot be written: No such file",
    "topology show --plot folder.png": "--plot 'folder.png' cannot be written: Is a directory",
    "topology show --plot a.png --size 1001": "--size 1001",
    "topology spectral-gap --bandwidth 100Mbit": "--bandwidth needs the size of a body",
    "topology spectral-gap --body-bytes 45MB --bandwidth 100MB": "--bandwidth '100MB'",
    "topology spectral-gap --body-bytes -1": "--body-bytes '-1'",
    # Privacy of a peer.
    "privacy": "--noise-multiplier or --target-epsilon, --rounds must be given",
    "privacy --rounds 4": "--noise-multiplier or --target-epsilon must be given",
    f"{CLIENT} --target-epsilon 4": "--target-epsilon 4 with --noise-multiplier 5",
    f"{CLIENT} --parameters 60000": "--size must be given",
    f"{CLIENT} --accountant server": "'--accountant': 'server'",
    f"{CLIENT} --privacy server": "'--privacy': 'server'",
    f"{CLIENT} --delta 0.125 --size 8": "delta 0.125 with 8 peers: at 1/8 or more",
    f"{CLIENT} --delta 0": "'--delta': 0.0",
    f"{CLIENT} --delta nan": "delta nan",
    f"{CLIENT} --clip-norm nan": "--clip-norm nan",
    f"{CLIENT} --noise-multiplier nan": "--noise-multiplier nan",
    "privacy --target-epsilon nan --rounds 4": "target epsilon nan",
    f"{CLIENT} --rounds 0": "'--rounds': 0 is not in the range",
    f"{CLIENT} --rounds 2.5": "'--rounds': '2.5'",
    f"{CLIENT} --batch-size 32": "--batch-size 32",
    f"{SAMPLE} --sampling-rate 0.1": "--sampling-rate has been removed",
    f"{CLIENT} --head-steps 5": "--head-steps 5",
    f"{CLIENT} --records 5": "--records 5",
    # Privacy of a record.
    "privacy --privacy sample --noise-multiplier 1": "--rounds, --batch-size, --records, --steps must be given",
    f"{SAMPLE} --size 8": "--parameters must be given",
}
"""By arguments a fragment of the line on stderr, with the key and the value."""


def results(folder: Path) -> dict[Path, bytes]:
    """Every file but locks, and logs, to which a peer appends why it ended."""
    paths = [
        path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc" and path.name != "log.jsonl"
    ]
    return {path: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of two rounds, and files for mistakes."""
    made = tmp_path_factory.mktemp("refusals")
    for name, content in FILES.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(content)
    with contextlib.chdir(made), pytest.raises(SystemExit) as ended:
        main([*shlex.split(RUN), "--rounds", "2"])
    assert ended.value.code == 0
    return made


@pytest.fixture(scope="module")
def before(folder: Path) -> dict[Path, bytes]:
    return results(folder)


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_refusal_is_one_line_with_code_2_and_touches_no_result(
    arguments: str, folder: Path, before: dict[Path, bytes], dpeer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ended = dpeer(*shlex.split(arguments))
    (line,) = ended.complaints
    assert line.startswith("dpeer: ")
    assert REFUSED[arguments] in line
    assert (ended.code, ended.out) == (2, "")
    assert results(folder) == before
