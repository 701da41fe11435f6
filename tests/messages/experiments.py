"""Error messages of experiments/."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpeer.exceptions import ConfigurationError, OutputError, UnknownName
from dpeer.experiments.cells import Cell, Condition, make_cell
from dpeer.experiments.experiment import load
from dpeer.experiments.outcomes import Result
from dpeer.experiments.rates import Rates
from dpeer.experiments.tuning import parse_axis
from dpeer.experiments.variants import parse_variant
from dpeer.federation.settings import Settings
from dpeer.results.files import write_json
from tests.messages.message import Message, file


def flags(text: str, error: type[Exception] = ConfigurationError, *, rounds: int = 4, **plan: Any) -> Message:
    """Flags of a comparison; those that are settings begin with `_`."""
    settings = {name[1:]: plan.pop(name) for name in list(plan) if name.startswith("_")}
    asked = {"algorithms": ["local"], **plan}
    return Message(lambda folder: load(None, {"rounds": rounds, **settings}, asked, small=False), error, text)


def experiment(text: str, content: str, error: type[Exception] = ConfigurationError, **compare: str) -> Message:
    """An experiment's file: `content`, and keys of its table [compare]."""
    table = "".join(f"{key} = {value}\n" for key, value in {"algorithms": "['local']", **compare}.items() if value)
    whole = content if "compare" in content else f"{content}\n[compare]\n{table}"

    def read(path: Path) -> Any:
        return load(path, {"momentum": 0.5}, {}, small=False)

    return Message(file("e.toml", whole, read), error, text.replace("e.toml", "{folder}/e.toml"))


def row(text: str, **plan: Any) -> Message:
    """A row of `--algorithms`."""
    return flags(f"--algorithms {plan['algorithms'][0]!r}: {text}", **plan)


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

    return Message(check, OutputError, text)


ROUND = '{{"round": {}, "samples": 1}}\n'


def done(text: str, name: str, content: str | None) -> Message:
    """A run that is done, of which a file is missing (None) or has other content."""

    def read(folder: Path) -> None:
        write_json(folder / "summary.json", {"algorithm": "local", "size": 2, "rounds": 2, "status": "done"})
        for rank in range(2):
            (folder / f"rank-{rank}").mkdir()
            write_json(folder / f"rank-{rank}" / "summary.json", {"rank": rank})
            (folder / f"rank-{rank}" / "metrics.jsonl").write_text(
                '{"round": 0, "samples": 1}\n{"round": 1, "samples": 1}\n'
            )
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_text(content)
        Result(folder)

    again = "remove that folder to have it run again"
    return Message(read, OutputError, f"'{{folder}}' holds a run that is done but {text}: {again}")


def tune(text: str, grid: str, **settings: Any) -> Message:
    asked = Settings(size=2, rounds=2, algorithm="dfedsmdc", **settings)
    return Message(lambda folder: Rates(asked, 0, 1, [parse_axis(grid)], {}), ConfigurationError, text)


def faults(text: str, content: str | None) -> Message:
    def make(folder: Path) -> None:
        if content is not None:
            (folder / "f.toml").write_text(content)
        cell(folder, faults=folder / "f.toml")

    return Message(make, ConfigurationError, text)


NO_EPSILON = "--at-epsilon 2: no run of this comparison is private: give --privacy, or leave it out"
ONCE = "name each topology and partition once"
RESERVED = "a comparison cannot be given it here"
ABOVE: Callable[[str], str] = (
    "compare.conditions in e.toml: target = {}: expected an accuracy above 0 and at most 1, such as 0.8".format
)

MESSAGES = {
    "an unknown algorithm": flags(
        "unknown algorithm 'lokal': did you mean 'local'? valid: local, …", UnknownName, algorithms=["lokal"]
    ),
    "a row twice": flags("--algorithms: 'local' is named twice", algorithms=["local", "local"]),
    "a row's own size": row(
        "'size' must be the same for all rows of a table, which are compared peer by peer",
        algorithms=["dfedmdc:size=4"],
    ),
    "a row on validation data": row(
        "'evaluate_on' cannot be set here: a comparison measures on test data, and chooses by --grid on validation "
        "data",
        algorithms=["dfedmdc:evaluate_on=validation"],
    ),
    "a row's rounds": row("'rounds' is the same for all runs of a comparison", algorithms=["dfedmdc:rounds=3"]),
    "a row's key twice": row("'rho' is given twice", algorithms=["dfedsam:rho=1:rho=2"]),
    "no rows": Message(
        lambda folder: load(None, {}, {}, small=False), ConfigurationError,
        "--algorithms is missing: for example --algorithms local,dfedavgm,dfedsmdc",
    ),
    "an option of no row": flags(
        "unknown option 'x' in --algorithm-option, which no row knows: valid: (none)", UnknownName,
        _algorithm_options={"x": 1},
    ),
    "seeds backwards": flags(
        "--seeds '4-0': expected FIRST-LAST or numbers with commas, for example 0-4", seeds="4-0"
    ),
    "too many seeds": flags(
        "--seeds '0-999999999999': expected FIRST-LAST or numbers with commas, for example 0-4", seeds="0-999999999999"
    ),
    "a target above 1": flags("--target = 1.5: input should be less than or equal to 1", target=1.5),
    "a target of few rounds": flags(
        "--target 0.5: it is held against the mean of 5 evaluated rounds, and with rounds = 4 and evaluate-every = 1 "
        "only 4 are evaluated",
        target=0.5,
    ),
    "an unknown reference": flags(
        "unknown row 'dfedmdc' in --reference: valid: local", UnknownName, reference="dfedmdc"
    ),
    "a grid without effect": flags(
        "--grid: 'rho' means nothing to any row (local), or each sets it itself: leave it out", grid=["rho=0.1,0.2"]
    ),
    "tuning on a test seed": flags(
        "--tune-seeds: seed 0 is one of the comparison's, whose test data the choice would have seen; for example "
        "--tune-seeds 100",
        grid=["body-lr=0.1,0.2"], tune_seeds="0",
    ),
    "a grid's key twice": flags("--grid: 'body-lr' is named twice", grid=["body-lr=0.1", "body-lr=0.2"]),
    "a grid's value twice": flags(
        "--grid 'body-lr=0.1,0.1': a key or a value is given twice", grid=["body-lr=0.1,0.1"]
    ),
    "a grid without values": flags(
        "--grid 'body-lr': expected KEY=VALUE,VALUE, for example body-lr+head-lr=0.01,0.03,0.1", grid=["body-lr"]
    ),
    "a grid of graphs": flags(
        "--grid: 'topology' distinguishes the tables: choose one of both", algorithms=["dfedmdc"],
        grid=["topology=ring,full"],
    ),
    "a graph twice": flags(f"the table of 'ring' is asked for twice: {ONCE}", topology=["ring", "ring"]),
    "an unknown partition": flags(
        "unknown partition 'dirichlt': did you mean 'dirichlet:0.3'? valid: …", UnknownName,
        partition=["dirichlt:0.3"],
    ),
    "an unknown task": flags("unknown task 'digitz': did you mean 'digits'? valid: …", UnknownName, _task="digitz"),
    "all for validation": flags("--validation = 1.0: input should be less than 1", validation=1.0),
    "presets of other rounds": Message(
        lambda folder: load(
            None, {"preset": "paper-cifar"}, {"algorithms": ["local", "dfedmdc:preset=dp2-fedsam"]}, small=False
        ),
        ConfigurationError,
        "--rounds is missing: the presets of this comparison have others each (paper-cifar 500, dp2-fedsam 200)",
    ),
    "after the last round": flags("--at-round 11: these runs have 4 rounds", at_round=[11]),
    "a round between evaluations": flags(
        "--at-round 6: with evaluate-every 4 it is not evaluated, 4 and 8 are", at_round=[6], rounds=10,
        _evaluate_every=4,
    ),
    "a round before the last": flags(
        "--at-round 9: with evaluate-every 4 it is not evaluated, 8 and 10 are", at_round=[9], rounds=10,
        _evaluate_every=4,
    ),
    "a round before all evaluations": flags(
        "--at-round 1: with evaluate-every 50 it is not evaluated, 4 is the first that is", at_round=[1],
        _evaluate_every=50,
    ),
    "round 0": flags("--at-round = 0: input should be greater than or equal to 1", at_round=[0]),
    "a round twice": flags("--at-round: 2 is named twice", at_round=[2, 4, 2]),
    "epsilon without privacy": flags(NO_EPSILON, at_epsilon=[2.0]),
    "epsilon with a preset without privacy": flags(NO_EPSILON, at_epsilon=[2.0], _preset="paper-cifar"),
    "epsilon with a row's preset without privacy": flags(
        NO_EPSILON, at_epsilon=[2.0], algorithms=["fedavg:preset=paper-cifar"]
    ),
    "a negative epsilon": flags("--at-epsilon = -1.0: input should be greater than 0", at_epsilon=[-1.0]),
    "an infinite epsilon": flags("--at-epsilon = inf: input should be a finite number", at_epsilon=[math.inf]),
    "an epsilon twice": flags("--at-epsilon: 1.5 is named twice", at_epsilon=[1.5, 1.5]),
    "no TOML": experiment("e.toml is not valid TOML: …", "compare = ["),
    "a misspelt key": experiment(
        "unknown key 'algoritms' in [compare] of e.toml: did you mean 'algorithms'? valid: …",
        "[compare]\nalgoritms=['local']", UnknownName,
    ),
    "no algorithms in a file": experiment(
        "--algorithms is missing, or algorithms in [compare] of e.toml: for example --algorithms "
        "local,dfedavgm,dfedsmdc",
        "", algorithms="",
    ),
    "compare that is no table": experiment("compare in e.toml = 3: expected a table, [compare]", "compare = 3"),
    "small.compare that is no table": experiment(
        "small.compare in e.toml = 2: expected a table, [small.compare]", "small = {compare = 2}"
    ),
    "small without a file": Message(
        lambda folder: load(None, {}, {"algorithms": ["local"]}, small=True), ConfigurationError,
        "--small is for an experiment's file that has a table [small]: name the file",
    ),
    "a file without small": Message(
        file("e.toml", "[compare]\nalgorithms=['local']", lambda path: load(path, {}, {}, small=True)),
        ConfigurationError, "--small is for an experiment's file that has a table [small]; {folder}/e.toml has none",
    ),
    "the best round": experiment(
        f"keep in e.toml: {RESERVED}: the tables are of the last rounds, never of the best one", "keep = 'best'"
    ),
    "validation outside of compare": experiment(
        f"validation in e.toml: {RESERVED}: a share is held out only where --grid chooses: give it as --validation, or "
        "in [compare]",
        "validation = 0.1",
    ),
    "a seed": experiment(f"seed in e.toml: {RESERVED}: repetitions are given by --seeds", "seed = 1"),
    "varied rounds": experiment(
        "compare.vary in e.toml: 'rounds' is the same for all runs of a comparison", "", vary="{rounds=[5]}"
    ),
    "nothing to vary": experiment(
        "compare.vary.degree in e.toml = []: list should have at least 1 item after validation, not 0", "",
        vary="{degree=[]}",
    ),
    "a graph given and varied": experiment(
        "compare.vary in e.toml: 'topology' is given as compare.topology, too", "", topology="['ring']",
        vary="{topology=['ring']}",
    ),
    "a flag that the file varies": experiment(
        "--momentum: e.toml varies it in [compare]: leave one of them out", "", vary="{momentum=[0.1]}"
    ),
    "a condition twice": experiment(
        f"the table of 'ring, size 4' is asked for twice: {ONCE}", "", conditions="[{size=4},{size=4}]"
    ),
    "a table's target above 1": experiment(ABOVE("1.5"), "", conditions="[{target=1.5}]"),
    "a table's target that is no number": experiment(ABOVE("True"), "", conditions="[{target=true}]"),
    "a folder of another rate": begun(
        "'{folder}/dfedmdc-ring-default-seed0' holds a run with body_lr = 0.2, here it is 0.05: give another --out, or "
        "remove that folder",
        {"body_lr": 0.2}, {},
    ),
    "a default that an algorithm has otherwise": begun(
        "'{folder}/fedrep-ring-default-seed0' holds a run with head_epochs = 10, here it is 1: give another --out, or "
        "remove that folder",
        {"row": "fedrep"}, {"row": "fedrep", "head_epochs": 1},
    ),
    "a run that no comparison made": begun(
        "'{folder}/dfedmdc-ring-default-seed0' holds a run that no comparison made: give another --out", {}, {},
        asked=False,
    ),
    "no file of faults": faults("--faults '{folder}/f.toml': No such file or directory", None),
    "faults after the last round": faults(
        "…round = 1000 in …", "[[fault]]\nwhat = 'restart'\npick = 1\nround = 1000\n"
    ),
    "a run without its summary": done("has no summary.json of all peers that says so", "summary.json", None),
    "a torn summary of a peer": done("has summaries of 1 of its 2 peers", "rank-1/summary.json", '{"rank": 1, '),
    "a peer without rounds": done(
        "has a metrics.jsonl of rank 1 that is empty or damaged", "rank-1/metrics.jsonl", None
    ),
    "a damaged round": done(
        "has a metrics.jsonl of rank 0 that is empty or damaged", "rank-0/metrics.jsonl", '{"round": 0}\n{"rou\n'
    ),
    "a peer with fewer rounds": done(
        "has other rounds in metrics.jsonl of one peer than of another", "rank-0/metrics.jsonl", ROUND.format(0)
    ),
    "tuning of graphs": tune(
        "--grid: 'topology' cannot be chosen here, only settings that all peers train with: …", "topology=ring,full"
    ),
    "tuning without effect": tune(
        "--grid: 'ditto-lambda' means nothing to any row (dfedsmdc), or each sets it itself: leave it out",
        "ditto-lambda=0.1,1",
    ),
}  # fmt: skip
