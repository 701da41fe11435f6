"""Presets: papers' values by name, which `--preset` sets where the user gives no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpeer.exceptions import UnknownName


@dataclass(frozen=True)
class Preset:
    """The values of one paper.

    Attributes:
        values: The values by setting; anything the user gives wins.
        remark: A line on what the paper leaves open, or on what dpeer does otherwise.
        apart: Values that the paper gives to some algorithms only, in place of those above, by algorithm and setting.
    """

    values: Mapping[str, Any]
    remark: str
    apart: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def values_for(self, algorithm: str) -> dict[str, Any]:
        """The values by setting with this algorithm."""
        return {**self.values, **self.apart.get(algorithm, {})}

    @property
    def words(self) -> str:
        """All values, as they would be typed."""
        return _typed(self.values) + "".join(f"; with {name} {_typed(own)}" for name, own in self.apart.items())

    def words_for(self, algorithm: str, *overridden: str) -> str:
        """The values with this algorithm, but for those of settings for which something else is used."""
        taken = {key: value for key, value in self.values_for(algorithm).items() if key not in overridden}
        return f"{_typed(taken)} (not its {', '.join(map(_flag, overridden))})" if overridden else _typed(taken)


def _typed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{_flag(key)} {0 if value is None else value}" for key, value in values.items())


def _flag(name: str) -> str:
    return name.replace("_", "-")


# DFedMDC, section 5.1 and appendices B.1 to B.3; the epochs of the head are those of appendix B.2.
_CIFAR = {
    "rounds": 500, "body_lr": 0.1, "head_lr": 0.1, "lr_decay": 0.995, "momentum": 0.9, "body_epochs": 5,
    "batch_size": 128, "rho": 0.7, "grad_clip": None,
    "finish": "none",
}  # fmt: skip
_OWN_METHODS = {"dfedmdc": {"head_lr": 0.001}, "dfedsmdc": {"head_lr": 0.001}}
_CIFAR_REMARK = (
    'DFedMDC\'s values; its "decay rate of 0.005" is read as x0.995 a round; its head rate of 0.001 is that of dfedmdc '
    "and dfedsmdc alone, other algorithms have 0.1; an algorithm's own defaults stay, such as fedrep's 10 head epochs; "
    "weight decay and gradient clipping are left open (none here); small models do not survive rho 0.7 with learning "
    "rate 0.1"
)

# DP-FedSAM, section 6.1; rho also section 6.6, top-k section 6.5.
_DP = {
    "privacy": "client", "clip_norm": 0.2, "noise_multiplier": 0.95, "participation": 0.1, "body_lr": 0.1,
    "lr_decay": 0.9995, "momentum": 0.5, "body_epochs": 30, "grad_clip": None, "finish": "none",
}  # fmt: skip
_DP_CIFAR = {**_DP, "rounds": 300, "batch_size": 50}
_DP_EMNIST = {**_DP, "rounds": 200, "batch_size": 32}
_SAMPLED = (
    "its server averages those it samples, as --participation-mode server --topology full --weights uniform does; "
    "without these, who sits out keeps its body, so that little is mixed"
)
_DELTA = "its delta of 1/N is refused: publishing one client's data whole would satisfy it"
_DP_REMARK = (
    "its noise multiplier is that of an average of 50 clients, each of whom adds 0.95/sqrt(50): here every message has "
    "all of it, for neighbors see single messages (its case, with far less against a neighbor, is --noise-multiplier "
    "0.1344 with its sampling); "
    f'{_SAMPLED}; its "decay rate 0.0005" is read as x0.9995 a round, '
    "because its sentence is about the learning rate (the other reading is --weight-decay 0.0005 --lr-decay 1); "
    f"{_DELTA}; gradient clipping is left open (none here)"
)
_TOP_K = {"sparsify": "top-k:0.4"}
_AFTER = "the largest 40 % chosen after the noise (sound, and no less private)"

# DP2-FedSAM, section 5.1, where SAM's radius is q and the sampling ratio r.
_DP2 = {
    "rounds": 200, "privacy": "client", "clip_norm": 0.1, "participation": 0.05, "body_lr": 0.1, "head_lr": 0.005,
    "lr_decay": 0.99, "momentum": 0.7, "body_epochs": 2, "head_epochs": 2, "rho": 0.1, "grad_clip": None,
    "finish": "none",
}  # fmt: skip
_DP2_FEMNIST = {**_DP2, "clip_norm": 0.2, "momentum": 0.3, "rho": 0.5}
_DP2_REMARK = (
    "its text swaps the symbols of the two learning rates; its noise is not certified by its Theorem 2 (the "
    f"precondition is not met), so give --target-epsilon or --noise-multiplier; {_SAMPLED}; {_DELTA}; batch size and "
    "gradient clipping are left open (none here)"
)
_DP2_ON_CIFAR = f"DP2-FedSAM's values on CIFAR-10, where it trains --model dp-cnn; {_DP2_REMARK}"
_DP2_ON_FEMNIST = f"DP2-FedSAM's values on FEMNIST, where it trains a ResNet-18 (--model resnet18-gn); {_DP2_REMARK}"

# DP-FedAdamW, section 9.4 and Table 15; plans of rounds: Tables 15 and 16; optimizers: Table 17.
_SAMPLE = {
    "privacy": "sample", "clip_norm": 0.1, "noise_multiplier": 1.0, "delta": 1e-5, "lr_schedule": "cosine",
    "grad_clip": None, "finish": "none",
}  # fmt: skip
_RESNET_PLAN = {"rounds": 300, "local_steps": 50, "participation": 0.2, "batch_size": 50}
_TRANSFORMER_PLAN = {"rounds": 100, "local_steps": 20, "participation": 0.1, "batch_size": 16}
_SAMPLE_TRANSFORMER = {**_SAMPLE, **_TRANSFORMER_PLAN}
_SGD = {"body_lr": 0.1, "weight_decay": 0.001, "momentum": 0.0}
_SAMPLE_RESNET = {**_SAMPLE, **_RESNET_PLAN, **_SGD}
_ADAPTERS = (
    "its models begin pretrained (--init-from; for images on ImageNet-22K) and train LoRA adapters alone, of rank 16 "
    "and alpha 32 (--lora r=16,alpha=32), without which it is another experiment; their dropout of 0.1 is refused here"
)
_SAMPLE_REMARK = (
    f"its batches have a fixed size, here they are Poisson samples of that size on average; {_SAMPLED}; {_ADAPTERS}; "
    'it shares the whole model (--head ""); gradient clipping beyond that of records is left open (none here)'
)
_NO_WEIGHTS = "no published weights fit its ResNet-18, which has GroupNorm and a stem of its own"
_SAMPLE_ON_RESNET = (
    f"on CIFAR with a ResNet-18 (--model resnet18-gn), as in the DP-FedAdamW paper; {_SAMPLE_REMARK}; {_NO_WEIGHTS}"
)


def _of_table_9(optimizer: str) -> str:
    """What the DP-FedAdamW paper leaves open of the methods that only its Table 9 has."""
    return (
        "its comparison of federated adaptive optimizers (Table 9) trains a Swin-Base; learning rate and weight decay "
        f"are left open (here what its Table 17 gives {optimizer}), and so are the method's own values (dpeer's here); "
        f"{_SAMPLE_REMARK}"
    )


_ADAMW = {
    **_SAMPLE, "optimizer": "adamw", "body_lr": 3e-4, "head_lr": 3e-4, "momentum": 0.9, "weight_decay": 0.01,
}  # fmt: skip
_ADAMW_RESNET, _ADAMW_TRANSFORMER = {**_ADAMW, **_RESNET_PLAN}, {**_ADAMW, **_TRANSFORMER_PLAN}
_ADAMW_REMARK = (
    f"its batches are of fixed size, here they are sampled, about as large; {_SAMPLED}; {_ADAPTERS}; its "
    "Tiny-ImageNet has --delta 1e-6; the noise multiplier does not say what epsilon it comes to: the start does"
)
_ON_RESNET = f"its values for a ResNet-18 on CIFAR (--model resnet18-gn); {_ADAMW_REMARK}; {_NO_WEIGHTS}"
_ON_TRANSFORMER = (
    "its values for ViT and Swin, and with --participation 1 for RoBERTa; the learning rate is the one that it prints "
    f"for the ResNet-18, out of 1e-4 to 1e-3 among which it chose; {_ADAMW_REMARK}"
)

PRESETS: Mapping[str, Preset] = {
    "paper-cifar": Preset({**_CIFAR, "head_epochs": 1}, _CIFAR_REMARK, _OWN_METHODS),
    "paper-cifar-pathological": Preset({**_CIFAR, "head_epochs": 5}, _CIFAR_REMARK, _OWN_METHODS),
    "paper-tiny-imagenet": Preset({**_CIFAR, "rounds": 300, "head_epochs": 1}, _CIFAR_REMARK, _OWN_METHODS),
    "paper-tiny-imagenet-pathological": Preset(
        {**_CIFAR, "rounds": 300, "head_epochs": 5}, _CIFAR_REMARK, _OWN_METHODS
    ),
    "paper-dispfl": Preset(
        {
            "algorithm": "dis-pfl", "body_lr": 0.1, "lr_decay": 0.998, "momentum": 0.0, "weight_decay": 5e-4,
            "body_epochs": 5, "batch_size": 128, "grad_clip": 10.0,
            "finish": "none",
        },
        "the defaults of DisPFL's published code; its scripts also start every peer from another mask and regrow at "
        "random, which is not done here",
    ),
    "paper-fedrep": Preset(
        {
            "algorithm": "fedrep", "body_lr": 0.01, "head_lr": 0.01, "lr_decay": 1.0, "momentum": 0.5,
            "head_epochs": 10, "body_epochs": 5, "batch_size": 10, "grad_clip": None,
            "finish": "none",
        },
        "FedRep's published script for CIFAR-100; its additional head epochs after the last round are made if you "
        "give --finish head:E",
    ),
    "paper-fedbabu": Preset(
        {
            "algorithm": "fedbabu", "body_lr": 0.1, "lr_decay": 1.0, "momentum": 0.9, "body_epochs": 4,
            "batch_size": 50, "grad_clip": None, "finish": "all:5,0.1",
        },
        "FedBABU's published scripts with 80 rounds; its steps of the learning rate (x0.1 at half and three quarters "
        "of the run) cannot be had, so the rate is constant, and that of the fine-tuning too",
    ),
    "dp-fedavg": Preset(
        {"algorithm": "fedavg", **_DP_CIFAR}, f"DP-FedAvg on CIFAR, as in the DP-FedSAM paper; {_DP_REMARK}"
    ),
    "dp-fedavg-emnist": Preset(
        {"algorithm": "fedavg", **_DP_EMNIST}, f"DP-FedAvg on EMNIST, as in the DP-FedSAM paper; {_DP_REMARK}"
    ),
    "dp-fedsam": Preset(
        {"algorithm": "fedsam", **_DP_CIFAR, "rho": 0.5}, f"DP-FedSAM's values on CIFAR; {_DP_REMARK}"
    ),
    "dp-fedsam-emnist": Preset(
        {"algorithm": "fedsam", **_DP_EMNIST, "rho": 0.5}, f"DP-FedSAM's values on EMNIST; {_DP_REMARK}"
    ),
    "dp-fedsam-topk": Preset(
        {"algorithm": "fedsam", **_DP_CIFAR, "rho": 0.5, **_TOP_K},
        f"DP-FedSAM-top_k's values on CIFAR, {_AFTER}; {_DP_REMARK}",
    ),
    "dp-fedsam-topk-emnist": Preset(
        {"algorithm": "fedsam", **_DP_EMNIST, "rho": 0.5, **_TOP_K},
        f"DP-FedSAM-top_k's values on EMNIST, {_AFTER}; {_DP_REMARK}",
    ),
    "dp2-fedsam": Preset({"algorithm": "dfedsmdc", **_DP2}, _DP2_ON_CIFAR),
    "dp2-fedsam-femnist": Preset({"algorithm": "dfedsmdc", **_DP2_FEMNIST}, _DP2_ON_FEMNIST),
    "centaur": Preset({"algorithm": "dfedmdc", **_DP2}, f"dp2-fedsam without SAM; {_DP2_ON_CIFAR}"),
    "centaur-femnist": Preset({"algorithm": "dfedmdc", **_DP2_FEMNIST}, f"dp2-fedsam without SAM; {_DP2_ON_FEMNIST}"),
    "dp-fedavg-sample": Preset({"algorithm": "fedavg", **_SAMPLE_RESNET}, f"DP-FedAvg {_SAMPLE_ON_RESNET}"),
    "dp-scaffold": Preset({"algorithm": "scaffold", **_SAMPLE_RESNET}, f"DP-SCAFFOLD {_SAMPLE_ON_RESNET}"),
    "dp-fedavg-ls": Preset(
        {"algorithm": "fedavg-ls", **_SAMPLE_RESNET},
        f"DP-FedAvg-LS {_SAMPLE_ON_RESNET}; the strength of smoothing is left open (1 here)",
    ),
    "dp-fedsam-sample": Preset(
        {"algorithm": "fedsam", **_SAMPLE_RESNET},
        f"DP-FedSAM {_SAMPLE_ON_RESNET}; rho is chosen out of 0.01 to 0.5 (0.05 here); its two noised gradients a step "
        "spend twice (--dp-sam same-batch; here the gradient of the step before is climbed along, for nothing)",
    ),
    "dp-fedopt": Preset(
        {"algorithm": "fedopt", **_SAMPLE_TRANSFORMER, **_SGD}, f"DP-FedOpt(Adam): {_of_table_9('SGD')}"
    ),
    "dp-fafed": Preset(
        {"algorithm": "fafed", **_SAMPLE_TRANSFORMER, "body_lr": 3e-4, "weight_decay": 0.01},
        f"DP-FAFED: {_of_table_9('AdamW')}; both gradients of a step are paid for (--noise-multiplier 1.4143 spends "
        "what the other methods do, --algorithm-option corrected=false takes one)",
    ),
    "dp-fedlada": Preset(
        {"algorithm": "fedlada", **_SAMPLE_TRANSFORMER, "body_lr": 3e-4, "weight_decay": 0.01, "momentum": 0.9},
        f"DP-FedLADA: {_of_table_9('AdamW')}",
    ),
    "dp-localadamw": Preset({"algorithm": "localadamw", **_ADAMW_RESNET}, f"DP-LocalAdamW: {_ON_RESNET}"),
    "dp-localadamw-transformer": Preset(
        {"algorithm": "localadamw", **_ADAMW_TRANSFORMER}, f"DP-LocalAdamW: {_ON_TRANSFORMER}"
    ),
    "dp-fedadamw": Preset({"algorithm": "fedadamw", **_ADAMW_RESNET}, f"DP-FedAdamW: {_ON_RESNET}"),
    "dp-fedadamw-transformer": Preset(
        {"algorithm": "fedadamw", **_ADAMW_TRANSFORMER}, f"DP-FedAdamW: {_ON_TRANSFORMER}"
    ),
}  # fmt: skip
"""Every preset by its name."""


def find_preset(name: str) -> Preset:
    """The preset of this name.

    Raises:
        UnknownName: No preset has the name; the error names the nearest.
    """
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]
