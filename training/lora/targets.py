"""Which layers of a model get a low-rank adapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import nn

from dpeer.exceptions import TaskError, did_you_mean
from dpeer.training.split import is_under

KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
"""Layers that can have one; and `Conv1D` of the library transformers, a linear layer whose weight is transposed."""

QUERY_AND_VALUE = frozenset({
    "query", "value", "q_proj", "v_proj", "q_lin", "v_lin", "to_q", "to_v", "wq", "wv",
    "qkv", "qkv_proj", "to_qkv", "Wqkv", "c_attn", "query_key_value",
})  # fmt: skip
"""What libraries call the layers that make queries and values in attention, or these and keys in one.

Adapting queries and values, and not keys, is what peft does by default for ViT, RoBERTa and many others.
"""


def is_transposed(layer: nn.Module) -> bool:
    """Whether a layer is transformers' `Conv1D`, which is told by its name: that library need not be there."""
    return any(
        kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils" for kind in type(layer).__mro__
    )


def adaptable(model: nn.Module, head: Sequence[str]) -> dict[str, nn.Module]:
    """The layers outside of the head that can have an adapter, by name."""
    within = {id(one) for one in _uncalled(model)}
    return {
        name: layer
        for name, layer in model.named_modules()
        if name
        and (isinstance(layer, KINDS) or is_transposed(layer))
        and not is_under(name, head)
        and id(layer) not in within
    }


def _uncalled(model: nn.Module) -> Iterator[nn.Module]:
    """Layers whose weights attention of torch uses without calling them, so that an adapter there would do nothing."""
    for layer in model.modules():
        if isinstance(layer, nn.MultiheadAttention):
            yield from layer.modules()


def chosen(model: nn.Module, head: Sequence[str], targets: Sequence[str], said: str) -> dict[str, nn.Module]:
    """The layers that get an adapter, by name.

    Args:
        model: The model.
        head: Name prefixes of the head, which gets none: it is trained as it is.
        targets: As in `Lora`.
        said: What the user wrote, for messages.

    Raises:
        TaskError: There are none, or a target is the name of none; the message names the nearest.
    """
    there = adaptable(model, head)
    if not targets:
        return _usual(there, said)
    found: dict[str, nn.Module] = {}
    for target in targets:
        named = {name: layer for name, layer in there.items() if name == target or name.endswith(f".{target}")}
        if not named:
            raise TaskError(_no_match(model, there, target, said))
        found |= named
    return {name: found[name] for name in there if name in found}


def _usual(there: dict[str, nn.Module], said: str) -> dict[str, nn.Module]:
    """Queries and values where the model has such, else all linear layers and convolutions."""
    attention = {name: layer for name, layer in there.items() if name.rpartition(".")[2] in QUERY_AND_VALUE}
    found = attention or {name: layer for name, layer in there.items() if not isinstance(layer, nn.Embedding)}
    if not found:
        raise TaskError(
            f"--lora {said}: outside of its head the model has no linear layer or convolution that could be adapted: "
            "leave --lora out, or name a smaller head with --head"
        )
    return found


def _no_match(model: nn.Module, there: dict[str, nn.Module], target: str, said: str) -> str:
    begin = f"--lora {said}: the target {target!r}"
    for name, layer in model.named_modules():
        if name == target or name.endswith(f".{target}"):
            kind = type(layer).__name__
            if isinstance(layer, KINDS) or is_transposed(layer):
                why = "is in the head, which is trained as it is, or is used by torch.nn.MultiheadAttention uncalled"
            else:
                why = f"is a {kind}, and adapters are for linear layers, convolutions and embeddings"
            return f"{begin} {why}; layers that can be adapted: {_names(there)}"
    parts = dict.fromkeys(part for name in there for part in (name, name.rpartition(".")[2]))
    return f"{begin} is no layer of the model: {did_you_mean(target, parts)}layers that can be adapted: {_names(there)}"


def _names(there: dict[str, nn.Module]) -> str:
    """The last parts of the layers' names, or the names where these are numbers."""
    parts = dict.fromkeys(name if (last := name.rpartition(".")[2]).isdecimal() else last for name in there)
    shown = [*parts][:12]
    return (", ".join(shown) or "(none)") + (", ..." if len(parts) > len(shown) else "")
