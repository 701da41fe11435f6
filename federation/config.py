"""The configuration of a run: settings from file and flags, and the frozen values that one peer runs with.

`load` reads a file and flags into `Settings`; `resolve` makes a `RunConfig` of them, in which preset, algorithm and
rank have set what the user left open. An error is one line that names the key, the value and what would be right.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer import training
from dpeer.exceptions import ConfigurationError
from dpeer.federation.policy import find, obey
from dpeer.federation.run_settings import HostPart, NetworkPart, RunPart
from dpeer.federation.settings import TABLES, InvalidSettings, Settings
from dpeer.privacy import PrivacyConfig
from dpeer.privacy.settings import PrivacySettings
from dpeer.sections import Section
from dpeer.toml_text import read_toml
from dpeer.topology import Graphs, Participation, Topology, take_part
from dpeer.topology.settings import GraphSettings, build_graph
from dpeer.training.settings import DataPart, TrainingPart

if TYPE_CHECKING:
    from dpeer.training import Algorithm

DEFAULT_FILE = Path("dpeer.toml")
BESIDE_FILE = ("schema", "faults", "secret", "init_from")
"""Settings that are paths, which a federation file counts from its own folder."""
_RATES = ("body_lr", "head_lr")
_OF_ADAMW = 0.001
"""PyTorch's own: AdamW's steps have about the length of the rate, whatever the gradient's."""
GRAD_CLIP = 1.0
"""The longest gradient by default; the setting itself is none, as in bare `Hyperparameters`."""
VALIDATION = 0.15
"""Default share of the training samples that is held out where the best model is kept."""
_AFTERWARDS = "head:10"
"""Training of a head that stayed as it was while messages left."""


def load(file: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Settings from a federation file (None: ./dpeer.toml if it exists) and flags by name, of which None is not given.

    Flags win, also over `[rank.N]`.
    """
    path = source(file)
    return _settled(read_toml(path, "--federation") if path else {}, flags, path)


def origins(file: Path, flags: Mapping[str, Any], rank: int) -> dict[str, tuple[Any, str]]:
    """By setting the value with which a rank runs, as plain JSON, and where it comes from; arguments as of `load`."""
    settings = load(file, flags)
    config = resolve(settings.of_rank(rank), rank)
    chosen = config.algorithm.defaults.keys() - config.given.keys()
    algorithm = f"algorithm {config.training.algorithm}"
    return {
        name: (value, algorithm if name in chosen else settings.origin(rank, name))
        for name, value in config.plain().items()
    }


def from_flags(flags: Mapping[str, Any]) -> Settings:
    """Settings from flags alone, wherever the command is called."""
    return _settled({}, flags, None)


def _settled(values: dict[str, Any], flags: Mapping[str, Any], path: Path | None) -> Settings:
    listed = any({"address", "weight"} & own.keys() for own in _tables(values.get("rank")))
    misspelt = values.keys() - Settings.model_fields.keys()  # which is the better news, and may be the size
    if listed and "size" not in values and flags.get("size") is None and not misspelt:
        ranks = ", ".join(str(rank) for rank in values["rank"]) if isinstance(values["rank"], dict) else "some"
        raise ConfigurationError(f"size is missing in {path}, which has entries for ranks {ranks}: add size = N")
    given = {key: value for key, value in flags.items() if value is not None and value != {}}
    for key in TABLES:
        if key in given:
            common = values.get(key, {})
            given[key] = {**(common if isinstance(common, dict) else {}), **given[key]}
    for table in (values, *_tables(values.get("rank"))):
        for name in BESIDE_FILE:
            if path is not None and isinstance(table.get(name), str):
                table[name] = str(path.parent / Path(table[name]).expanduser())
    for own in _tables(values.get("rank")):
        for key in given.keys() & own.keys():
            own[key] = {**own[key], **flags[key]} if key == "task_options" else given[key]
    try:
        settings = Settings.model_validate({**values, **given})
    except InvalidSettings as error:
        raise error.located(given, path) from error
    settings._from = path, frozenset(given)
    return settings


def source(file: Path | None) -> Path | None:
    """The federation file that is used: the one that was named, or ./dpeer.toml if it exists."""
    return file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)


def parse_option(text: str, where: str = "--task-option", example: str = "data=/path/to/data") -> tuple[str, Any]:
    """A KEY=VALUE, such as of --task-option; the value is TOML where it can be, else the text itself."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"{where} {text!r}: expected KEY=VALUE, for example {example}")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return key, value
    return key, parsed["value"] if len(parsed) == 1 else value


def _tables(ranks: object) -> list[dict[str, Any]]:
    return [own for own in ranks.values() if isinstance(own, dict)] if isinstance(ranks, dict) else []


PARTS: Mapping[str, type[Section]] = {
    "graph": GraphSettings,
    "data": DataPart,
    "training": TrainingPart,
    "privacy": PrivacySettings,
    "run": RunPart,
    "host": HostPart,
    "network": NetworkPart,
}
"""The parts of a run's configuration, in the order of `Settings`."""


@dataclass(frozen=True)
class RunConfig:
    """The values that one peer runs with, in a part for each package, and what follows from them; none is left open."""

    rank: int
    graph: GraphSettings
    data: DataPart
    training: TrainingPart
    privacy: PrivacySettings
    network: NetworkPart
    host: HostPart
    run: RunPart
    algorithm: type[Algorithm]
    options: Any
    """The algorithm's `Options`."""
    given: Mapping[str, Any]
    """The settings that the user gave, as plain JSON values."""
    held_out_if_enough: bool
    """Whether validation data are the default's choice, so that a peer with too few samples trains on all of them."""

    @cached_property
    def topology(self) -> Topology:
        """The graph of all peers; one that does not exist is an error here."""
        return build_graph(self.graph)

    @cached_property
    def meeting(self) -> Graphs:
        """The same with those alone that take part in a round."""
        return self.taking_part(self.topology)

    def taking_part(self, graph: Graphs) -> Graphs:
        """A graph with those of its peers alone that take part in a round."""
        how = self.training
        return take_part(graph, how.participation, how.participation_mode, how.seed)

    @cached_property
    def protected(self) -> PrivacyConfig:
        """The part on which privacy depends."""
        how, data = self.training, self.data
        return PrivacyConfig(
            self.privacy,
            size=self.graph.size,
            rounds=self.planned_rounds() if self.privacy.privacy != "none" else 0,
            batch_size=how.batch_size,
            checkpoint_every=self.run.checkpoint_every,
            algorithm=how.algorithm,
            task=data.task,
            finish=how.finish,
            standardize=bool(data.standardize),
            shares=self.algorithm.shares != "nothing",
        )

    def planned_rounds(self, first: int = 0) -> int:
        """The most rounds in which one peer takes part, from round `first` on."""
        how = self.training
        if how.participation == 1:
            return max(0, how.rounds - first)
        return _most_active(Participation(self.topology, how.participation, how.seed), how.rounds, first)

    def values(self) -> dict[str, Any]:
        """All settings by name."""
        return {name: value for part in PARTS for name, value in getattr(self, part) if name != "rank"}

    def plain(self) -> dict[str, Any]:
        """All settings as plain JSON values, in the order of `Settings`."""
        values: dict[str, Any] = {}
        for part in PARTS:
            values |= getattr(self, part).model_dump(mode="json", exclude={"rank"})
        return values


@lru_cache(maxsize=4)
def _most_active(graphs: Participation, rounds: int, first: int) -> int:
    """The most rounds of one peer, counted once for all peers of a process."""
    counts = Counter(rank for number in range(first, rounds) for rank in graphs.participants(number))
    return max(counts.values(), default=0)


def resolve(settings: Settings, rank: int) -> RunConfig:
    """The configuration of one peer, from the settings as its rank uses them (`Settings.of_rank`).

    Raises:
        UnknownName: No such algorithm, option or preset exists.
        AlgorithmError: An option is of another type, or beyond its limits.
        ConfigurationError: Settings contradict each other, or the site's policy forbids a program.
    """
    if (policy := find(settings.secret)) is not None:
        obey(policy.programs(dict(settings), partial(settings.origin, rank)))
    algorithm = training.find_algorithm(settings.algorithm)
    values = dict(settings) | _defaults(settings, algorithm)
    # Whether the default holds samples out, so that a peer with too few of them trains on all.
    if_enough = values["keep"] == "auto" and values["validation"] is None
    # Under privacy and in a paper's run no data choose a model; those that are measured on have not chosen it either.
    fair = values["privacy"] == "none" and not values["preset"] and values["evaluate_on"] == "test"
    values["keep"], values["validation"] = _kept_model(values["keep"], values["validation"], fair=fair)
    parts: dict[str, Any] = {
        name: part(**{field: values[field] for field in part.model_fields}) for name, part in PARTS.items()
    }
    return RunConfig(
        rank=rank,
        **parts,
        algorithm=algorithm,
        options=training.make_options(algorithm, values["algorithm_options"]),
        given=settings.model_dump(mode="json", exclude_unset=True, exclude={"rank"}),
        held_out_if_enough=if_enough,
    )


def _defaults(settings: Settings, algorithm: type[Algorithm]) -> dict[str, Any]:
    """The defaults of the algorithm, or else of the optimizer or the task, where neither user nor preset has a value.

    Those of the algorithm count before the preset's.

    Raises:
        ConfigurationError: The preset's rates are those of another optimizer.
    """
    builtin, preset = training.BUILTIN_TASKS.get(settings.task), settings.of_preset
    given = settings.model_fields_set
    rates = _rates(settings, {*given, *algorithm.defaults}) if settings.optimizer == "adamw" else {}
    usual = {name: value for name, value in {"grad_clip": GRAD_CLIP, **rates}.items() if name not in preset}
    own = {**usual, **algorithm.defaults}
    if settings.standardize is None:
        # Under privacy, statistics of the peer's own data are computed only on request.
        own["standardize"] = builtin is not None and builtin.standardize and settings.privacy == "none"
        given = given - {"standardize"}
    if settings.privacy == "sample" and "finish" not in given:
        own["finish"] = _AFTERWARDS if settings.dp_head == "post" else "none"
    return {name: value for name, value in own.items() if name not in given}


def _rates(settings: Settings, given: Collection[str]) -> dict[str, float]:
    """The default rates of AdamW."""
    preset = settings.of_preset
    of_sgd = preset.get("optimizer") != "adamw"
    if of_sgd and (strange := [name for name in _RATES if name in preset and name not in given]):
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in strange)
        raise ConfigurationError(
            f"--optimizer adamw: preset {settings.preset!r} has learning rates for sgd, which are far too large for "
            f"adamw: give {flags} too, for example {_OF_ADAMW:g}"
        )
    return dict.fromkeys(_RATES, _OF_ADAMW)


def _kept_model(keep: str, validation: float | None, *, fair: bool) -> tuple[str, float]:
    """The kept model in place of "auto", and the share of samples held out to choose it by."""
    if keep == "auto":
        keep = "best" if fair and validation != 0 else "last"
    if validation is None:
        validation = VALIDATION if fair and keep != "last" else 0.0
    return keep, validation
