"""A paper's values by name: what they are, and what wins over them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import UnknownName
from dpeer.federation.config import load, with_defaults
from dpeer.federation.presets import PRESETS
from dpeer.federation.settings import Settings
from dpeer.training import ALGORITHMS

Command = Callable[..., Any]


@pytest.fixture
def write(in_tmp_path: Path) -> Callable[[str], Path]:
    def make(text: str) -> Path:
        path = in_tmp_path / "federation.toml"
        path.write_text(text)
        return path

    return make


# Where each value stands ---------------------------------------------------------------------------------------------

CIFAR = ("paper-cifar", "paper-cifar-pathological")
TINY = ("paper-tiny-imagenet", "paper-tiny-imagenet-pathological")
DFEDMDC = (*CIFAR, *TINY)
DP_CIFAR = ("dp-fedavg", "dp-fedsam", "dp-fedsam-topk")
DP_EMNIST = tuple(f"{name}-emnist" for name in DP_CIFAR)
DP = (*DP_CIFAR, *DP_EMNIST)
DP2_CIFAR, DP2_FEMNIST = ("dp2-fedsam", "centaur"), ("dp2-fedsam-femnist", "centaur-femnist")
DP2 = (*DP2_CIFAR, *DP2_FEMNIST)
ON_RESNET = ("dp-fedavg-sample", "dp-scaffold", "dp-fedavg-ls", "dp-fedsam-sample")
ON_SWIN = ("dp-fedopt", "dp-fafed", "dp-fedlada")
ADAMW_RESNET = ("dp-localadamw", "dp-fedadamw")
ADAMW_TRANSFORMER = tuple(f"{name}-transformer" for name in ADAMW_RESNET)
ADAMW = (*ADAMW_RESNET, *ADAMW_TRANSFORMER)

PRINTED: list[tuple[tuple[str, ...], str, Any, str]] = [
    (CIFAR, "rounds", 500, "DFedMDC, section 5.1 and appendix B.1"),
    (TINY, "rounds", 300, "DFedMDC, appendix B.1"),
    (DFEDMDC, "body_lr", 0.1, "DFedMDC, section 5.1 and appendix B.2"),
    (DFEDMDC, "head_lr", 0.1, "DFedMDC, section 5.1"),
    (DFEDMDC, "head_lr with dfedmdc", 0.001, "DFedMDC, appendix B.2"),
    (DFEDMDC, "head_lr with dfedsmdc", 0.001, "DFedMDC, appendix B.2"),
    (DFEDMDC, "lr_decay", 1 - 0.005, "DFedMDC, appendix B.2"),
    (DFEDMDC, "momentum", 0.9, "DFedMDC, section 5.1 and appendix B.2"),
    (DFEDMDC, "batch_size", 128, "DFedMDC, section 5.1"),
    (DFEDMDC, "body_epochs", 5, "DFedMDC, appendix B.2"),
    (DFEDMDC[::2], "head_epochs", 1, "DFedMDC, appendix B.2: Dirichlet"),
    (DFEDMDC[1::2], "head_epochs", 5, "DFedMDC, appendix B.2: pathological"),
    (DFEDMDC, "rho", 0.7, "DFedMDC, appendices B.2 and B.3"),
    (DFEDMDC, "ditto_lambda", 0.75, "DFedMDC, appendix B.3"),
    (DFEDMDC, "sparsity", 0.5, "DFedMDC, appendix B.3"),
    (DFEDMDC, "finetune_epochs", 5, "DFedMDC, appendix B.3"),
    (DP_CIFAR, "rounds", 300, "DP-FedSAM, section 6.1"),
    (DP_EMNIST, "rounds", 200, "DP-FedSAM, section 6.1"),
    (DP_CIFAR, "batch_size", 50, "DP-FedSAM, section 6.1"),
    (DP_EMNIST, "batch_size", 32, "DP-FedSAM, section 6.1"),
    (DP, "body_lr", 0.1, "DP-FedSAM, section 6.1"),
    (DP, "lr_decay", 1 - 0.0005, "DP-FedSAM, section 6.1"),
    (DP, "momentum", 0.5, "DP-FedSAM, section 6.1"),
    (DP, "body_epochs", 30, "DP-FedSAM, section 6.1"),
    (DP, "participation", 0.1, "DP-FedSAM, section 6.1"),
    (DP, "noise_multiplier", 0.95, "DP-FedSAM, section 6.1"),
    (DP, "clip_norm", 0.2, "DP-FedSAM, section 6.1"),
    (DP, "privacy", "client", "DP-FedSAM, section 5.2"),
    (("dp-fedavg", "dp-fedavg-emnist"), "algorithm", "fedavg", "DP-FedSAM, section 6.1, baselines"),
    ((*DP_CIFAR[1:], *DP_EMNIST[1:]), "algorithm", "fedsam", "DP-FedSAM, section 4 and Algorithm 1"),
    ((*DP_CIFAR[1:], *DP_EMNIST[1:]), "rho", 0.5, "DP-FedSAM, sections 6.1 and 6.6"),
    (("dp-fedsam-topk", "dp-fedsam-topk-emnist"), "sparsify", "top-k:0.4", "DP-FedSAM, sections 6.1 and 6.5"),
    (DP2, "rounds", 200, "DP2-FedSAM, section 5.1"),
    (DP2, "body_lr", 0.1, "DP2-FedSAM, section 5.1"),
    (DP2, "head_lr", 0.005, "DP2-FedSAM, section 5.1"),
    (DP2, "lr_decay", 0.99, "DP2-FedSAM, section 5.1"),
    (DP2_CIFAR, "momentum", 0.7, "DP2-FedSAM, section 5.1"),
    (DP2_FEMNIST, "momentum", 0.3, "DP2-FedSAM, section 5.1"),
    (DP2, "body_epochs", 2, "DP2-FedSAM, section 5.1"),
    (DP2, "head_epochs", 2, "DP2-FedSAM, section 5.1"),
    (DP2_CIFAR, "clip_norm", 0.1, "DP2-FedSAM, section 5.1"),
    (DP2_FEMNIST, "clip_norm", 0.2, "DP2-FedSAM, section 5.1"),
    (DP2_CIFAR, "rho", 0.1, "DP2-FedSAM, section 5.1, where SAM's radius is q"),
    (DP2_FEMNIST, "rho", 0.5, "DP2-FedSAM, section 5.1, where SAM's radius is q"),
    (DP2, "participation", 0.05, "DP2-FedSAM, section 5.1, where the sampling ratio is r"),
    (DP2, "privacy", "client", "DP2-FedSAM, section 2.4"),
    (("dp2-fedsam", "dp2-fedsam-femnist"), "algorithm", "dfedsmdc", "DP2-FedSAM, Algorithm 2"),
    (("centaur", "centaur-femnist"), "algorithm", "dfedmdc", "DP2-FedSAM, section 5, baselines"),
    ((*ON_RESNET, *ON_SWIN), "privacy", "sample", "DP-FedAdamW, Definition 1"),
    ((*ON_RESNET, *ON_SWIN), "noise_multiplier", 1.0, "DP-FedAdamW, Table 15"),
    ((*ON_RESNET, *ON_SWIN), "delta", 1e-5, "DP-FedAdamW, Table 15: CIFAR"),
    ((*ON_RESNET, *ON_SWIN), "clip_norm", 0.1, "DP-FedAdamW, section 9.4"),
    ((*ON_RESNET, *ON_SWIN), "lr_schedule", "cosine", "DP-FedAdamW, section 9.4"),
    (ON_RESNET, "rounds", 300, "DP-FedAdamW, Table 15"),
    (ON_RESNET, "local_steps", 50, "DP-FedAdamW, Table 15"),
    (ON_RESNET, "participation", 0.2, "DP-FedAdamW, Table 15"),
    (ON_RESNET, "batch_size", 50, "DP-FedAdamW, Table 15"),
    (ON_RESNET, "body_lr", 0.1, "DP-FedAdamW, Table 17"),
    (ON_RESNET, "weight_decay", 0.001, "DP-FedAdamW, Table 17"),
    (ON_SWIN, "rounds", 100, "DP-FedAdamW, Table 15"),
    (ON_SWIN, "local_steps", 20, "DP-FedAdamW, Table 15"),
    (ON_SWIN, "participation", 0.1, "DP-FedAdamW, Table 15"),
    (ON_SWIN, "batch_size", 16, "DP-FedAdamW, Table 15"),
    (("dp-fedavg-sample",), "algorithm", "fedavg", "DP-FedAdamW, section 7.1"),
    (("dp-scaffold",), "algorithm", "scaffold", "DP-FedAdamW, section 7.1"),
    (("dp-fedavg-ls",), "algorithm", "fedavg-ls", "DP-FedAdamW, section 7.1"),
    (("dp-fedsam-sample",), "algorithm", "fedsam", "DP-FedAdamW, section 7.1"),
    (("dp-fedopt",), "algorithm", "fedopt", "DP-FedAdamW, Table 9"),
    (("dp-fafed",), "algorithm", "fafed", "DP-FedAdamW, Table 9"),
    (("dp-fedlada",), "algorithm", "fedlada", "DP-FedAdamW, Table 9"),
    (ADAMW[::2], "algorithm", "localadamw", "DP-FedAdamW, Algorithm 2"),
    (ADAMW[1::2], "algorithm", "fedadamw", "DP-FedAdamW, Algorithm 1"),
    (ADAMW, "privacy", "sample", "DP-FedAdamW, section 2: every observer, each training example"),
    (ADAMW, "noise_multiplier", 1.0, "DP-FedAdamW, section 7.1 and Tables 15 and 16"),
    (ADAMW, "clip_norm", 0.1, "DP-FedAdamW, section 9.4"),
    (ADAMW, "delta", 1e-5, "DP-FedAdamW, section 7.1 and Table 15, for CIFAR-10 and CIFAR-100"),
    (ADAMW, "optimizer", "adamw", "DP-FedAdamW, Table 17"),
    (ADAMW_RESNET, "body_lr", 3e-4, "DP-FedAdamW, Table 17"),
    (ADAMW, "momentum", 0.9, "DP-FedAdamW, section 9.4 and Table 17, where it is beta 1"),
    (ADAMW, "weight_decay", 0.01, "DP-FedAdamW, Table 17, and for DP-FedAdamW section 9.4"),
    (ADAMW, "lr_schedule", "cosine", "DP-FedAdamW, sections 7.1 and 9.4"),
    (ADAMW_RESNET, "rounds", 300, "DP-FedAdamW, Table 15"),
    (ADAMW_TRANSFORMER, "rounds", 100, "DP-FedAdamW, Tables 15 and 16"),
    (ADAMW_RESNET, "local_steps", 50, "DP-FedAdamW, Table 15"),
    (ADAMW_TRANSFORMER, "local_steps", 20, "DP-FedAdamW, Tables 15 and 16"),
    (ADAMW_RESNET, "batch_size", 50, "DP-FedAdamW, Table 15"),
    (ADAMW_TRANSFORMER, "batch_size", 16, "DP-FedAdamW, Tables 15 and 16"),
    (ADAMW_RESNET, "participation", 0.2, "DP-FedAdamW, Table 15"),
    (ADAMW_TRANSFORMER, "participation", 0.1, "DP-FedAdamW, Table 15"),
]  # fmt: skip
"""Presets, a setting, its value, and the place in the paper's text that prints it."""

OPEN = [
    ((*DFEDMDC, *DP, *DP2, *ADAMW), "grad_clip", None, "not printed; dpeer's default would clip"),
    (ADAMW, "head_lr", 3e-4, "one rate is printed, for the whole model"),
    (ADAMW_TRANSFORMER, "body_lr", 3e-4, "printed for the ResNet-18 alone; one of those among which it was chosen"),
    (
        (*DFEDMDC, *DP, *DP2, *ADAMW),
        "finish",
        "none",
        "no algorithm there trains on after the last mixing; dpeer's would",
    ),
    ((*ON_RESNET, *ON_SWIN), "grad_clip", None, "not printed; dpeer's default would clip"),
    ((*ON_RESNET, *ON_SWIN), "finish", "none", "its algorithms end with the last mixing; dpeer's would not"),
    (ON_RESNET, "momentum", 0.0, "Table 17 has SGD and no momentum; dpeer's default is 0.9"),
    (("dp-fedopt",), "body_lr", 0.1, "nothing is printed of this method; Table 17 for SGD, as in table-9.toml"),
    (("dp-fedopt",), "weight_decay", 0.001, "likewise"),
    (("dp-fedopt",), "momentum", 0.0, "likewise"),
    (ON_SWIN[1:], "body_lr", 3e-4, "nothing is printed of these methods; Table 17 for AdamW, as in table-9.toml"),
    (ON_SWIN[1:], "weight_decay", 0.01, "likewise"),
    (("dp-fedlada",), "momentum", 0.9, "likewise, where it is beta 1; dp-fafed has no use for it"),
    (("dp-fedsam-topk", "dp-fedsam-topk-emnist"), "dp_adversary", "neighbor", "dpeer's own: sound with top-k only so"),
]
"""The same for values that no text prints, with the reason why they are there."""

OF_CODE = {"paper-dispfl", "paper-fedrep", "paper-fedbabu"}
"""Presets made from published code, of papers against whose texts their values have not been held."""


def values_of(name: str) -> dict[str, Any]:
    """Every value of a preset, those that only some algorithms get among them."""
    preset = PRESETS[name]
    apart = {f"{key} with {who}": value for who, own in preset.apart.items() for key, value in own.items()}
    return {**preset.values, **apart}


@pytest.mark.parametrize("name", sorted({*PRESETS} - OF_CODE))
def test_every_value_has_a_place_in_its_paper_and_every_place_a_value(name: str) -> None:
    found = [(setting, value) for names, setting, value, _ in (*PRINTED, *OPEN) if name in names]
    assert len(dict(found)) == len(found), "a setting stands in one line of the table"
    assert dict(found) == values_of(name)


PAPERS = ("DFedMDC", "DP-FedSAM", "DP2-FedSAM", "DP-FedAdamW")


def test_the_table_is_of_presets_that_there_are() -> None:
    assert {name for names, *_ in (*PRINTED, *OPEN) for name in names} == {*PRESETS} - OF_CODE
    assert {*PRESETS} >= OF_CODE
    assert all(place.split(", ")[0] in PAPERS for *_, place in PRINTED)
    for name in OF_CODE:
        assert "published" in PRESETS[name].remark, "it is said where the values are from"


# What a preset does --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [None, "fedrep"])
@pytest.mark.parametrize("name", PRESETS)
def test_its_values_are_valid_settings_and_those_used(name: str, algorithm: str | None) -> None:
    message = {} if algorithm is None else {"algorithm": algorithm}
    used = Settings(preset=name, **message)
    # A preset's own are not checked when they are taken over.
    given = Settings.model_validate({**PRESETS[name].values_for(used.algorithm), **message})
    assert used.model_dump() == given.model_dump() | {"preset": name}
    assert used.algorithm in ALGORITHMS
    assert used.model_fields_set == {"preset", *message}, "nobody said them: an algorithm's own defaults win over them"
    assert PRESETS[name].remark
    assert "\n" not in PRESETS[name].remark


@pytest.mark.parametrize(
    ("algorithm", "head_lr", "head_epochs"),
    [("dfedmdc", 0.001, 5), ("dfedsmdc", 0.001, 5), ("fedrep", 0.1, 10), ("fedrod", 0.1, 5), ("dfedavgm", 0.1, 5)],
)
def test_what_a_paper_gives_its_own_methods_alone_does_not_go_to_others(
    algorithm: str, head_lr: float, head_epochs: int, write: Callable[[str], Path]
) -> None:
    for settings in (
        Settings(preset="paper-cifar-pathological", algorithm=algorithm),
        load(write("preset = 'paper-cifar-pathological'\nalgorithm = 'ditto'"), {"algorithm": algorithm}),
        Settings(preset="paper-cifar-pathological").model_copy(update={"algorithm": algorithm}),  # a baseline's run
    ):
        used = with_defaults(settings)
        assert (used.head_lr, used.head_epochs, used.body_lr) == (head_lr, head_epochs, 0.1)
    message = with_defaults(Settings(preset="paper-cifar", algorithm=algorithm, head_lr=0.02, head_epochs=3))
    assert (message.head_lr, message.head_epochs) == (0.02, 3)


def test_what_the_user_gives_wins(write: Callable[[str], Path]) -> None:
    path = write("preset = 'paper-cifar'\nbody_lr = 0.3\nhead_epochs = 1")
    settings = load(path, {"rho": 0.2, "batch_size": None})
    assert (settings.body_lr, settings.rho) == (0.3, 0.2)
    assert (settings.head_lr, settings.batch_size) == (0.001, 128)

    # Also with the generic default, and whether the preset is a flag's or the file's.
    assert load(path, {"preset": "paper-cifar-pathological", "body_lr": 0.05}).body_lr == 0.05
    assert load(path, {"preset": "paper-cifar-pathological"}).head_epochs == 1
    assert load(path, {"preset": "paper-cifar-pathological"}).body_lr == 0.3
    assert Settings(preset="paper-cifar", lr_decay=1.0).lr_decay == 1.0


def test_a_rank_has_the_same_settings_in_a_process_of_its_own(write: Callable[[str], Path]) -> None:
    """`dpeer cluster` hands over what was set, and the preset's name with it."""
    path = write("size = 3\npreset = 'paper-cifar'\nlr_decay = 1.0\n[rank.1]\nbatch_size = 8")
    own = load(path, {}).of_rank(1)
    there = Settings.model_validate(own.model_dump(exclude_unset=True))
    assert there.model_dump(exclude={"rank"}) == own.model_dump(exclude={"rank"})
    assert there.model_fields_set == own.model_fields_set


@pytest.mark.parametrize(
    ("name", "algorithm"), [("paper-dispfl", "dis-pfl"), ("paper-fedrep", "fedrep"), ("paper-fedbabu", "fedbabu")]
)
def test_a_preset_may_pick_the_algorithm_unless_one_is_given(
    name: str, algorithm: str, write: Callable[[str], Path]
) -> None:
    assert load(write(f"preset = '{name}'"), {}).algorithm == algorithm
    assert load(write(f"preset = '{name}'"), {"algorithm": "dfedavgm"}).algorithm == "dfedavgm"
    given = load(write("algorithm = 'dfedsmdc'"), {"preset": name})
    assert given.algorithm == "dfedsmdc", "also where it is the default"
    assert given.body_lr == PRESETS[name].values["body_lr"]


def test_an_unknown_one_is_refused_with_the_nearest(write: Callable[[str], Path]) -> None:
    for make in (
        lambda: Settings(preset="paper-cifr"),
        lambda: load(write("preset = 'paper-cifr'"), {}),
        lambda: load(write(""), {"preset": "paper-cifr"}),
    ):
        with pytest.raises(UnknownName) as raised:
            make()
        assert "did you mean 'paper-cifar'?" in str(raised.value)
        assert raised.value.exit_code == 2
