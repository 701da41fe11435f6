"""First weights from a file (``--init-from``)."""

from __future__ import annotations

import difflib
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training.models.scaling import BUFFERS
from dpeer.training.split import is_under
from dpeer.training.state.store import Origin

_MOST = 3
"""How many names a line lists."""


@dataclass(frozen=True)
class Initial:
    """The tensors that a model has taken from a file.

    Attributes:
        sha256: Of the file's content, hex.
        taken: How many tensors the model has from it.
        fresh: Names in the model of those that stay as they were initialised, with the reason.
        unused: Names in the file of those that the model has not.
        origin: The privacy origin that the file states; None without one.
    """

    sha256: str
    taken: int
    fresh: Mapping[str, str]
    unused: tuple[str, ...]
    origin: Origin | None = None

    def to_json(self) -> dict[str, Any]:
        """For the model card."""
        return {"sha256": self.sha256, "taken": self.taken, "fresh": dict(self.fresh), "unused": len(self.unused)}

    def line(self, path: Path) -> str:
        """A line for the user."""
        parts = [f"weights of {path.name} (SHA-256 {self.sha256[:12]}): {self.taken} tensors taken"]
        for reason in dict.fromkeys(self.fresh.values()):
            names = [name for name, why in self.fresh.items() if why == reason]
            parts += [f"{listed(names)} as initialised ({reason})"]
        if self.unused:
            parts.append(f"not used: {listed(self.unused)}")
        return "; ".join(parts)


def begin_from(model: nn.Module, head: tuple[str, ...], path: Path) -> Initial:
    """Give a model the weights in a file; what the file lacks stays as it was initialised.

    Names that differ in a common prefix (``model.``, ``module.``) are matched, and of models of the library
    transformers the names that files published earlier have. Tensors are read one by one, from memory that the system
    maps, so that the file is in memory once at most.

    Args:
        model: The model; changed in place, unless something is refused.
        head: The name prefixes of its head, where a tensor of another shape (of other classes) is left aside.
        path: The file.

    Raises:
        ConfigurationError: The file is missing, or no safetensors file.
        TaskError: The file is of another model.
    """
    own = _own(model)
    with opened(path) as weights:
        found = matched(weights.shapes, own, model)
        unused = tuple(name for name in weights.shapes if name not in found.values())
        fresh = _differing(path, weights, found, own, head)
        taken = {name: there for name, there in found.items() if name not in fresh}
        body = [name for name in own if not is_under(name, head)]
        if not any(name in taken for name in body or own):
            raise _strange(path, weights, body or [*own])
        for name, there in taken.items():
            _check(path, there, weights.tensor(there), own[name])
        for name, there in taken.items():
            own[name].data.copy_(weights.tensor(there))
    reached = {own[name].data_ptr() for name in taken}  # a tied tensor may have one of its names in the file
    fresh |= {name: "not in the file" for name in own if name not in found and own[name].data_ptr() not in reached}
    return Initial(weights.sha256, len(taken), fresh, unused, weights.origin)


def _own(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and saved buffers by name, without those that come from the peer's own data."""
    return {
        name: value for name, value in model.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor) and name not in BUFFERS and not is_lazy(value)
    }  # fmt: skip


def _differing(
    path: Path, weights: Weights, found: Mapping[str, str], own: Mapping[str, Tensor], head: tuple[str, ...]
) -> dict[str, str]:
    """The tensors of the head whose shape in the file differs, with the reason; one of the body is refused."""
    differing: dict[str, str] = {}
    for name, there in found.items():
        shapes = weights.shapes[there], tuple(own[name].shape)
        if shapes[0] == shapes[1]:
            continue
        if not is_under(name, head):
            raise TaskError(
                f"--init-from {path}: {there!r} has shape {shapes[0]}, the model's {name!r} {shapes[1]}: the file is "
                "of a model with other options (--model-option), or of another one"
            )
        differing[name] = f"shape {shapes[0]} in the file, {shapes[1]} here"
    return differing


def _check(path: Path, there: str, value: Tensor, own: Tensor) -> None:
    if value.is_floating_point() != own.is_floating_point():
        kinds = [str(one.dtype).removeprefix("torch.") for one in (value, own)]
        raise TaskError(f"--init-from {path}: {there!r} is of type {kinds[0]}, the model's of {kinds[1]}")
    if value.is_floating_point() and not value.float().isfinite().all():
        raise TaskError(f"--init-from {path}: {there!r} has values that are not finite")


def _strange(path: Path, weights: Weights, own: Sequence[str]) -> TaskError:
    first, near = nearest(own, weights.shapes)
    advice = f"; nearest to {first!r} is {near!r}" if near else ""
    return TaskError(
        f"--init-from {path}: nothing in it fits the model's body: the file has {listed(tuple(weights.shapes))}; the "
        f"model has {listed(own)}{advice}"
    )


def listed(names: Sequence[str]) -> str:
    """The first few of some names, and the number of the others."""
    more = len(names) - _MOST
    return (", ".join(names[:_MOST]) or "nothing") + (f" and {more} more" if more > 0 else "")


_PICKLED = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""How files begin that torch.save writes; a safetensors file begins with the length of its header."""


class Weights:
    """An open file.

    Args:
        source: The open reader of the library.
        sha256: Of its content, hex.

    Attributes:
        shapes: By name, the shape of each tensor.
        origin: The privacy origin that the file states.
    """

    def __init__(self, source: Any, sha256: str) -> None:
        self._source, self.sha256 = source, sha256
        self.shapes: Mapping[str, tuple[int, ...]] = {
            name: tuple(source.get_slice(name).get_shape()) for name in source.keys()  # noqa: SIM118 - no mapping
        }  # fmt: skip
        self.origin = Origin.of_file(source.metadata())

    def tensor(self, name: str) -> Tensor:
        """One tensor, in the type in which it is in the file."""
        found: Tensor = self._source.get_tensor(name)
        return found


@contextmanager
def opened(path: Path) -> Iterator[Weights]:
    """Open a safetensors file.

    Raises:
        ConfigurationError: The file is missing, of another kind or damaged.
    """
    path = path.expanduser()
    try:
        if path.is_dir():
            raise ConfigurationError(f"--init-from {path}: it is a folder; name the .safetensors file in it")
        with path.open("rb") as file:
            start = file.read(4)
        if start.startswith(_PICKLED):
            raise ConfigurationError(_pickled(path))
        stat = path.stat()
        sha256 = _hash(path.resolve(), stat.st_size, stat.st_mtime_ns)
        with safe_open(path, framework="pt") as source:
            yield Weights(source, sha256)
    except OSError as error:
        raise ConfigurationError(f"--init-from {path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise ConfigurationError(
            f"--init-from {path}: it is damaged, or no safetensors file ({error}); expected one, such as "
            "model.safetensors"
        ) from error


def _pickled(path: Path) -> str:
    to = path.with_suffix(".safetensors").name
    return (
        f"--init-from {path}: it is a file of torch.save, which may run code when it is read: convert it where you "
        f"trust it, with safetensors.torch.save_file(torch.load({path.name!r}, weights_only=True), {to!r})"
    )


@lru_cache(maxsize=16)
def _hash(path: Path, size: int, changed: int) -> str:
    """SHA-256 (hex) of a file; once for all peers of a process, as long as its size and time of change stay."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


Translation = Callable[[str], str]

_WRAPPERS = frozenset({"module", "model", "base_model", "net", "_orig_mod", "state_dict"})
"""What programs put before names when they save a model: for these, and no others, another prefix may come."""

_DEEPEST = 3
"""How many components a common prefix may have."""


def matched(there: Collection[str], here: Collection[str], model: nn.Module) -> dict[str, str]:
    """By the model's name, the file's: as many as can be matched.

    Tried are the names as they are and, of models of the library transformers, translated from those that earlier
    versions gave, each with a prefix left out that most of the file's names have, or one added that most of the
    model's have; both only where what is left out is no part of a model. The first of those that match most counts.

    Args:
        there: The file's names.
        here: The model's.
        model: The model. What it says in an attribute `names_elsewhere`, prefixes of its names by those of files, is
            used for names that are found in no other way.
    """
    elsewhere: Mapping[str, str] = getattr(model, "names_elsewhere", {})
    best: dict[str, str] = {}
    for translate in (_as_it_is, *_translations(model)):
        names = {name: translate(name) for name in there}
        for left_out in ("", *_prefixes(names.values())):
            replaceable = _WRAPPERS.issuperset(left_out.split(".")[:-1])
            for added in ("", *_prefixes(here)) if replaceable else ("",):
                found = _found(names, here, left_out, added, elsewhere)
                if len(found) > len(best):
                    best = found
    return best


def nearest(here: Iterable[str], there: Collection[str]) -> tuple[str, str]:
    """A name of the model, and the file's that is most like it; the latter is empty where none is."""
    first = ""
    for name in here:
        first = first or name
        if near := difflib.get_close_matches(name, there, n=1):
            return name, near[0]
    return first, ""


def _found(
    names: Mapping[str, str], here: Collection[str], left_out: str, added: str, elsewhere: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, translated in names.items():
        short = translated.removeprefix(left_out)
        for candidate in (added + short, translated, *_renamed(short, elsewhere)):
            if candidate in here:
                found.setdefault(candidate, name)
                break
    return found


def _as_it_is(name: str) -> str:
    return name


def _renamed(name: str, elsewhere: Mapping[str, str]) -> list[str]:
    return [
        ours + name.removeprefix(theirs) for theirs, ours in elsewhere.items() if name.startswith(theirs + ".")
    ]  # fmt: skip


def _prefixes(names: Collection[str]) -> list[str]:
    """The prefixes, in whole components and with the dot, that at least half of some names have."""
    counts: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        counts.update(".".join(parts[:count]) + "." for count in range(1, min(_DEEPEST + 1, len(parts))))
    return [prefix for prefix, count in counts.items() if 2 * count >= len(names)]


def _translations(model: nn.Module) -> list[Translation]:
    """How the library transformers translates names of files that earlier versions of it wrote."""
    if "transformers" not in sys.modules:  # then the model is not of it
        return []
    from transformers import PreTrainedModel
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    of_library = next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
    if of_library is None:
        return []
    steps: list[Any] = [one for one in get_model_conversion_mapping(of_library) if isinstance(one, WeightRenaming)]
    return [lambda name: str(rename_source_key(name, steps, [])[0])]
