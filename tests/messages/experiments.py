"""Error messages of experiments/."""

from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, OutputError, UnknownName
from dpeer.experiments.cells import Cell, Condition, make_cell
from dpeer.experiments.experiment import load
from dpeer.experiments.launchers import find_launcher
from dpeer.experiments.outcomes import Result
from dpeer.experiments.variants import parse_variant
from dpeer.results.files import write_json
from tests.messages.message import Message, file

ROUND = '{{"round": {}, "samples": 1}}\n'
SEEDS = "expected FIRST-LAST or numbers with commas, for example 0-4"
TEST_DATA = "a comparison measures on test data, and chooses by --grid on validation data"
RESERVED = "a comparison cannot be given it here"
EXAMPLE = "for example --algorithms local,dfedavgm,dfedsmdc"
AGAIN = "give another --out, or remove that folder"

FLAGS: dict[str, dict[str, Any]] = {
    "unknown algorithm 'lokal': did you mean 'local'? valid: local, …": {"algorithms": ["lokal"]},
    "--algorithms: 'local' is named twice": {"algorithms": ["local", "local"]},
    "--algorithms 'dfedmdc:size=4': 'size' must be the same for all rows of a table, which are compared peer by peer": {
        "algorithms": ["dfedmdc:size=4"]},
    f"--algorithms 'local:evaluate_on=test': 'evaluate_on' cannot be set here: {TEST_DATA}": {
        "algorithms": ["local:evaluate_on=test"]},
    "--algorithms 'local:rounds=3': 'rounds' is the same for all runs of a comparison": {
        "algorithms": ["local:rounds=3"]},
    "--algorithms 'dfedsam:rho=1:rho=2': 'rho' is given twice": {"algorithms": ["dfedsam:rho=1:rho=2"]},
    "unknown option 'x' in --algorithm-option, which no row knows: valid: (none)": {"_algorithm_options": {"x": 1}},
    f"--seeds '4-0': {SEEDS}": {"seeds": "4-0"},
    f"--seeds '0-999999999999': {SEEDS}": {"seeds": "0-999999999999"},
    "unknown row 'dfedmdc' in --reference: valid: local": {"reference": "dfedmdc"},
    "--grid: 'rho' means nothing to any row (local), or each sets it itself: leave it out": {"grid": ["rho=0.1,0.2"]},
    "--seeds: --grid chooses with seed 100, and the choice would have seen its test data: leave it out": {
        "grid": ["body-lr=0.1,0.2"], "seeds": "99-101"},
    "--grid: 'body-lr' is named twice": {"grid": ["body-lr=0.1", "body-lr=0.2"]},
    "--grid 'body-lr=1,1': a key or a value is given twice": {"grid": ["body-lr=1,1"]},
    "--grid 'body-lr': expected KEY=VALUE,VALUE, for example body-lr+head-lr=0.01,0.03,0.1": {"grid": ["body-lr"]},
    "--grid: 'topology' distinguishes the tables: choose one of both": {
        "algorithms": ["dfedmdc"], "grid": ["topology=ring,full"]},
    "the table of 'ring' is asked for twice: name each topology and partition once": {"topology": ["ring", "ring"]},
    "unknown partition 'dirichlt': did you mean 'dirichlet:0.3'? valid: …": {"partition": ["dirichlt:0.3"]},
    "unknown task 'digitz': did you mean 'digits'? valid: …": {"_task": "digitz"},
    "--rounds is missing: the presets of this comparison have others each (paper-cifar 500, dp2-fedsam 200)": {
        "_preset": "paper-cifar", "_rounds": None, "algorithms": ["local", "dfedmdc:preset=dp2-fedsam"]},
}  # fmt: skip
"""Flags of a comparison by the text of their refusal; those that are settings begin with `_`."""

FILES = {
    "e.toml is not valid TOML: …": "compare = [",
    "unknown key 'algoritms' in [compare] of e.toml: did you mean 'algorithms'? valid: …": "[compare]\nalgoritms=[]",
    f"--algorithms is missing, or algorithms in [compare] of e.toml: {EXAMPLE}": "[compare]\n",
    "compare in e.toml = 3: expected a table, [compare]": "compare = 3",
    f"keep in e.toml: {RESERVED}: the tables are of the last rounds, never of the best one": "keep = 'best'",
    f"validation in e.toml: {RESERVED}: a share is held out only where --grid chooses: give it as --validation, or in "
    "[compare]": "validation = 0.1",
    f"seed in e.toml: {RESERVED}: repetitions are given by --seeds": "seed = 1",
    "compare.conditions in e.toml: 'rounds' is the same for all runs of a comparison":
        "compare.conditions = [{rounds=5}]",
    "--momentum: e.toml varies it in [compare]: leave one of them out": "compare.conditions = [{momentum=0.1}]",
    "the table of 'ring, size 4' is asked for twice: name each topology and partition once":
        "compare.conditions = [{size=4},{size=4}]",
}  # fmt: skip
"""Experiments' files by the text of their refusal."""

DONE = {
    "has no summary.json of all peers that says so": ("summary.json", None),
    "has summaries of 1 of its 2 peers": ("rank-1/summary.json", '{"rank": 1, '),
    "has a metrics.jsonl of rank 1 that is empty or damaged": ("rank-1/metrics.jsonl", None),
    "has a metrics.jsonl of rank 0 that is empty or damaged": ("rank-0/metrics.jsonl", ROUND.format(0) + '{"rou\n'),
    "has other rounds in metrics.jsonl of one peer than of another": ("rank-0/metrics.jsonl", ROUND.format(0)),
}
"""Files of a run that are missing or have other content, by the text of the refusal."""


def flags(text: str, asked: dict[str, Any]) -> Message:
    settings = {"rounds": 4, **{name[1:]: value for name, value in asked.items() if name[0] == "_"}}
    plan = {"algorithms": ["local"], **{name: value for name, value in asked.items() if name[0] != "_"}}
    error = UnknownName if text.startswith("unknown") else ConfigurationError
    return Message(lambda folder: load(None, settings, plan), error, text)


def experiment(text: str, content: str) -> Message:
    named = content if text.startswith(("unknown", "--algorithms", "compare in", "e.toml")) else (
        f"compare.algorithms = ['local']\n{content}"
    )  # fmt: skip
    error = UnknownName if text.startswith("unknown") else ConfigurationError
    whole = text.replace("e.toml", "{folder}/e.toml")
    return Message(file("e.toml", named, lambda path: load(path, {"momentum": 0.5}, {})), error, whole)


def cell(folder: Path, **base: Any) -> Cell:
    condition = Condition({"topology": "ring", "partition": None})
    return make_cell(base, parse_variant(base.pop("row", "dfedmdc")), condition, 0, folder)


def begun(text: str, earlier: dict[str, Any], later: dict[str, Any], *, asked: bool = True) -> Message:
    """A cell's folder with a run of other settings, or one without its cell.json."""

    def check(folder: Path) -> None:
        before = cell(folder, **earlier)
        before.claim()
        (before.folder / "rank-0" / "checkpoint" / "round-00000000").mkdir(parents=True)
        if not asked:
            (before.folder / "cell.json").unlink()
        cell(folder, **later).check()

    return Message(
        check, OutputError, f"'{{folder}}/{earlier.get('row', 'dfedmdc')}-ring-default-seed0' holds a run {text}"
    )


def connected(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "127.0.0.1:1")
        with find_launcher("ray", None, folder)([cell(folder)], print):
            raise AssertionError("no cluster is there")


def done(text: str, name: str, content: str | None) -> Message:
    def read(folder: Path) -> None:
        write_json(folder / "summary.json", {"algorithm": "local", "size": 2, "rounds": 2, "status": "done"})
        for rank in range(2):
            (folder / f"rank-{rank}").mkdir()
            write_json(folder / f"rank-{rank}" / "summary.json", {"rank": rank})
            (folder / f"rank-{rank}" / "metrics.jsonl").write_text(ROUND.format(0) + ROUND.format(1))
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_text(content)
        Result(folder)

    again = "remove that folder to have it run again"
    return Message(read, OutputError, f"'{{folder}}' holds a run that is done but {text}: {again}")


MESSAGES = {
    **{f"flags, {text[:40]}": flags(text, asked) for text, asked in FLAGS.items()},
    **{f"a file, {text[:40]}": experiment(text, content) for text, content in FILES.items()},
    **{f"a run that {text[:40]}": done(text, *files) for text, files in DONE.items()},
    "no Ray cluster": Message(
        connected, ConfigurationError,
        "--launcher ray: no Ray cluster at '127.0.0.1:1': begin one with `ray start --head`, or name another by "
        "RAY_ADDRESS=HOST:PORT",
    ),
    "no rows": Message(
        lambda folder: load(None, {}, {}), ConfigurationError, f"--algorithms is missing: {EXAMPLE}"
    ),
    "a folder of another rate": begun(f"with body_lr = 0.2, here it is 0.05: {AGAIN}", {"body_lr": 0.2}, {}),
    "a default that an algorithm has otherwise": begun(
        f"with head_epochs = 10, here it is 1: {AGAIN}", {"row": "fedrep"}, {"row": "fedrep", "head_epochs": 1}
    ),
    "a run that no comparison made": begun("that no comparison made: give another --out", {}, {}, asked=False),
    "no file of faults": Message(
        lambda folder: cell(folder, faults=folder / "f.toml"), ConfigurationError,
        "--faults '{folder}/f.toml': No such file or directory",
    ),
    "faults after the last round": Message(
        file("f.toml", "[[fault]]\nwhat = 'crash'\nranks = [1]\nround = 1000\n",
             lambda path: cell(path.parent, faults=path)),
        ConfigurationError, "…round = 1000 in …",
    ),
}  # fmt: skip
