"""Validation of tensor layouts: a model must not have sparse, quantized, nested, inference-mode or compiled parts."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from dpeer.exceptions import TaskError


def check_layouts(model: nn.Module) -> None:
    """Refuse a model whose parameters or buffers cannot be copied, compared, sent and saved as plain tensors are.

    Raises:
        TaskError: It has one; the error names it and the remedy.
    """
    compiled = getattr(model, "_orig_mod", None)
    if isinstance(compiled, nn.Module):
        name = type(compiled).__name__
        raise TaskError(
            f"the task's model is torch.compile({name}), whose parameters have other names: give the {name} itself, "
            "and compile it in place with model.compile()"
        )
    kinds: dict[str, Iterator[tuple[str, Tensor]]] = {
        "parameter": model.named_parameters(), "buffer": model.named_buffers(),
    }  # fmt: skip
    for kind, named in kinds.items():
        for name, tensor in named:
            if not nn.parameter.is_lazy(tensor) and (wrong := _wrong(tensor)):
                raise TaskError(f"{kind} {name!r} {wrong}")


def _wrong(tensor: Tensor) -> str | None:
    """The unusual trait of a tensor, with advice; None for a usual one."""
    kind = type_of(tensor)
    if kind is not None:
        fix = {
            "quantized": "keep it as float32, and quantize it in forward",
            "nested": "pad it",
        }.get(kind, "call .to_dense(), and .to_sparse() in forward, or keep it as an attribute that is no buffer")
        return f"is a {kind} tensor, and a model's tensors must be dense: {fix}"
    if tensor.is_inference():
        return "was made in inference mode, and cannot be trained with: build the model outside torch.inference_mode()"
    return None


def type_of(tensor: Tensor) -> str | None:
    """The kind of a tensor that is not dense: sparse, quantized or nested; None for a dense one."""
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantized"
    # By name: other layouts (mkldnn) have no constant.
    layout = str(tensor.layout).removeprefix("torch.")
    return None if layout == "strided" else layout.replace("_", " ")
