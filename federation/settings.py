"""`dpeer.Settings`: all settings of a federation, of which each package states its own, and errors of wrong ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, get_origin

from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    create_model,
    model_validator,
)

from dpeer.exceptions import ConfigurationError
from dpeer.federation.presets import find_preset
from dpeer.federation.removed_names import KEYS, VALUES
from dpeer.federation.run_settings import (
    Addresses,
    HostPart,
    NetworkPart,
    NetworkSettings,
    OperatorSettings,
    QuorumSettings,
    RunPart,
)
from dpeer.privacy.settings import PrivacySettings
from dpeer.sections import Mark, Mistake, Section, marked, meaning_of
from dpeer.topology import size_of
from dpeer.topology.mixing_matrix import DECLARED, spelled
from dpeer.topology.settings import GraphSettings
from dpeer.training.lora import FORM
from dpeer.training.settings import DataPart, PlainOptions, TrainingPart

_EXPECTED = {
    "device": "auto, cpu, cuda or cuda:N",
    "robust": "none, clip, clip:TAU, trimmed-mean:F or median, for example trimmed-mean:1",
    "lora": FORM,
    "lr_schedule": "exponential, step:N or cosine, perhaps with +warmup:N, for example step:10",
    "deadline": "a number of seconds, auto or never",
    "quorum": "majority, any, or a number of ranks, more than half of all",
    "log_to": "tensorboard, mlflow or wandb, or a list of them",
    "serve": "PORT or HOST:PORT, for example 7780 or 10.0.0.3:7780",
    "weight": "a number above 0: rows, patients or votes, such as 400",
    "operators": "64 hexadecimal digits, as `dpeer keygen --operator` prints them",
    "key": "64 hexadecimal digits in quotes, as `dpeer keygen` prints them, or a list of two such keys",
}
"""Settings whose pattern says less than an example."""

_NO_KEYS = ("[key]", "str", "list[str]", "int", "constrained-int", "float", "constrained-float")
"""What pydantic puts into a mistake's place beside keys: the key itself is wrong, or none of a key's types fits."""


class InvalidSettings(ConfigurationError):  # noqa: N818 - reads as what happened
    """Settings that pydantic has refused; a mistake may be nearest to a known one, or to a rank's own."""

    def __init__(self, error: ValidationError, known: Collection[str], of_rank: Collection[str]) -> None:
        self._mistake = Mistake(error)
        self._known, self._of_rank = known, of_rank
        super().__init__(str(self.located({}, None)))

    def located(self, flags: Mapping[str, Any], path: Path | None) -> ConfigurationError:
        """The same error, with the mistake named as the user made it: as one of these flags, or in the file."""
        mistake, where = self._mistake, "" if path is None else str(path)
        keys = [part for part in mistake.keys if part not in _NO_KEYS and not part.startswith("literal[")]
        *tables, name = keys or [""]
        source = ".".join(keys) + (where and f" in {where}")
        if mistake.kind == "extra_forbidden":
            if tables:
                where = f"[{'.'.join(tables)}]{where and f' of {where}'}"
            place = where and f" in {where}"
            if name in KEYS:
                return ConfigurationError(f"{name}{place} has been removed: {KEYS[name]}")
            if name == "policy":
                why = "a site's own rules, which no federation file sets: give --policy FILE, or DPEER_POLICY=FILE"
                return ConfigurationError(f"policy{place}: {why} (docs/security.md)")
        elif keys[:1] and keys[0] in flags:
            source = f"--{'.'.join(keys).replace('_', '-')}"
        if advice := VALUES.get((name, str(mistake.value))):
            return ConfigurationError(f"{source} = {mistake.value!r} has been removed: {advice}")
        known = self._of_rank if tables else self._known
        in_list = tables[-1] if name.isdecimal() and tables else name
        return mistake.error(source, known, where, expected=_EXPECTED.get(in_list))


class _AllSettings(
    NetworkSettings,
    OperatorSettings,
    QuorumSettings,
    HostPart,
    RunPart,
    PrivacySettings,
    TrainingPart,
    DataPart,
    GraphSettings,
):
    """The sections together; pydantic puts the fields of the last base first."""


TABLES = tuple(
    name for name, field in _AllSettings.model_fields.items() if get_origin(field.annotation) is dict
)  # fmt: skip
"""Settings that are tables of options: one that is given adds to what a file has, key by key."""


def _of_rank() -> dict[str, Any]:
    """The settings that a federation file may give one rank, each optional."""
    found: dict[str, Any] = {}
    for name, field in _AllSettings.model_fields.items():
        if meaning_of(field).of_rank:
            kind: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
            found[name] = (kind | None, Field(None))
    return found | {"task_options": (PlainOptions, Field(default_factory=dict))}


class _OfRank(Addresses):
    """Checked once more with the settings that have it, since a script may have changed it."""

    model_config = ConfigDict(revalidate_instances="always")


if TYPE_CHECKING:

    class RankSettings(Addresses):
        """The model as type checkers see it; the one that is made below has every setting of `_of_rank`."""

        task_options: PlainOptions
        out: Path | None

else:
    RankSettings = create_model(
        "RankSettings",
        __base__=_OfRank,
        __doc__="`[rank.N]` in dpeer.toml: what is this peer's own and not compared with the others.",
        **_of_rank(),
    )


class Settings(NetworkPart, _AllSettings):
    """All settings of a federation. The defaults suit small models."""

    model_config = ConfigDict(frozen=False)

    rank: dict[Annotated[int, Field(strict=False)], RankSettings] = Field(default_factory=dict)
    _of_preset: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    _from: tuple[Path | None, frozenset[str]] = PrivateAttr((None, frozenset()))
    """The federation file, and the names that flags have set."""

    @property
    def of_preset(self) -> Mapping[str, Any]:
        """The preset's values with this algorithm, those included in whose place others were given."""
        return self._of_preset

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        """Raise what is wrong as dpeer's own error."""
        try:
            return check(values)
        except ValidationError as error:
            raise InvalidSettings(error, cls.model_fields, RankSettings.model_fields) from error

    @model_validator(mode="after")
    def _settle(self) -> Settings:
        """Set what follows from other settings: a preset's values, and the size of a graph's file."""
        if self.preset:
            preset = find_preset(self.preset)
            given = "algorithm" in self.model_fields_set
            self._of_preset = preset.values_for(
                self.algorithm if given else preset.values.get("algorithm", self.algorithm)
            )
        for name, value in self._of_preset.items():
            if name not in self.model_fields_set:
                setattr(self, name, value)
                self.model_fields_set.discard(name)  # not given
        if self.topology.startswith("file:") and "size" not in self.model_fields_set:
            self.size = size_of(self.topology)
        _check_operators(self)
        for rank in self.rank:
            if rank < 0 or (rank >= self.size and not self.operators):
                raise ConfigurationError(
                    f"rank.{rank}: ranks of a federation of size {self.size} are 0..{self.size - 1}"
                )
        if (weights := _declared(self)) is not None:
            self.weights = weights
        return self

    def origin(self, rank: int, name: str) -> str:
        """What has set a value with which a rank runs."""
        file, flags = self._from
        table = self.rank[rank].model_fields_set if rank in self.rank else ()
        levels: list[tuple[str, Collection[str]]] = [
            ("flag", flags),
            (f"[rank.{rank}] of {file}", table),
            (str(file or "the settings"), self.model_fields_set),
            (f"preset {self.preset}", self.of_preset),
        ]
        return next((origin for origin, names in levels if name in names), "default")

    def of_rank(self, rank: int) -> Settings:
        """The settings as this rank uses them: its own entries from `[rank.N]` over the common ones.

        Raises:
            ConfigurationError: The rank does not exist.
        """
        if rank < 0 or (rank >= self.size and not self.operators):
            raise ConfigurationError(
                f"rank {rank} does not exist in a federation of size {self.size}: 0..{self.size - 1}"
            )
        own = self.rank.get(rank)
        if own is None:
            return self
        changes = own.model_dump(exclude_none=True, exclude={*Addresses.model_fields, "task_options"})
        options = {**self.task_options, **own.model_dump()["task_options"]}
        return self.model_copy(update={**changes, "task_options": options})


def _check_operators(settings: OperatorSettings) -> None:
    """Refuse operators of whom one stands twice, fewer than must sign, and those of a run without a name."""
    listed, signers = settings.operators or [], settings.signers
    if len({*listed}) < len(listed):
        raise ConfigurationError(f"operators = {listed}: a key stands twice: list each operator once")
    if signers > len(listed) and (listed or signers > 1):
        raise ConfigurationError(
            f"signers = {signers}: the federation file lists {len(listed)} operators: list as many keys, or ask for "
            "fewer signers"
        )
    if listed and settings.name is None:
        raise ConfigurationError('operators: give the run a name of its own, too, such as name = "ward-study-1"')


def _declared(settings: Settings) -> str | None:
    """The weights with the numbers of the ranks' tables, so that they are one value; None without any.

    Raises:
        ConfigurationError: They are not those of all ranks, are not used, or other ones are given beside them.
    """
    numbers = {rank: own.weight for rank, own in settings.rank.items() if own.weight is not None}
    if not numbers:
        return None
    first, value = next(iter(numbers.items()))
    if settings.weights.partition(":")[0] != DECLARED:
        raise ConfigurationError(
            f"rank.{first}.weight = {value:g}: weights = {settings.weights!r} does not use it: give weights = "
            f'"{DECLARED}", or leave it out'
        )
    if settings.operators and (later := [rank for rank in numbers if rank >= settings.size]):
        raise ConfigurationError(
            f"rank.{later[0]}.weight: the member list that adds the rank has its weight (dpeer members add --weight): "
            "leave it out"
        )
    if missing := [rank for rank in range(settings.size) if rank not in numbers]:
        raise ConfigurationError(f'rank.{missing[0]}.weight is missing: weights = "{DECLARED}" needs one of each rank')
    weights = spelled([numbers[rank] for rank in range(settings.size)])
    if settings.weights not in (DECLARED, weights):
        raise ConfigurationError(f"weights = {settings.weights!r}: [rank.N] has {weights!r}: give one of the two")
    return weights


def default_of(name: str) -> Any:
    """A setting's default; None for a name that is no setting."""
    field = Settings.model_fields.get(name)
    return None if field is None else field.get_default(call_default_factory=True)


def option_names(*but: type[Section]) -> tuple[str, ...]:
    """The names of all settings, in the order of the help, except those of some sections."""
    left_out = {name for section in but for name in section.model_fields}
    return tuple(name for name in _AllSettings.model_fields if name not in left_out)


def aside() -> tuple[str, ...]:
    """The names of the settings that have no effect on results."""
    return marked(_AllSettings, Mark.ASIDE)


def shared(section: type[Section] | None = None) -> tuple[str, ...]:
    """The names of the settings that peers compare, of one section or of all."""
    return marked(section or _AllSettings, Mark.SHARED)


def check_own_data(settings: Settings) -> None:
    """Refuse one file for several peers that should each have their own, before anything is read."""
    if "path" not in settings.task_options and not settings.rank and settings.partition != "own":
        return
    from dpeer.training.tasks.builtin import check_own_data as check  # torch: only where it can matter

    own = [settings.of_rank(rank) for rank in range(settings.size)]
    check([(peer.task, peer.task_options) for peer in own], settings.partition)


def revalidated(settings: Settings) -> Settings:
    """The settings, validated once more after code has changed them; also a dict that was changed in place is given.

    Raises:
        ConfigurationError: Names the key, the value and what would be right.
    """
    given = settings.model_fields_set
    return Settings.model_validate(
        {name: value for name, value in settings if name in given or (isinstance(value, dict) and value)}
    )
