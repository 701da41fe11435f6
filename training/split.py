"""Dividing a model's parameters into the shared body and the personal head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from dpeer.exceptions import TaskError, did_you_mean

Shares = Literal["model", "body", "nothing"]
"""The part of the model that an algorithm sends to the neighbors."""

Named = list[tuple[str, nn.Parameter]]


def is_under(name: str, prefixes: Iterable[str]) -> bool:
    """Whether a dotted name is one of the prefixes or lies below one, in whole components."""
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def check_prefixes(model: nn.Module, head: Any) -> tuple[str, ...]:
    """The head's prefixes as a tuple, each of which matches a parameter of the model.

    Raises:
        TaskError: Not a sequence of names, or one that matches nothing; the message names the nearest.
    """
    if isinstance(head, str):
        head = (head,)
    if not isinstance(head, Sequence) or not all(isinstance(prefix, str) and prefix for prefix in head):
        raise TaskError(f"the task's head is {head!r}; it must be a tuple of name prefixes, such as ('fc',)")
    # Buffers count: a layer may have nothing else (BatchNorm without affine parameters).
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    names += [name for name, _ in model.named_buffers(remove_duplicate=False)]
    for prefix in head:
        if not any(is_under(name, (prefix,)) for name in names):
            parts = dict.fromkeys(".".join(name.split(".")[:n]) for name in names for n in range(1, 9))
            top = dict.fromkeys(name.split(".")[0] for name in names)
            raise TaskError(
                f"the task's head prefix {prefix!r} matches no parameter of the model: {did_you_mean(prefix, parts)}"
                f"the model's top-level names are: {', '.join(top) or '(none)'}"
            )
    return tuple(head)


@dataclass(frozen=True)
class Split:
    """A model's trainable parameters, divided; each has its name in the model.

    Attributes:
        body: The parameters that neighbors average.
        head: The parameters that stay on the peer.
        prefixes: The name prefixes of the task's head, whether or not the algorithm shares that.
        model: The model.
    """

    body: Named
    head: Named
    prefixes: tuple[str, ...] = ()
    model: nn.Module = field(default_factory=nn.Module, compare=False, repr=False)

    @property
    def body_count(self) -> int:
        """How many values the body has."""
        return sum(parameter.numel() for _, parameter in self.body)


def split(model: nn.Module, head: Sequence[str], shares: Shares, algorithm: str = "this algorithm") -> Split:
    """Divide a model's trainable parameters: "body" shares what is not of the head, "model" all, "nothing" none.

    Raises:
        TaskError: Nothing to train or to share, or parameters in the body that must not be averaged.
    """
    trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not trainable:
        raise TaskError("the task's model has no trainable parameters: all have requires_grad=False, or none exist")
    _check_kinds(trainable)
    _check_storage(model)
    if shares == "nothing":
        return Split(body=[], head=trainable, prefixes=tuple(head), model=model)
    prefixes = () if shares == "model" else tuple(head)
    _check_tied(model, prefixes)
    _check_batch_norm(model, prefixes, algorithm if shares == "model" else None)
    body = [(name, p) for name, p in trainable if not is_under(name, prefixes)]
    if not body:
        raise TaskError(
            f"the task's head {tuple(head)!r} covers every trainable parameter, so {algorithm} has no body to "
            "share: name fewer prefixes (the last layer is usual), or train with --algorithm local"
        )
    own = [(name, p) for name, p in trainable if is_under(name, prefixes)]
    return Split(body=body, head=own, prefixes=tuple(head), model=model)


def frozen_alike(model: nn.Module, head: Sequence[str]) -> dict[str, Tensor]:
    """What is frozen and has to be equal on all peers: parameters, and statistics of layers that stay in evaluation.

    What is under the head's prefixes may differ.
    """
    named = model.named_parameters(remove_duplicate=False)  # a tied one may have a name in the head as well
    found: dict[str, Tensor] = {name: p for name, p in named if not p.requires_grad}
    for layer, norm in _constant_norms(model):
        found |= {f"{layer}.{name}": buffer for name, buffer in norm.named_buffers()}
    return {name: value for name, value in found.items() if not is_under(name, head)}


def _constant_norms(model: nn.Module) -> Sequence[tuple[str, nn.Module]]:
    """The layers whose running statistics never change.

    The model's `train` leaves them in evaluation, or they hold nothing but buffers, as torchvision's FrozenBatchNorm2d.
    """
    still = [
        (name, module) for name, module in model.named_modules(remove_duplicate=False)
        if not isinstance(module, _NormBase) and {"running_mean", "running_var"} <= dict(module.named_buffers()).keys()
        and not [*module.parameters()]
    ]  # fmt: skip
    norms = [
        (name, module) for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, _NormBase) and module.track_running_stats
    ]  # fmt: skip
    if not norms:
        return still
    modes = [(module, module.training) for module in model.modules()]
    model.train()
    found = [(name, module) for name, module in norms if not module.training]
    for module, mode in modes:
        module.training = mode
    return still + found


def _check_kinds(trainable: Named) -> None:
    for name, parameter in trainable:
        if torch.nn.parameter.is_lazy(parameter):
            raise TaskError(f"parameter {name!r} is not initialised yet: run one batch through the model first")
        if parameter.dtype != torch.float32:
            raise TaskError(
                f"parameter {name!r} is {str(parameter.dtype).removeprefix('torch.')}; trainable parameters must "
                "be float32: call model.float(), or freeze it with requires_grad=False"
            )
        if parameter.device.type != "cpu":
            raise TaskError(
                f"parameter {name!r} is on {parameter.device}; leave the model on the cpu: --device moves it"
            )


def _check_storage(model: nn.Module) -> None:
    """Refuse two parameters over one storage: flattening would silently tear them apart."""
    first: dict[int, tuple[str, nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.numel():
            other, owner = first.setdefault(parameter.data_ptr(), (name, parameter))
            if owner is not parameter:
                raise TaskError(
                    f"parameters {other!r} and {name!r} are two over one tied tensor: assign one Parameter to both, "
                    "or give each its own copy"
                )


def _check_tied(model: nn.Module, prefixes: tuple[str, ...]) -> None:
    """Refuse a tensor that the body holds under two names, or that body and head both hold.

    Averaging would treat it as one tensor and the head's phase as another; nothing would say which of them wins.
    """
    first: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if not parameter.requires_grad or not parameter.numel():
            continue
        other = first.setdefault(id(parameter), name)
        if other != name and not (is_under(name, prefixes) and is_under(other, prefixes)):
            raise TaskError(
                f"parameters {other!r} and {name!r} are one tied tensor in the body: untie them (give each its own "
                "copy; in transformers tie_word_embeddings=False), put both into the head, or freeze them, as --lora "
                "does"
            )


def _check_batch_norm(model: nn.Module, prefixes: tuple[str, ...], whole_model: str | None) -> None:
    """Refuse BatchNorm in the body: its statistics are of one peer's data and do not fit an averaged body."""
    constant = {module for _, module in _constant_norms(model)}
    for name, module in model.named_modules(remove_duplicate=False):
        if not isinstance(module, _NormBase) or not (
            module.track_running_stats or (isinstance(module, _BatchNorm) and module.affine)
        ):
            continue
        if module not in constant and not is_under(name, prefixes):
            where = f"{whole_model} shares the whole model" if whole_model else "it is in the body"
            fix = " (dpeer.training.replace_batch_norm(model) does)" if isinstance(module, _BatchNorm) else ""
            other = "" if whole_model else f", or keep it at home with {name!r} in the task's head"
            raise TaskError(
                f"{type(module).__name__} {name!r} cannot be shared ({where}): its running statistics belong to one "
                f"peer's data; use torch.nn.GroupNorm instead{fix}, have model.train() leave it in evaluation{other}"
            )
