"""Validation of tensor layouts: a model must not have sparse, quantized, nested, inference-mode or compiled parts."""

from __future__ import annotations

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
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if nn.parameter.is_lazy(tensor):
                continue
            if (found := type_of(tensor)) is not None:
                raise TaskError(f"{kind} {name!r} is a {found} tensor, and a model's tensors must be dense")
            if tensor.is_inference():
                raise TaskError(f"{kind} {name!r} was made in inference mode: build the model outside of it")


def type_of(tensor: Tensor) -> str | None:
    """The kind of a tensor that is not dense: sparse, quantized or nested; None for a dense one."""
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantized"
    # By name: other layouts (mkldnn) have no constant.
    layout = str(tensor.layout).removeprefix("torch.")
    return None if layout == "strided" else layout.replace("_", " ")
