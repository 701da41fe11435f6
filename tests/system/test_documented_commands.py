"""Every command line that README, CONTRIBUTING or a page of docs/ prints, run as it stands or small.

A line that is new in a document fails here until `SMALL` says how it is run, or `NOT_RUN` which words beside it say why
it is not; so does an entry of either that no document has any more.
"""

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dpeer.federation.config import load
from dpeer.federation.keys import write_operator, write_secret
from dpeer.federation.member_changes import list_zero, write_list
from dpeer.results.effect import Effect
from dpeer.results.sites import Site
from dpeer.training.models import build_model
from tests.documents import PLACES, ROOT, printed_in_readme
from tests.runs import words_of
from tests.training.dataset_files import cifar10, glue, har_arrays, har_folder

# Data of the layouts that the documents name, in the folder where the command is run. ------------------------------


def visits(folder: Path) -> None:
    """The table of README's `Your own data`, for one or for each."""
    rows = np.random.default_rng(0).normal(size=(480, 4))
    outcome = (rows.sum(axis=1) > 0).astype(int)
    lines = ["age,weight,pulse,length,outcome", *(f"{a},{b},{c},{d},{y}" for (a, b, c, d), y in zip(rows, outcome))]  # noqa: B905
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")


def proposals(folder: Path) -> None:
    """The schemas of two sites, each in a file."""
    for name in ("A", "B"):
        (folder / f"{name}.toml").write_text((ROOT / "examples" / "visits-schema.toml").read_text())


def new_visits(folder: Path) -> None:
    """The table for one, and rows that a model of it is used on."""
    visits(folder)
    header, *rows = (folder / "visits.csv").read_text().splitlines()
    (folder / "labelled.csv").write_text("\n".join([header, *rows[:20]]) + "\n")
    (folder / "new.csv").write_text("\n".join(line.rpartition(",")[0] for line in [header, *rows[:20]]) + "\n")


def cifar(folder: Path) -> None:
    cifar10(folder / "DIR")


def weights(folder: Path) -> None:
    """Those of a model for images of 64 pixels a side and 1000 classes."""
    made = build_model("vit-base", (3, 64, 64), 1000, {"layers": 1, "width": 12})
    save_file(made.state_dict(), folder / "vit.safetensors")


def har_npz(folder: Path) -> None:
    np.savez(folder / "FILE.npz", **har_arrays({"train": (1, 2, 3), "test": (4, 5)}, windows=4))


def har_text(folder: Path) -> None:
    har_folder(folder / "DIR")


def mnist_npz(folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (200, 28, 28), dtype=np.uint8)
    labels, writers = np.arange(200) % 10, np.arange(200) // 20
    np.savez(
        folder / "FILE.npz", x_train=images[:120], y_train=labels[:120], writer_train=writers[:120],
        x_test=images[120:], y_test=labels[120:], writer_test=writers[120:],
    )  # fmt: skip


def sentences(folder: Path) -> None:
    glue(folder / "DIR")
    (folder / "new.txt").write_text("a dull film\nlively\n")


def own_task(folder: Path) -> None:
    """`my_task.py` as docs/tasks.md prints it, and its data."""
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(# my_task.py\n.*?)```", page, flags=re.DOTALL)
    (folder / "my_task.py").write_text(code)
    x, y = torch.randn(20, 30), torch.arange(20) % 2
    torch.save({"train_x": x, "train_y": y, "test_x": x, "test_y": y}, folder / "mine.pt")


def given_away(folder: Path) -> None:
    """The files of three sites, as `dpeer worth --give-away` writes them."""
    for rank in range(3):
        worth = Effect("accuracy", "test", rows=40, differ=3, gain=0.0, low=0.0, high=0.0,
                      verdict="inconclusive")  # fmt: skip
        site = Site.of(
            worth, version="0.1.0", federation="ab" * 16, size=3, member_list=0, members=(0, 1, 2), rank=rank, rounds=5
        )
        (folder / f"worth-{rank}.json").write_text(site.model_dump_json())


def members_file(folder: Path) -> None:
    """A federation's file, its member list 0 in a file, and the key of its operator."""
    _, key = write_operator(folder)
    (folder / "dpeer.toml").write_text(f'size = 4\nname = "one"\noperators = ["{key}"]\n')
    settings = load(folder / "dpeer.toml", {})
    write_list(folder / "members-0.json", list_zero(settings, settings, settings.rounds, {}))


def private_file(folder: Path) -> None:
    """A federation's file that asks for privacy."""
    lines = ('task = "digits"', "size = 4", "rounds = 2", 'privacy = "sample"', "target_epsilon = 8.0", "records = 400")
    (folder / "dpeer.toml").write_text("\n".join(lines) + "\n")


def visits_file(folder: Path) -> None:
    """The federation file that README prints, for one machine."""
    (folder / "visits.toml").write_text(printed_in_readme("toml")[0])


def hosts(folder: Path) -> None:
    """The same with what README adds for several hosts, here on one."""
    content = "".join(printed_in_readme("toml"))
    addresses = re.findall(r"tcp://10\.8\.0\.1\d:7700", content)
    assert len(addresses) == 2
    for number, address in enumerate(addresses):
        content = content.replace(address, f"ipc://{folder}/rank-{number}.socket")
    lines = [f'rank.{rank}.key = "{write_secret(rank, folder / "keys")[1].hex()}"' for rank in range(3)]
    content, replaced = re.subn(r"rank\.0\.key = .*", "\n".join(lines), content)
    assert replaced == 1
    (folder / "visits.toml").write_text(content)


def hosts_file(folder: Path) -> None:
    """The hosts file that docs/running.md prints."""
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    (content,) = re.findall(r"```\n(10\.8\.0\.10 .*?)```", page, flags=re.DOTALL)
    (folder / "hosts.txt").write_text(content)


# How the commands that train or measure are run. -------------------------------------------------------------------


@dataclass
class Small:
    """Run as it is printed, with more behind it: of an option that is given twice the later one counts."""

    more: str = ""
    data: tuple[Callable[[Path], None], ...] = ()
    after: tuple[str, ...] = ()
    """Commands that must have been run before in the same folder, each of them in the tables too."""
    put: tuple[str, str] = ("", "")
    """What stands for something of the reader's, and what it is here."""


TRAINS = "--rounds 1 --local-steps 1 --body-epochs 1 --head-epochs 1"
WITHOUT_OTHERS = "--base-port PORT --algorithm local"
"""A rank that is started by itself: federations of processes are what test_start.py is about."""
TO_ROUND_35 = f"{TRAINS} --rounds 35"
COMPARES = f"{TRAINS} --size 2 --seeds 0 --jobs 1"
CHOSEN = f"{COMPARES} --algorithms local,dfedsmdc --grid body-lr=0.01 --rounds 5 --evaluate-every 1 --reference local"
OF_CIFAR = "--task-option train_samples=150 --task-option test_samples=40"
OF_MNIST = "--task-option train_samples=100 --task-option test_samples=80"
DEMO = (
    "dpeer cluster --size 8 --topology ring --task digits --algorithm dfedsmdc --alone always --overwrite "
    "--out dpeer-demo"
)
HAR = "dpeer compare examples/experiments/privacy-har.toml --task-option data=FILE.npz --out har"
CIFAR = "dpeer compare examples/experiments/privacy-cifar10.toml --task-option data=DIR --out cifar"
PROPOSE = "dpeer schema init visits.csv --target outcome"
START = "dpeer start --federation visits.toml --rank 0"
THREE_TABLES = "dpeer cluster --federation visits.toml --rounds 30"
FIRST_RUN = "dpeer simulate --size 100 --partition iid"
DRAWN_ROWS = ",".join(
    row + noise
    for row in ("local", "dfedmdc", "local:model=small-body", "dfedmdc:model=small-body")
    for noise in (("", ":privacy=client:target-epsilon=100") if row.startswith("dfedmdc") else ("",))
)

VISITS = "dpeer simulate --task csv --task-option path=visits.csv --task-option target=outcome --partition iid"
VISITS_WEIGHTED = f"{VISITS} --class-weights balanced"

SENTENCES = "dpeer simulate --size 4 --task glue --task-option data=DIR --task-option name=sst2 --optimizer adamw"

TABLES = "python examples/tables.py visits first-week/tables"
HOSPITALS = "dpeer cluster --federation examples/eight-hospitals.toml"
PREDICTED = (
    "dpeer predict --run first-week/run/rank-3 --input first-week/tables/new-3.csv "
    "--output first-week/predictions-3.csv"
)
REPORTED = "dpeer report first-week/run"
PROPOSED = "dpeer schema init first-week/tables/site-0.csv --target outcome --out first-week/schema.toml"

TWO_OF_EIGHT = "dpeer simulate --faults examples/faults/two-of-eight.toml --size 8 --rounds 40 --out with-faults"
WITHOUT = "dpeer simulate --size 8 --rounds 40 --out without"

FAST = {
    VISITS_WEIGHTED: Small(f"{TRAINS} --size 4", (new_visits,)),
    "dpeer keygen --rank 0 --out keys": Small(),
    "dpeer algorithms NAME": Small(put=("NAME", "dfedmdc")),
    "dpeer keygen --rank R --out keys": Small(put=(" R ", " 4 ")),
    "dpeer keygen --rank 2 --out new": Small(),
    "dpeer init --size 3 --weights declared:400,20,30": Small(),
    "dpeer init ward-study --hosts hosts.txt": Small(data=(hosts_file,)),
    "dpeer init ward-study --hosts hosts.txt --operator": Small(data=(hosts_file,)),
    "dpeer members show dpeer-run": Small(data=(members_file,), put=("dpeer-run", "members-0.json")),
    "dpeer members extend dpeer-run --rounds 200 --operator operator.secret": Small(
        "--out members-1.json", (members_file,), put=("dpeer-run", "members-0.json")
    ),
    "dpeer predict --run dpeer-run/rank-0 --input new.csv --output predictions.csv": Small(after=(VISITS_WEIGHTED,)),
    "dpeer evaluate --run dpeer-run/rank-0 --input labelled.csv": Small(after=(VISITS_WEIGHTED,)),
    "dpeer status dpeer-run": Small(after=(VISITS_WEIGHTED,)),
    "dpeer top dpeer-run": Small(after=(VISITS_WEIGHTED,)),
    "dpeer worth dpeer-run/rank-0": Small(after=(VISITS_WEIGHTED,)),
    "dpeer worth dpeer-run/rank-0 --give-away worth-0.json": Small(after=(VISITS_WEIGHTED,)),
    "dpeer worth --combine worth-0.json worth-1.json worth-2.json": Small(data=(given_away,)),
    "dpeer model dpeer-run/rank-0": Small("--overwrite", after=(VISITS_WEIGHTED,)),
    "dpeer export --run dpeer-run/rank-0 --output model.onnx": Small(after=(VISITS_WEIGHTED,)),
    FIRST_RUN: Small(f"{TRAINS} --size 4"),
    "dpeer simulate --size 4 --partition dirichlet:0.3 --keep blend --alone always": Small(TRAINS),
    "dpeer simulate --task digits --algorithm dfedmdc --optimizer adamw --lora r=4,alpha=8": Small(
        f"{TRAINS} --size 2"
    ),
    "dpeer simulate --size 8 --topology exponential --robust clip": Small(f"{TRAINS} --size 5"),
    "dpeer simulate --task digits --size 4 --rounds 5 --compress examples/own_codec.py:OneByte": Small(TRAINS),
    "dpeer simulate --topology examples/own_graph.py:two_rings --size 8 --rounds 3": Small(f"{TRAINS} --size 6"),
    "dpeer simulate --federation visits.toml --out trial": Small(TRAINS, (visits_file,)),
    "dpeer simulate --size 16 --task cifar10 --task-option data=DIR --topology exponential": Small(
        f"{TRAINS} --size 4 --partition iid", (cifar,)
    ),
    "dpeer simulate --size 100 --topology random-regular --task cifar10 --task-option data=DIR": Small(
        f"{TRAINS} --size 6 --partition iid", (cifar,)
    ),
}

SLOW = {
    "dpeer simulate --task digits --model vit-tiny --model-option layers=2 --model-option width=24 --model-option "
    "patch=2 --optimizer adamw": Small(f"{TRAINS} --size 2"),
    "dpeer simulate --task cifar10 --task-option data=DIR --model vit-base --model-option image=224 --optimizer adamw "
    "--init-from vit.safetensors": Small(
        f"{TRAINS} --size 2 --partition iid --model-option image=64 --model-option layers=1 --model-option width=12",
        (cifar, weights),
    ),
    SENTENCES: Small(f"{TRAINS} --size 2 --partition iid", (sentences,)),
    "dpeer predict --run dpeer-run/rank-0 --input new.txt --output predictions.csv": Small(after=(SENTENCES,)),
    "dpeer cluster --encrypt": Small(f"{TRAINS} --size 2"),
    TWO_OF_EIGHT: Small(TO_ROUND_35),
    WITHOUT: Small(TO_ROUND_35),
    "dpeer compare --algorithms dfedsmdc,dfedsmdc:faults=examples/faults/two-of-eight.toml --size 8 --rounds 40 "
    "--seeds 0-4": Small(f"{TO_ROUND_35} --seeds 0 --jobs 1"),
    "dpeer report with-faults without --out faults-report": Small(after=(TWO_OF_EIGHT, WITHOUT)),
    PROPOSE: Small(data=(visits,)),
    "dpeer schema merge A.toml B.toml": Small("--out both.toml", (proposals,)),
    DEMO: Small(f"{TRAINS} --size 2"),
    "dpeer report dpeer-demo": Small(after=(DEMO,)),
    "dpeer report dpeer-run": Small(after=(FIRST_RUN,)),
    "dpeer report --site dpeer-run/rank-0": Small(after=("dpeer cluster --encrypt",)),
    "dpeer report DIR": Small(after=(FIRST_RUN, "dpeer report dpeer-run"), put=("DIR", "dpeer-run")),
    "dpeer start --rank 0 --log-to tensorboard": Small(f"{TRAINS} --size 2 {WITHOUT_OTHERS}"),
    "dpeer start --rank 0": Small(f"{TRAINS} --size 2 {WITHOUT_OTHERS}"),
    "dpeer start --rank 3": Small(f"{TRAINS} --size 4 {WITHOUT_OTHERS}"),
    "dpeer settings --of dpeer.toml --rank 3": Small(data=(members_file,)),
    "dpeer privacy --federation dpeer.toml --rank 3": Small(data=(private_file,)),
    "dpeer check --rank 3": Small(f"{TRAINS} --size 4 --base-port PORT"),
    "dpeer check --rank 3 --connect": Small(f"{TRAINS} --size 4 --base-port PORT --within 0.1s"),
    START: Small(f"{TRAINS} {WITHOUT_OTHERS}", (visits_file,)),
    "dpeer start --rank 0 --serve 7780": Small(f"{TRAINS} --size 2 {WITHOUT_OTHERS} --serve 0"),
    "dpeer start --rank 3 --task csv --task-option path=/data/visits.csv --task-option target=outcome": Small(
        f"{TRAINS} --size 4 {WITHOUT_OTHERS}", (visits,), put=("/data/", "")
    ),
    "dpeer schema check visits.csv --schema schema.toml": Small(after=(PROPOSE,)),
    "dpeer start --rank 3 --task csv --task-option path=visits.csv --schema schema.toml": Small(
        f"{TRAINS} --size 4 {WITHOUT_OTHERS}", after=(PROPOSE,)
    ),
    "dpeer start --topology ring --rank 3 --privacy sample --target-epsilon 8 --records 2000": Small(
        f"{TRAINS} --size 4 {WITHOUT_OTHERS}"
    ),
    "dpeer start --topology ring --rank 3 --privacy client --target-epsilon 10": Small(
        f"{TRAINS} --size 4 {WITHOUT_OTHERS}"
    ),
    TABLES: Small(),
    PROPOSED: Small(after=(TABLES,)),
    "dpeer schema check first-week/tables/site-0.csv --schema first-week/schema.toml": Small(after=(TABLES, PROPOSED)),
    "dpeer schema check first-week/tables/site-5.csv --schema examples/visits-schema.toml": Small(after=(TABLES,)),
    "dpeer start --federation examples/eight-hospitals.toml --rank 3": Small(
        f"{TRAINS} --size 8 {WITHOUT_OTHERS}", after=(TABLES,)
    ),
    HOSPITALS: Small(TRAINS, after=(TABLES,)),
    # One run of eight peers, for all that is done with it.
    PREDICTED: Small(),
    REPORTED: Small(after=(TABLES, HOSPITALS, PREDICTED)),
    THREE_TABLES: Small("--rounds 2 --local-steps 1", (visits_file,)),
    "dpeer report visits": Small(after=(THREE_TABLES,)),
    "dpeer predict --run visits/rank-0 --input examples/visits-0.csv --output predictions.csv": Small(
        after=(THREE_TABLES,)
    ),
    "dpeer cluster --size 8": Small(f"{TRAINS} --size 2"),
    "dpeer cluster --size 4 --topology ring --task my_task.py:task --task-option data=/data": Small(
        TRAINS, (own_task,), put=("/data", ".")
    ),
    "dpeer compare --algorithms local,dfedavgm,dfedsmdc --seeds 0-4": Small(COMPARES),
    "dpeer compare --algorithms local,dfedavgm,dfedsmdc --topology ring,full --seeds 0-4": Small(
        f"{COMPARES} --rounds 5"
    ),
    "dpeer compare --algorithms local,dfedsmdc --seeds 0-4 --json": Small(COMPARES),
    "dpeer compare examples/experiments/digits.toml --out digits": Small(
        f"{COMPARES} --algorithms local,dfedavgm:compress=int8 --reference local --partition iid"
    ),
    "dpeer compare examples/experiments/cifar10.toml --task-option data=DIR --out cifar10": Small(
        f"{CHOSEN} {OF_CIFAR}", (cifar,)
    ),
    "dpeer compare examples/experiments/cifar10-topologies.toml --task-option data=DIR --out cifar10": Small(
        f"{CHOSEN} {OF_CIFAR}", (cifar,)
    ),
    "dpeer compare examples/papers/dfedmdc/figure-3.toml --task-option data=DIR --out figure-3 --size 16 "
    "--topology random-regular:4 --rounds 30 --model cnn --body-lr 0.01 --head-lr 0.01 --rho 0.05 --body-epochs 2 "
    "--task-option train_samples=8000": Small(
        f"{COMPARES} --size 6 --algorithms local,dfedsmdc --topology ring {OF_CIFAR}", (cifar,)
    ),
    "dpeer compare examples/experiments/har.toml --task-option data=DIR --out har": Small(CHOSEN, (har_text,)),
    "dpeer compare examples/experiments/mnist.toml --task-option data=FILE.npz --out mnist": Small(
        f"{CHOSEN} {OF_MNIST}", (mnist_npz,)
    ),
    HAR: Small(f"{COMPARES} --seeds 0-1 --algorithms {DRAWN_ROWS}", (har_npz,)),
    CIFAR: Small(f"{COMPARES} {OF_CIFAR} --seeds 0-1 --algorithms {DRAWN_ROWS}", (cifar,)),
    "dpeer topology show --topology exponential --size 16 --plot exponential.png": Small(),
}

LONG = {
    HAR,
    CIFAR,
    "dpeer report DIR",
    "dpeer compare --algorithms local,dfedavgm,dfedsmdc --topology ring,full --seeds 0-4",
    "dpeer compare --algorithms local,dfedsmdc --seeds 0-4 --json",
    "dpeer compare examples/experiments/cifar10-topologies.toml --task-option data=DIR --out cifar10",
    "dpeer compare examples/experiments/cifar10.toml --task-option data=DIR --out cifar10",
    "dpeer compare examples/experiments/har.toml --task-option data=DIR --out har",
    "dpeer compare examples/experiments/mnist.toml --task-option data=FILE.npz --out mnist",
    "dpeer report with-faults without --out faults-report",
    "dpeer compare --algorithms dfedsmdc,dfedsmdc:faults=examples/faults/two-of-eight.toml --size 8 --rounds 40 "
    "--seeds 0-4",
}
"""Left to `make test-all`: they start many processes that import torch, or many rounds, and others are like them."""

SMALL = FAST | SLOW
WITHIN = {earlier for small in SMALL.values() for earlier in small.after}
"""Run before another, and not by themselves."""

NOT_RUN = {
    "dpeer compare --algorithms local,dfedsmdc --seeds 0-23 --shard $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT": (
        "a job array of any scheduler"
    ),
    "dpeer compare --algorithms local,dfedsmdc --seeds 0-23 --launcher ray": "makes each run a task of a running",
    "dpeer drain dpeer-run/rank-0 --back-within 120": "A peer that runs leaves",
    "dpeer start --rank 8 --members members-1.json": "gets the federation file",
    "dpeer check --rank 8 --members members-1.json": "tries its host",
    "dpeer status dpeer-run/rank-0 --check --within 3": "is for probes and scripts",
    "dpeer dashboard dpeer-run": "until Ctrl-C",
    "dpeer schema check first-week/tables/site-3.csv --schema first-week/schema.toml": "exit code 2",
    "dpeer schema merge A.toml B.toml": "One site proposes it, or each does",
    "make test": "test suite",
    "make test-all": "the whole test suite",
    "make soak": "ten thousand",
    "make check": "the tests",
    "make docs": "as a site",
    "make lint": "`ruff check`",
    "make lowest": "the tests",
    "make fuzz": "five minutes",
    "make audit": "pypi.org",
    "make bench": "ten minutes",
    ".venv/bin/python -m pytest tests/topology": "runs one folder",
    "pipx install '.[plot]'": "have `dpeer` in every shell",
    "uv tool install '.[plot]'": "have `dpeer` in every shell",
    "dpeer start --rank 3 --wait 7d": "Sites that come over days",
    "dpeer start --rank 3 --wait 7d --quorum 6": "Sites that come over days",
    "dpeer relay --listen tcp://*:7790 --keys dpeer.toml": "on that host, until Ctrl-C",
    "dpeer report DIR... [--out FOLDER] [--label TEXT]... [--title TEXT]": "makes one page of one run or many",
}
"""Each with words that stand beside it wherever it is printed, and that say why it is not run here."""

BENCHMARK = re.compile(r"python benchmarks/(\w+)\.py( .*)?")
"""Run in its quick form, whatever the document adds: tests/benchmarks/test_quick_forms.py."""

ONLY_PRINT = re.compile(r"dpeer (algorithms|topology (spectral-gap|show) .*|privacy (?!--federation).*|.* --help)")
"""Run as they stand."""

NAME = re.compile(r"dpeer( [a-z-]+)+(?<!algorithms)")
"""A command's name, of which a text speaks."""

MAKES = {"make demo": DEMO}
"""What such a target comes to."""


def test_every_command_of_the_documents_is_run_or_a_document_says_why_it_is_not():
    expected = {*SMALL, *NOT_RUN, *MAKES} - {*MAKES.values()}
    assert expected - {*PLACES} == set(), "no document prints these any more"
    others = {
        command
        for command in {*PLACES} - expected
        if not (ONLY_PRINT.fullmatch(command) or command.startswith("pip install ") or NAME.fullmatch(command))
        and not ((program := BENCHMARK.fullmatch(command)) and (ROOT / "benchmarks" / f"{program[1]}.py").exists())
    }
    assert others == set(), "say in SMALL how these are run, or in NOT_RUN why they are not"
    for command, why in NOT_RUN.items():
        for place in PLACES[command]:
            assert why in place.around, f"{place.page.name}:{place.number + 1}: {command}"
    makefile = (ROOT / "Makefile").read_text()
    (demo,) = re.findall(r"^demo:.*\n\t\$\(BIN\)/(.*)$", makefile, flags=re.MULTILINE)
    (folder,) = re.findall(r"^DEMO \?= (.*)$", makefile, flags=re.MULTILINE)
    assert demo.replace("$(DEMO)", folder) == MAKES["make demo"]


@pytest.mark.slow
def test_what_readme_adds_for_several_hosts_starts_as_it_stands(dpeer, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    hosts(tmp_path)
    listening = [f"listening at ipc://{tmp_path}/rank-{rank}.socket" for rank in range(2)]
    for rank, where in enumerate([*listening, "dialling out only"]):
        words = f"{START[6:-1]}{rank} --secret keys/rank-{rank}.secret {TRAINS} --algorithm local"
        ended = dpeer(*words.split())
        assert ended.code == 0
        assert ended.err.splitlines()[0].endswith(f"{where}, encrypted (settings from visits.toml)")


@pytest.mark.parametrize("command", sorted(one for one in PLACES if NAME.fullmatch(one) or ONLY_PRINT.fullmatch(one)))
def test_a_command_that_is_named_exists_and_one_that_prints_prints_what_the_document_shows(command, dpeer, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    named = NAME.fullmatch(command)
    ended = dpeer(*shlex.split(command)[1:], *(["--help"] if named else []))
    assert (ended.code, ended.complaints) == (0, [])
    assert ended.out
    for place in PLACES[command]:
        if place.printed is not None and not named:
            shown = [line.split() for line in place.printed]
            assert shown == [line.split() for line in ended.out.splitlines()], place.page.name


@pytest.fixture(scope="session")
def kept() -> dict[tuple[str, ...], Path]:
    """Copies of the folders that such commands have left, one after another."""
    return {}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            c, marks=([pytest.mark.slow] if c in SLOW else []) + ([pytest.mark.long] if c in LONG else []), id=c
        )
        for c in SMALL
        if c not in WITHIN
    ],
)
@pytest.mark.usefixtures("run_cells_here")
def test_it_runs(command, dpeer, run_program, free_ports, kept, tmp_path, tmp_path_factory):
    for name in ("examples", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    after = SMALL[command].after
    done = max((number for number in range(len(after) + 1) if after[:number] in kept), default=0)
    if done:
        shutil.copytree(kept[after[:done]], tmp_path, dirs_exist_ok=True)
    for number, each in enumerate((*after, command)[done:], done + 1):
        output = printed(each, dpeer, run_program, free_ports(1), tmp_path)
        for place in PLACES.get(each, ()):
            if place.printed:
                assert place.printed[-1].strip() == "...", "what is the same every time belongs to ONLY_PRINT"
                shown = [line.split() for line in place.printed[:-1]]
                assert [line.split() for line in output.splitlines()][: len(shown)] == shown
        if number <= len(after):
            linked = shutil.ignore_patterns("examples", "benchmarks")
            kept[after[:number]] = shutil.copytree(tmp_path, tmp_path_factory.mktemp("kept") / "folder", ignore=linked)


def printed(command: str, dpeer: Callable[..., Any], run_program: Callable[..., str], port: int, folder: Path) -> str:
    """Run the command, small; what it printed."""
    small = SMALL[command]
    for write in small.data:
        write(folder)
    line = f"{command.replace(*small.put)} {small.more}"
    start, *words = shlex.split(line.replace("PORT", str(port)))
    if start == "python":
        output: str = run_program(folder / words[0], *words[1:])
    else:
        ended = dpeer(*words_of(words))
        assert ended.code == 0, ended.err
        output = ended.out or ended.err
    assert output
    return output
