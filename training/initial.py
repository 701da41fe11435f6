"""First weights from a file (``--init-from``)."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
from dpeer.training.state.store import Origin, federated_prefix

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
        body: How many tensors the body has, and how many of them the file lacks.
        origin: The privacy origin that the file states; None without one.
    """

    sha256: str
    taken: int
    fresh: Mapping[str, str]
    unused: tuple[str, ...]
    body: tuple[int, int]
    origin: Origin | None = None

    def to_json(self) -> dict[str, Any]:
        """For the model card."""
        return {"sha256": self.sha256, "taken": self.taken, "fresh": dict(self.fresh), "unused": len(self.unused)}

    def line(self, path: Path) -> str:
        """A line for the user."""
        count, lacking = self.body
        warning = f"WARNING: {lacking} of the body's {count} tensors begin as initialised: " if lacking else ""
        parts = [f"{warning}weights of {path.name} (SHA-256 {self.sha256[:12]}): {self.taken} tensors taken"]
        for reason in dict.fromkeys(self.fresh.values()):
            names = [name for name, why in self.fresh.items() if why == reason]
            parts += [f"{listed(names)} as initialised ({reason})"]
        if self.unused:
            parts.append(f"not used: {listed(self.unused)}")
        return "; ".join(parts)


def begin_from(model: nn.Module, head: tuple[str, ...], path: Path) -> Initial:
    """Give a model the weights in a file; what the file lacks stays as it was initialised.

    Names may have other prefixes in the file; see `matched`. Tensors are read one by one, from memory that the system
    maps, so that the file is in memory once at most. In the head, a tensor of another shape (of other classes) is left
    aside.

    Raises:
        ConfigurationError: A file is missing, or no safetensors file.
        TaskError: The file is of another model, or holds the model twice.
    """
    own = _own(model)
    with opened(path) as weights:
        found = matched(path, weights.shapes, own, model)
        unused = tuple(name for name in weights.shapes if name not in found.values())
        fresh = _differing(path, weights, found, own, head)
        taken = {name: there for name, there in found.items() if name not in fresh}
        body = [name for name in own if not is_under(name, head)] or [*own]
        if not any(name in taken for name in body):
            raise TaskError(
                f"--init-from {path}: nothing in it fits the model's body: the file has {listed([*weights.shapes])}; "
                f"the model has {listed(body)}"
            )
        for name, there in taken.items():
            _check(path, there, weights.tensor(there), own[name])
        reached = {own[name].data_ptr() for name in taken}  # a tied tensor may have one of its names in the file
        lacking = [name for name in body if name not in taken and own[name].data_ptr() not in reached]
        if 2 * len(lacking) > len(body):
            raise TaskError(
                f"--init-from {path}: it has {len(body) - len(lacking)} of the body's {len(body)} tensors, fewer than "
                f"half, and lacks {listed(lacking)}: it is of another model, or one part of several files (then name "
                "their .index.json)"
            )
        for name, there in taken.items():
            own[name].data.copy_(weights.tensor(there))
    fresh |= {name: "not in the file" for name in own if name not in found and own[name].data_ptr() not in reached}
    return Initial(weights.sha256, len(taken), fresh, unused, (len(body), len(lacking)), weights.origin)


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


def listed(names: Sequence[str]) -> str:
    """The first few of some names, and the number of the others."""
    more = len(names) - _MOST
    return (", ".join(names[:_MOST]) or "nothing") + (f" and {more} more" if more > 0 else "")


class Weights:
    """One open file, or several that make up one model; of a blend the federated member alone, by its own names.

    Attributes:
        shapes: By name, the shape of each tensor.
        origin: The privacy origin that the files state, the worst of them.
    """

    def __init__(self, sources: Sequence[Any], sha256: str) -> None:
        self._source: dict[str, tuple[Any, str]] = {}
        for source in sources:
            prefix = federated_prefix(source.metadata())
            names = (name for name in source.keys() if name.startswith(prefix))  # noqa: SIM118 - no mapping
            self._source |= {name.removeprefix(prefix): (source, name) for name in names}
        self.sha256 = sha256
        self.shapes: Mapping[str, tuple[int, ...]] = {
            name: tuple(source.get_slice(there).get_shape()) for name, (source, there) in self._source.items()
        }
        stated = (Origin.of_file(source.metadata()) for source in sources)
        self.origin = max(filter(None, stated), key=[*Origin].index, default=None)

    def tensor(self, name: str) -> Tensor:
        """One tensor, in the type in which it is in the file."""
        source, there = self._source[name]
        found: Tensor = source.get_tensor(there)
        return found


@contextmanager
def opened(path: Path) -> Iterator[Weights]:
    """Open a safetensors file, or all those that an index names.

    Raises:
        ConfigurationError: A file is missing, of another kind or damaged.
    """
    path = path.expanduser()
    try:
        if path.is_dir():
            raise ConfigurationError(f"--init-from {path}: it is a folder; name the .safetensors file in it")
        with ExitStack() as stack:
            sources, hashes = [], []
            for part in _parts(path):
                stat = part.stat()
                hashes.append(_hash(part.resolve(), stat.st_size, stat.st_mtime_ns))
                sources.append(stack.enter_context(safe_open(part, framework="pt")))
            whole = hashlib.sha256("".join(hashes).encode()).hexdigest() if len(hashes) > 1 else hashes[0]
            yield Weights(sources, whole)
    except OSError as error:
        raise ConfigurationError(f"--init-from {error.filename or path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise ConfigurationError(
            f"--init-from {path}: it is damaged, or no safetensors file ({error}); convert a file of torch.save where "
            "you trust it: safetensors.torch.save_file(torch.load(FILE, weights_only=True), 'model.safetensors')"
        ) from error


def _parts(path: Path) -> list[Path]:
    """The files that make up one: those that an index (model.safetensors.index.json) names, or the file itself."""
    if not path.name.endswith(".index.json"):
        return [path]
    try:
        names = sorted({*json.loads(path.read_bytes())["weight_map"].values()})
        return [path.with_name(name) for name in names if name] or [path]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(
            f"--init-from {path}: expected an index whose weight_map has a file name beside it for each tensor"
        ) from error


@lru_cache(maxsize=16)
def _hash(path: Path, size: int, changed: int) -> str:
    """SHA-256 (hex) of a file; once for all peers of a process, as long as its size and time of change stay."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_WRAPPERS = frozenset({"module", "model", "base_model", "net", "_orig_mod", "state_dict"})
"""What programs put before names when they save a model."""


def matched(path: Path, there: Collection[str], here: Collection[str], model: nn.Module) -> dict[str, str]:
    """By the model's name, the file's: as many as can be matched.

    A name that is in both is the same tensor. Of others, what wraps a model (``model.``, ``module.``) does not count,
    and one more first part may stand before the name in the file or in the model, as in ``encoder.conv1.weight``. Of a
    model of the library transformers, names of earlier versions are translated. What a model says in an attribute
    `names_elsewhere`, prefixes of its names by those of files, is used in the same way.

    Raises:
        TaskError: The file has two tensors for one of the model's: it holds an average (EMA), a teacher, ..., too.
    """
    translate, elsewhere = _translation(model), getattr(model, "names_elsewhere", {})
    whole = {_unwrapped(name): name for name in here}
    inner = {_inner(name): own for name, own in whole.items()}
    found: dict[str, list[str]] = defaultdict(list)
    for name in there:
        if name in here:
            found[name].append(name)
            continue
        short = _unwrapped(translate(name))
        for candidate in (_unwrapped(name), short, *_renamed(short, elsewhere)):
            if own := whole.get(candidate) or inner.get(candidate) or whole.get(_inner(candidate)):
                found[own].append(name)
                break
    for own, names in found.items():
        if len(names) > 1 and own not in names:
            raise TaskError(
                f"--init-from {path}: it has the model's {own!r} more than once, as {listed(names)}: save the tensors "
                "of the model that is meant to a file of their own"
            )
    return {own: own if own in there else names[0] for own, names in found.items()}


def _unwrapped(name: str) -> str:
    first, _, rest = name.partition(".")
    return _unwrapped(rest) if rest and first in _WRAPPERS else name


def _inner(name: str) -> str:
    return name.partition(".")[2]


def _renamed(name: str, elsewhere: Mapping[str, str]) -> list[str]:
    return [
        ours + name.removeprefix(theirs) for theirs, ours in elsewhere.items() if name.startswith(theirs + ".")
    ]  # fmt: skip


def _translation(model: nn.Module) -> Callable[[str], str]:
    """How the library transformers translates names of files that earlier versions of it wrote."""
    if "transformers" not in sys.modules:  # then the model is not of it
        return str
    from transformers import PreTrainedModel
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    of_library = next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
    if of_library is None:
        return str
    steps: list[Any] = [one for one in get_model_conversion_mapping(of_library) if isinstance(one, WeightRenaming)]
    return lambda name: str(rename_source_key(name, steps, [])[0])
