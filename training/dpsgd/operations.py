"""Operations of torch that compute each example's values from its own alone, in one way wherever it stands.

Anybody's model may use any operation. Most compute values one by one, only move them, or reduce each example's rows by
themselves; with a multiple of 64 examples (`dpeer.training.dpsgd.gradient.TOGETHER`) and padded products
(`dpeer.training.dpsgd.stable_matmul`) an example's bits are then the same at every place. Of others nothing is known
here: transforms that take several examples at a time, solvers that fail for all examples because of one, draws, what
looks at values to decide something. A task that uses one of these is computed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

_REDUCTIONS = {
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "cummax", "cummin", "cumprod",
    "cumsum", "dot", "linalg_cross", "linalg_vector_norm", "logcumsumexp", "logsumexp", "max", "mean", "min",
    "nansum", "norm", "prod", "std", "std_mean", "sum", "trace", "var", "var_mean", "vdot",
}  # fmt: skip

_LAYERS = {
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_fused_rms_norm", "_log_softmax", "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training", "_prelu_kernel", "_safe_softmax", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",    "_softmax", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "_weight_norm_interface",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool2d", "avg_pool3d", "col2im", "convolution",
    "convolution_overrideable", "elu", "embedding", "embedding_dense", "glu", "glu_jvp", "hardshrink",
    "hardsigmoid", "hardswish", "hardtanh", "im2col", "log_sigmoid", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "mkldnn_rnn_layer", "native_batch_norm", "native_channel_shuffle", "native_group_norm",
    "native_layer_norm", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "softplus", "softshrink", "threshold", "upsample_bicubic2d",
    "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "upsample_trilinear3d",
}  # fmt: skip

_LOSSES = {
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "nll_loss", "nll_loss2d", "nll_loss_nd", "smooth_l1_loss", "soft_margin_loss",
}  # fmt: skip

_ONE_BY_ONE = {
    "abs", "copysign", "eq", "floor_divide", "ge", "gelu", "gt", "heaviside", "le", "leaky_relu", "lt", "mish",
    "ne", "relu6",
}  # fmt: skip
"""Of values one by one, where torch does not mark it."""

_MOVES = {
    "_index_put_impl", "_reshape_alias", "_reshape_copy", "_to_copy", "_unsafe_index", "_unsafe_index_put",
    "_unsafe_view", "as_strided_scatter", "cat", "clone", "constant_pad_nd", "copy", "detach", "diag_embed",
    "diagonal_scatter", "fill", "flip", "gather", "index", "index_add", "index_copy", "index_put",
    "index_select", "kthvalue", "lift_fresh", "masked_fill", "masked_scatter", "median", "pixel_shuffle",
    "pixel_unshuffle", "repeat", "repeat_interleave", "roll", "rot90", "scatter", "scatter_add", "scatter_reduce",
    "select_scatter", "slice_scatter", "sort", "squeeze", "stack", "take_along_dim", "topk", "transpose", "tril",
    "triu", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "zero",
}  # fmt: skip

_BACKWARD_OF_VIEWS = {"diagonal", "index_select", "select", "slice", "trace", "unfold", "value_selecting_reduction"}

_MAKES = {
    "_efficientzerotensor", "arange", "empty", "empty_like", "empty_strided", "eye", "full", "full_like",
    "linspace", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like",
    "scalar_tensor", "tril_indices", "triu_indices", "zeros", "zeros_like",
}  # fmt: skip

_PRODUCTS = {"addbmm", "addmm", "addmv", "baddbmm", "bmm", "mm", "mv"}
"""Of which `dpeer.training.dpsgd.stable_matmul` pads the matrices."""

_KNOWN = _ONE_BY_ONE | _REDUCTIONS | _LAYERS | _LOSSES | _MOVES | _BACKWARD_OF_VIEWS | _MAKES | _PRODUCTS

_INDEX = torch.ops.aten.index.Tensor

_CONVOLUTIONS = {torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default}
"""Of numbers of double precision their edges are computed by other code."""

_PRECISE = {torch.float32, torch.float64, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
"""Of smaller numbers a processor takes more at a time than there are examples together."""


def keeps_apart(operation: torch._ops.OpOverload, arguments: Sequence[Any]) -> bool:
    """Whether an operation on such arguments computes each example's values from its own, wherever it stands."""
    if not is_known(operation):
        return False
    for value in arguments:
        if isinstance(value, torch.Tensor):
            if value.dtype not in _PRECISE or (value.dtype is torch.float64 and operation in _CONVOLUTIONS):
                return False
        elif isinstance(value, list) and operation is _INDEX and any(map(_is_mask, value)):
            return False
    return True


@cache
def is_known(operation: torch._ops.OpOverload) -> bool:
    """Whether an operation does so whatever its arguments are, unless a mask chooses among them."""
    space, _, name = operation._schema.name.partition("::")
    if space != "aten" or (torch.Tag.dynamic_output_shape in operation.tags and operation is not _INDEX):
        return False
    name = name.rstrip("_").removesuffix("_forward").removesuffix("_backward_data").removesuffix("_backward")
    if name in _KNOWN or operation.is_view or torch.Tag.inplace_view in operation.tags:
        return True
    return torch.Tag.pointwise in operation.tags and torch.Tag.nondeterministic_seeded not in operation.tags


def _is_mask(index: Any) -> bool:
    """Whether it depends on an index's values how much is taken."""
    return isinstance(index, torch.Tensor) and index.dtype in {torch.bool, torch.uint8}
