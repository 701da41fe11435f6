"""Refusals of the command line: one line on stderr, exit code 2, and no result of a run touched."""

import contextlib
import re
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
SAMPLE = "privacy --privacy sample --sampling-rate 0.05 --steps 20 --rounds 15 --noise-multiplier 1"

REFUSED = {
    # The command line as a whole.
    "clutser": "unknown command 'clutser': did you mean 'cluster'? valid: init, check, start, …",
    "--verison": "No such option '--verison'. Did you mean '--version'?",
    "simulate --topolgy ring": "No such option '--topolgy'. Did you mean '--topology'?",
    "simulate surplus=1": "Got unexpected extra argument (surplus=1); each KEY=VALUE needs a --task-option of its own",
    "cluster --faults faults.toml": (
        "--faults: only dpeer simulate has a clock and a network of its own (and dpeer compare, which uses it)"
    ),
    # Settings of a run.
    "simulate --topology rnig": "unknown topology 'rnig': did you mean 'ring'? valid: ring, grid, …",
    "start --rank 0 --topology rnig": "unknown topology 'rnig': did you mean 'ring'? valid: ring, grid, …",
    "simulate --size 1": "--size = 1: input should be greater than or equal to 2",
    "simulate --size eight": "Invalid value for '--size': 'eight' is not a valid integer.",
    "simulate --body-lr -1": "--body-lr = -1.0: input should be greater than 0",
    "simulate --keep first": "Invalid value for '--keep': 'first' is not one of 'auto', 'best', 'last'.",
    "simulate --preset paper-cifr": (
        "unknown preset 'paper-cifr': did you mean 'paper-cifar'? valid: paper-cifar, paper-cifar-pathological, …"
    ),
    "simulate --task-option data": "--task-option 'data': expected KEY=VALUE, for example data=/path/to/data",
    "simulate --federation none.toml": "--federation 'none.toml': No such file or directory",
    "simulate --federation typo.toml": (
        "unknown key 'topolgy' in typo.toml: did you mean 'topology'? valid: topology, size, …"
    ),
    "simulate --baseline locl": "unknown algorithm 'locl': did you mean 'local'? valid: local, dfedavgm, …",
    "simulate --algorithm dfedavgm --baseline dfedavgm": (
        "--baseline dfedavgm is what the run itself trains with; name another algorithm"
    ),
    # Tasks and algorithms; an earlier run stays although --overwrite is given.
    f"{TASK} digit": "unknown task 'digit': did you mean 'digits'? valid: digits, cifar10, …",
    f"{TASK} mine.py:tsk": "rank 0: task 'mine.py:tsk' has no 'tsk': did you mean 'task'? …",
    f"{TASK} mine.py:task --algorithm dfedmcd": (
        "unknown algorithm 'dfedmcd': did you mean 'dfedmdc'? valid: local, dfedavgm, …"
    ),
    f"{TASK} mine.py:typo_in_head --size 2": (
        "rank 0: the task's head prefix 'fcc' matches no parameter of the model: …"
    ),
    "start --overwrite --rank 0 --task mine.py:batch_norm --size 2": (
        "BatchNorm1d 'body.1' cannot be shared (it is in the body): …"
    ),
    f"{TASK} mine.py:raising --size 2": (
        "rank 0: task 'mine.py:raising' failed: FileNotFoundError: no scans for this site"
    ),
    f"{TASK} mine.py:task --partition iid": "--partition iid is for built-in tasks (digits, …",
    f"{TASK} mine.py:task --keep best --validation 0": "rank 0: --keep best needs validation data: …",
    # Ranks and addresses.
    "start": "Missing option '--rank'.",
    "start --rank 8": "rank 8 does not exist in a federation of size 8: 0..7",
    "start --rank one": "--rank 'one': expected a number from 0, or `--rank env`",
    "start --rank 0 --base-port 65530": "--base-port 65530: 8 peers need ports up to 65537, the highest is 65535",
    "start --rank 0 --federation open.toml": "rank 0 would listen at 'tcp://0.0.0.0:7700' without encryption, …",
    "start --rank 1 --federation unreached.toml": "ranks 1 and 2 are neighbors and neither has an address: …",
    # A folder with a run of two rounds.
    "simulate --size 2 --task mine.py:task": (
        "'dpeer-run/rank-0' holds an earlier run: give --resume, --overwrite or another --out"
    ),
    "simulate --resume --overwrite": (
        "--resume and --overwrite exclude each other: continue the earlier run, or remove it"
    ),
    f"{RUN} --rounds 3 --resume --body-lr 0.5": (
        "checkpoint '…' is of another run: body_lr is 0.05 there and 0.5 here; …"
    ),
    f"{RUN} --resume --rounds 1": "checkpoint '…/dpeer-run/rank-0/checkpoint/round-00000001' has completed 2 rounds, …",
    "worth dpeer-run/rank-0 --give-away no/w.json": "--give-away 'no/w.json' is in a folder that does not exist: …",
    "worth dpeer-run/rank-0 --give-away dpeer-run": (
        "--give-away 'dpeer-run' is a folder: name a file, such as worth-0.json"
    ),
    "worth dpeer-run --give-away w.json": "--give-away is for one rank: name one, such as 'dpeer-run/rank-0'",
    "worth --combine a.json --device cpu": (
        "--combine reads files and trains nothing: leave out --device and --give-away"
    ),
    "worth a b": "2 paths: name one rank's or run's folder, or put --combine before files that sites gave away",
    "worth a": "'a' is no folder of a rank: name one, such as dpeer-run/rank-0, …",
    "predict --run dpeer-run/rank-0 --input few.csv --output out.csv": (
        "unknown column 'age' in what the model needs; 'few.csv': valid: pulse"
    ),
    "predict --run dpeer-run/rank-0 --input none.csv --output out.csv": "'none.csv' does not exist",
    "predict --run dpeer-run/rank-0 --input new.csv --output new.csv": (
        "--output 'new.csv' is the input: name another file"
    ),
    "predict --run dpeer-run/rank-0 --input new.csv --output .": (
        "--output '.' is a folder: name a file, such as 'predictions.csv'"
    ),
    "predict --run dpeer-run/rank-0 --input new.csv --output a/b/out.csv": (
        "--output 'a/b/out.csv' cannot be written: No such file or directory"
    ),
    "predict --run dpeer-run --input new.csv --output out.csv": (
        "'dpeer-run' has the models of 2 peers: name one of rank-0, rank-1"
    ),
    "evaluate --run dpeer-run/rank-0 --input new.csv": (
        "'new.csv' has no column 'outcome', with which predictions could be compared"
    ),
    "evaluate --run dpeer-run/rank-0 --input strange.csv": (
        "'strange.csv', row 2, column 'outcome': 'maybe' is none of the classes no, yes"
    ),
    "export --run dpeer-run/rank-0 --format pmml --output m": ("Invalid value for '--format': 'pmml' is not 'onnx'."),
    "export --run dpeer-run/rank-0 --output .": "--output '.' is a folder: name a file",
    "model dpeer-run/rank-0": "'dpeer-run/rank-0/model.safetensors' is a model of 2 rounds, …",
    "model dpeer-run/rank-0 --output m.pt": "--output 'm.pt': name a file that ends in .safetensors",
    "model dpeer-run/rank-0 --output no/m.safetensors": "--output 'no/m.safetensors': no such folder: 'no'",
    "report dpeer-run gone --label one": "--label: 1 for 2 folders; give one for each, or none",
    "report gone": "'gone' is no folder: name the --out of a run, or a folder of such",
    # Pages.
    "top gone": "no folder 'gone' exists; name the --out of a run, or rank-R in it",
    "dashboard gone": "no folder 'gone' exists; name the --out of a run, or rank-R in it",
    "dashboard dpeer-run --listen dpeer-run": (
        "Invalid value for '--listen': 'dpeer-run': expected PORT or HOST:PORT, for example 7780 or 10.0.0.3:7780"
    ),
    "dashboard dpeer-run --listen 127.1:7790": (
        "Invalid value for '--listen': '127.1:7790': 127.1 is no IPv4 address: write 127.0.0.1"
    ),
    "dashboard dpeer-run --listen *:7790": "--listen *:7790: name one address of this host: …",
    # Other commands.
    "keygen --rank -1": "--rank -1: expected a rank, from 0",
    "keygen": "keygen: give either --rank R or --operator",
    "keygen --rank 1 --operator": "keygen: give either --rank R or --operator",
    "start --rank 0 --operators ab": (
        "operators.0 = 'ab': expected 64 hexadecimal digits, as `dpeer keygen --operator` prints them"
    ),
    "compare --shard 9/8": "Invalid value for '--shard': '9/8': expected K/N with K from 1 to N, for example 2/8",
    "algorithms --json --body-epochs five": "Invalid value for '--body-epochs': 'five' is not a valid integer.",
    "algorithms --rho 0.1": "No such option '--rho'.",
    "algorithms dfedavgm": "Got unexpected extra argument (dfedavgm)",
    "schema init visits.csv": "--out 'schema.toml' exists, maybe with edits: give another --out, or --overwrite",
    "schema init none.csv --out new.toml": "'none.csv' does not exist",
    "schema init visits.csv --out new.toml --target outcom": "unknown column of --target 'outcom' in 'visits.csv': …",
    "schema init visits.csv --out none/x.toml": "--out 'none/x.toml' cannot be written: No such file or directory",
    "schema check visits.csv --schema none.toml": (
        "schema 'none.toml': No such file or directory; `dpeer schema init FILE.csv` proposes one"
    ),
    "schema check": "Missing argument 'FILE.csv|.parquet'.",
    # Graphs.
    "topology show --topology rnig": "unknown topology 'rnig': did you mean 'ring'? valid: ring, grid, …",
    "topology show --size ''": "--size '': write one whole number, for example 8",
    "topology show --size 8,16": "--size '8,16': write one whole number, for example 8",
    "topology show --size 2001": (
        "--size 2001: edges and weights are shown up to 2000 peers; `dpeer topology spectral-gap` takes 100,000"
    ),
    "topology show --topology grid --grid-shape 2by4": "--grid-shape '2by4': write ROWSxCOLUMNS, for example 2x4",
    "topology show --topology file:three.txt --size 4": (
        "file:three.txt: joins 3 peers, and size is 4: they must be the same"
    ),
    "topology spectral-gap --topology ring,grid --size 8,13": "grid: size 13 is prime, which leaves only a line: …",
    "topology spectral-gap --size eight": "--size 'eight': write whole numbers, for example 8 or 8,16",
    "topology show --plot a.pdf": "--plot 'a.pdf': name a file that ends in .png or .svg",
    "topology show --plot no/such/a.png": "--plot 'no/such/a.png': no such folder: 'no/such'",
    "topology show --plot folder.png": "--plot 'folder.png' cannot be written: Is a directory",
    "topology show --plot a.png --size 1001": (
        "--size 1001: graphs are drawn up to 1000 peers; `dpeer topology spectral-gap` takes 100,000"
    ),
    "topology spectral-gap --bandwidth 100Mbit": (
        "--bandwidth needs the size of a body: give --body-bytes, for example 45MB"
    ),
    "topology spectral-gap --body-bytes 45MB --bandwidth 100MB": (
        "--bandwidth '100MB': write bits or bytes per second, for example 100Mbit or 12.5MB/s"
    ),
    "topology spectral-gap --body-bytes -1": (
        "--body-bytes '-1': write bytes, up to 1000 TB, for example 45MB or 43MiB"
    ),
    "topology spectral-gap --federation none.toml": "--federation 'none.toml': No such file or directory",
    # Privacy of a peer.
    "privacy": (
        "--noise-multiplier or --target-epsilon, --rounds must be given, for example dpeer privacy --target-epsilon 10 "
        "--rounds 20 --size 8 --parameters 60000"
    ),
    "privacy --rounds 4": "--noise-multiplier or --target-epsilon must be given, for example …",
    f"{CLIENT} --target-epsilon 4": (
        "--target-epsilon 4 with --noise-multiplier 5: each decides the noise, leave one of them out"
    ),
    f"{CLIENT} --parameters 60000": "--size must be given, for example …",
    f"{CLIENT} --accountant server": "Invalid value for '--accountant': 'server' is not one of 'exact', 'pld', 'rdp'.",
    f"{CLIENT} --privacy server": "Invalid value for '--privacy': 'server' is not one of 'client', 'sample'.",
    f"{CLIENT} --dp-adversary aggregate": "No such option '--dp-adversary'.…",
    f"{CLIENT} --delta 0.125 --size 8": "delta 0.125 with 8 peers: at 1/8 or more, …",
    f"{CLIENT} --delta 0": "Invalid value for '--delta': 0.0 is not in the range 1e-300<=x<=0.5.",
    f"{CLIENT} --delta nan": "delta nan: choose one above 0 and below 1, for example 1e-5",
    f"{CLIENT} --clip-norm nan": "clip norm nan: choose a number above 0, for example 1.0",
    f"{CLIENT} --noise-multiplier nan": "noise multiplier nan: choose a number above 0, for example 1.0",
    "privacy --target-epsilon nan --rounds 4": "target epsilon nan: choose a number above 0, for example 10",
    f"{CLIENT} --rounds 0": "Invalid value for '--rounds': 0 is not in the range 1<=x<=1000000000.",
    f"{CLIENT} --rounds 2.5": "Invalid value for '--rounds': '2.5' is not a valid integer range.",
    f"{CLIENT} --sampling-rate 0.1": (
        "--sampling-rate 0.1: it belongs to --privacy sample, which protects one record: add --privacy sample"
    ),
    f"{CLIENT} --dp-head joint": (
        "--dp-head joint: it belongs to --privacy sample, which protects one record: add --privacy sample"
    ),
    f"{CLIENT} --patient-records 5": (
        "--patient-records 5: it belongs to --privacy sample, which protects one record: add --privacy sample"
    ),
    # Privacy of a record.
    "privacy --privacy sample --noise-multiplier 1": (
        "--rounds, --sampling-rate, --steps must be given, for example dpeer privacy --privacy sample --target-epsilon "
        "8 --sampling-rate 0.05 --steps 20 --rounds 20 --records 2000 --size 8 --parameters 60000"
    ),
    f"{SAMPLE} --size 8": "--parameters, --records must be given, for example dpeer privacy --privacy sample …",
    f"{SAMPLE} --head-steps 5": (
        "--head-steps 5: the head has steps of its own only with --dp-head alternate: add that, or leave it out"
    ),
    f"{SAMPLE} --dp-head alternate": "--dp-head alternate: the head has steps of its own, …",
    f"{SAMPLE} --accountant exact": "accountant exact with sampling 0.05: the closed form knows no sampling: …",
    f"{SAMPLE} --sampling-rate 0": "Invalid value for '--sampling-rate': 0.0 is not in the range 1e-09<=x<=1.0.",
    f"{SAMPLE} --sampling-rate nan": "--sampling-rate nan: choose one above 0 and at most 1, for example 0.05",
    f"{SAMPLE} --steps 0": "Invalid value for '--steps': 0 is not in the range 1<=x<=1000000000.",
}
"""By arguments the line on stderr, without `dpeer: `; `…` is any text."""


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
    assert re.fullmatch(re.escape(f"dpeer: {REFUSED[arguments]}").replace("…", ".*"), line), line
    assert (ended.code, ended.out) == (2, "")
    assert results(folder) == before
