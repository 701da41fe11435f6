"""State of a learner on disk, tensors in safetensors and JSON, bit for bit; and the writer of safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from dpeer.atomic import replacing
from dpeer.exceptions import CheckpointError, TaskError, describe
from dpeer.training.device import host
from dpeer.training.flat import Flat
from dpeer.training.payload import little_endian
from dpeer.training.state.file_names import REST, TENSORS, body_key

_ORIGIN = "dpeer_privacy"
"""Its key in a file's metadata."""


class Origin(StrEnum):
    """How a model whose records are not protected came about, the worst last.

    A private run that begins from such a model (``--init-from``) would not protect its records. So the metadata of its
    file name the origin, where programs that load the tensors do not mind it.
    """

    NONE = "none"
    """By a run without privacy, or from a file of one."""
    CLIENT = "client"
    """By a run that protected messages, and its model at home not at all."""
    POST = "sample with dp-head post"
    """By a run that protected records in all that left the peer, and trained at home without noise at the end."""

    @classmethod
    def of_run(cls, *, client: bool, sample: bool, at_home: bool, first: Origin | None) -> Origin | None:
        """That of the model of a run; None where each record is protected in it.

        Args:
            client: Whether messages are protected.
            sample: Whether each record is protected in training.
            at_home: Whether with the latter something is trained without noise at the end.
            first: That of the first weights; what they tell of their records stays in the model.
        """
        own = cls.CLIENT if client else cls.NONE if not sample else cls.POST if at_home else None
        return max(filter(None, (own, first)), key=list(cls).index, default=None)

    @classmethod
    def of_file(cls, metadata: Mapping[str, str] | None) -> Origin | None:
        """The origin in a file's metadata; None without one. A word of a later version promises nothing."""
        value = (metadata or {}).get(_ORIGIN)
        if value is None:
            return None
        return cls(value) if value in list(cls) else cls.NONE


_TYPES = {
    torch.uint64: "U64", torch.int64: "I64", torch.float64: "F64", torch.complex64: "C64", torch.float32: "F32",
    torch.uint32: "U32", torch.int32: "I32", torch.bfloat16: "BF16", torch.float16: "F16", torch.uint16: "U16",
    torch.int16: "I16", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""The format's names of types, in the order in which tensors lie in a file: so that each is aligned."""

_ORDER = {dtype: place for place, dtype in enumerate(_TYPES)}


def write_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str]) -> None:
    """Write tensors as the library safetensors does, to the byte; equal ones give equal bytes.

    The library takes no two that share memory, as views of one vector do and tied parameters: here each is written.

    Args:
        tensors: By name; on any device.
        path: The file.
        metadata: Texts that the file says, in the order given.

    Raises:
        OSError: The file cannot be written.
        TaskError: A tensor has a type that the format does not know.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in _TYPES:
            raise TaskError(f"the model's {name!r} has type {tensor.dtype}, which a safetensors file cannot hold")
    names = sorted(tensors, key=lambda name: (_ORDER[tensors[name].dtype], name.encode()))
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name in names:
        tensor = tensors[name]
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end],
        }  # fmt: skip
        offset = end
    head = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for name in names:
            file.write(little_endian(tensors[name]))


Mark = tuple[int, int]
"""Version and address of a tensor, of which one changes with its values."""


def mark(tensor: Tensor) -> Mark:
    """A mark of a tensor by which a later change of its values shows."""
    return tensor._version, tensor.data_ptr()


def frozen(model: nn.Module, body: Flat, head: Flat) -> dict[str, Tensor]:
    """The parameters that are neither trained nor sent, by name."""
    trained = {entry["name"] for flat in (body, head) for entry in flat.manifest["parameters"]}
    return {name: p for name, p in model.named_parameters() if name not in trained}


@dataclass(frozen=True)
class State:
    """Everything of a model that changes while it trains, as copies on the host.

    Attributes:
        body: Shape (body_parameters,).
        head: Shape (head_parameters,).
        buffers: The model's buffers (batch statistics in the head, ...) by name, and those of its frozen parameters
            that its code has changed (a teacher's moving average, ...).
        rest: The tensors that algorithm and codec keep besides, by name.
    """

    body: Tensor
    head: Tensor
    buffers: Mapping[str, Tensor]
    rest: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: nn.Module,
        body: Flat,
        head: Flat,
        still: Mapping[str, Mark],
        rest: Mapping[str, Tensor],
        room: State | None = None,
    ) -> State:
        """Copy the state of a model whose frozen parameters had these marks in the beginning.

        The copy lies in the memory of another one, `room`, as far as that has the same tensors.
        """
        changed = {name: p for name, p in frozen(model, body, head).items() if still.get(name) != mark(p)}
        buffers = {**dict(model.named_buffers()), **changed}
        named = _named("", body.data, head.data, buffers, rest)
        there = {} if room is None else room.tensors("")
        return cls.from_tensors("", {name: _copied(tensor, there.get(name)) for name, tensor in named.items()})

    def put(self, model: nn.Module, body: Flat, head: Flat) -> None:
        """Give a model of the same shape this state, but for `rest`.

        Raises:
            CheckpointError: The shapes differ.
        """
        pairs = [("body", body.data, self.body), ("head", head.data, self.head)]
        buffers = dict(model.named_buffers())
        targets = {**frozen(model, body, head), **buffers}
        there, here = sorted(self.buffers.keys() - targets.keys()), sorted(buffers.keys() - self.buffers.keys())
        if there or here:
            raise CheckpointError(
                f"the checkpoint is of another model: {'it alone' if there else 'this one alone'} has the buffer "
                f"{(there or here)[0]!r} (--standardize, --model, --task-option?); use what the run began with, or "
                "start over in another --out"
            )
        pairs += [(name, targets[name], value) for name, value in self.buffers.items()]
        for name, target, source in pairs:
            if target.shape != source.shape or target.dtype != source.dtype:
                raise CheckpointError(
                    f"the checkpoint's {name} has shape {tuple(source.shape)}, this model's {tuple(target.shape)}: "
                    "it is of another task"
                )
        with torch.no_grad():
            for _, target, source in pairs:
                target.copy_(source)

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """The state as named tensors."""
        return _named(prefix, self.body, self.head, self.buffers, self.rest)

    @classmethod
    def from_tensors(cls, prefix: str, tensors: Mapping[str, Tensor]) -> State:
        """Undo `tensors`.

        Raises:
            KeyError: A tensor is missing.
        """
        buffers, rest = (
            {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
            for start in (f"{prefix}/buffer/", f"{prefix}/rest/")
        )
        return cls(tensors[body_key(prefix)], tensors[f"{prefix}/head"], buffers, rest)


def _named(
    prefix: str, body: Tensor, head: Tensor, buffers: Mapping[str, Tensor], rest: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The parts of a state as named tensors."""
    named = {body_key(prefix): body, f"{prefix}/head": head}
    named |= {f"{prefix}/buffer/{name}": buffer for name, buffer in buffers.items()}
    return named | {f"{prefix}/rest/{name}": value for name, value in rest.items()}


def _copied(tensor: Tensor, room: Tensor | None) -> Tensor:
    """A copy on the host, in `room` if that is like it: fresh memory takes several times as long as the copy."""
    if room is None or (room.shape, room.dtype) != (tensor.shape, tensor.dtype):
        return host(tensor)
    with torch.no_grad():
        return room.copy_(tensor)


class Copied:
    """States and JSON values as they were when this was made, for any thread to write.

    Args:
        states: By name; copies that never change.
        rest: May change afterwards.
    """

    def __init__(self, states: Mapping[str, State], rest: Mapping[str, Any]) -> None:
        self._states = dict(states)
        self._rest = json.dumps({**rest, "states": list(states)}) + "\n"

    def save(self, directory: Path) -> None:
        """Write them into an existing folder.

        Raises:
            OSError: The folder cannot be written.
        """
        tensors: dict[str, Tensor] = {}
        for prefix, state in self._states.items():
            tensors |= state.tensors(prefix)
        write_tensors(tensors, directory / TENSORS, {})
        (directory / REST).write_text(self._rest, encoding="utf-8")


def save(directory: Path, states: Mapping[str, State], rest: Mapping[str, Any]) -> None:
    """Write states and JSON values into an existing folder.

    Raises:
        OSError: The folder cannot be written.
    """
    Copied(states, rest).save(directory)


def load(directory: Path, expected: Mapping[str, Any]) -> tuple[dict[str, State], dict[str, Any]]:
    """Read what `save` wrote.

    Args:
        directory: The folder.
        expected: Values that must be the same as when it was written.

    Returns:
        The states by name, and the JSON values.

    Raises:
        CheckpointError: A file is missing or damaged, or the checkpoint is of another run.
    """
    try:
        rest = json.loads((directory / REST).read_text(encoding="utf-8"))
        for key, value in expected.items():
            if rest[key] != value:
                raise CheckpointError(
                    f"the checkpoint in {directory} is of another run: its {key} is {_short(rest[key])}, "
                    f"this run's is {_short(value)}"
                )
        tensors = load_file(directory / TENSORS)
        states = {name: State.from_tensors(name, tensors) for name in rest["states"]}
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"the checkpoint in {directory} cannot be read: {describe(error)}") from error
    return states, rest


def _short(value: Any) -> str:
    """A value as a short text: of a manifest only its size, because the line would else hold every parameter."""
    if isinstance(value, dict) and "count" in value:
        return f"one of {value['count']} parameters in {len(value.get('parameters', ()))} tensors"
    return json.dumps(value)


def write_model(values: Mapping[str, Any], path: Path, origin: Origin | None = None) -> None:
    """Write a model's values under its own state names to a safetensors file, replacing it in one step.

    Args:
        values: As its ``state_dict()`` gives them; what is no tensor is left out.
        path: The file. Equal values give equal bytes.
        origin: What it says of the records that the model was trained on.

    Raises:
        OSError: The file cannot be written.
    """
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    metadata = {"format": "pt"} if origin is None else {"format": "pt", _ORIGIN: origin.value}
    with replacing(path) as draft:
        write_tensors(tensors, draft, metadata)
