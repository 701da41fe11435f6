"""Adapters: how they are asked for, where they are, what is trained, sent and saved, and a run of them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

import dpeer
from dpeer.exceptions import TaskError
from dpeer.plugins import reference
from dpeer.training import Choices, Hyperparameters, Task, TorchLearner, build_learner, load_task
from dpeer.training.lora import Lora, check_lora
from dpeer.training.lora.adapting import adapted, chosen
from tests.error_texts import refused
from tests.training.small import mix

from .conftest import Words, task_of, words

R, ALPHA = 2, 6.0


def load(lora: str | None, rank: int = 0, factory: Callable[..., Task] = words, **choices: Any) -> Task:
    return load_task(reference(factory), rank, 2, 0, {}, Choices(lora=lora, **choices))


def learner_of(task: Task, rank: int = 0, algorithm: str = "dfedmdc") -> TorchLearner:
    h = Hyperparameters(optimizer="adamw", body_lr=0.01, head_lr=0.01, body_epochs=2, head_epochs=1)
    return build_learner(task, algorithm, h, rank=rank, seed=0)


def outputs(model: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model.eval()(inputs)
    return found


def test_queries_and_values_are_adapted_and_nothing_but_them_and_the_head_is_trained() -> None:
    task = load(f"r={R},alpha={ALPHA}")
    trained = {name: tuple(p.shape) for name, p in task.model.named_parameters() if p.requires_grad}
    parts = {f"block.{layer}.lora_{part}.default.weight" for layer in ("query", "value") for part in "AB"}
    assert {*trained} == parts | {"head.weight", "head.bias"}
    assert trained["block.query.lora_A.default.weight"] == (R, 8)
    assert trained["block.query.lora_B.default.weight"] == (8, R)
    assert task.lora == "r=2,alpha=6"


def test_an_adapter_adds_its_two_factors_times_alpha_over_r() -> None:
    task = load(f"r={R},alpha={ALPHA}")
    plain = load(None).model
    tokens = task.train.tensors[0]
    assert torch.equal(outputs(task.model, tokens), outputs(plain, tokens)), "before training an adapter does nothing"
    values = dict(task.model.named_parameters())
    own = dict(plain.named_parameters())
    with torch.no_grad():
        for layer in ("query", "value"):
            a, b = (values[f"block.{layer}.lora_{part}.default.weight"] for part in "AB")
            b.copy_(torch.randn(b.shape))
            own[f"block.{layer}.weight"] += ALPHA / R * b @ a
    assert torch.allclose(outputs(task.model, tokens), outputs(plain, tokens), atol=1e-5)


def test_the_first_values_are_those_of_all_peers_and_follow_from_the_seed() -> None:
    one, other = learner_of(load("r=2")), learner_of(load("r=2", 1), 1)
    assert one.about.digest == other.about.digest
    assert one.about.manifest == other.about.manifest
    a = dict(load("r=2").model.named_parameters())["block.query.lora_A.default.weight"]
    assert a.abs().min() > 0
    elsewhere = load_task(reference(words), 0, 2, 1, {}, Choices(lora="r=2"))
    assert not torch.equal(a, dict(elsewhere.model.named_parameters())["block.query.lora_A.default.weight"])


def test_only_adapters_travel_and_all_else_outside_of_the_head_stays_as_it_was() -> None:
    task = load("r=2")
    learner, model = learner_of(task), task.model
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    first = learner.train(0)
    payload = learner.release(0)
    assert payload is not None
    assert sum(len(memoryview(buffer).cast("B")) for buffer in payload) == 4 * learner.about.body_parameters
    assert learner.about.body_parameters == 2 * (R * 8 + 8 * R)
    mix(learner, {}, {0: 1.0})
    last = learner.train(1)
    assert last < first
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {name for name in before if "lora_" in name or name.startswith("head")}
    assert (
        learner_of(load("r=2"), algorithm="dfedavgm").about.body_parameters == learner.about.body_parameters + 8 * 3 + 3
    ), "it shares all"


def test_what_is_saved_is_the_plain_model_with_the_adapters_in_it(tmp_path: Path) -> None:
    task = load("r=2,alpha=8,targets=tokens+query+out")
    learner = learner_of(task)
    learner.train(0)
    learner.write_model(tmp_path / "model.safetensors")
    values = load_file(tmp_path / "model.safetensors")
    plain = Words()
    plain.load_state_dict(values)
    tokens = torch.randint(11, (20, 5))
    theirs = outputs(task.model, tokens)
    assert torch.allclose(outputs(plain, tokens), theirs, atol=1e-5)
    assert not torch.allclose(outputs(load(None).model, tokens), theirs, atol=1e-2)
    assert learner.card()["lora"] == "r=2,alpha=8,targets=out+query+tokens"


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (nn.Conv1d(2, 6, 3, padding=1), torch.randn(9, 2, 5)),
        (nn.Conv2d(2, 6, 3, stride=2), torch.randn(9, 2, 7, 7)),
        (nn.Conv3d(2, 6, 2), torch.randn(9, 2, 3, 3, 3)),
        (nn.Embedding(7, 6), torch.randint(7, (9, 4))),
    ],
)
def test_other_layers_are_merged_too(layer: nn.Module, inputs: Tensor, tmp_path: Path) -> None:
    model = nn.Sequential(layer, nn.Flatten())
    model.append(nn.Linear(model(inputs).shape[1], 3))
    learner = build_learner(adapted(task_of(model, inputs, ("2",)), "r=2,targets=0", 0), "dfedmdc", rank=0, seed=0)
    learner.train(0)
    before = outputs(model, inputs)
    learner.write_model(tmp_path / "m")
    values = load_file(tmp_path / "m")
    assert {*values} >= {"0.weight", "2.weight", "2.bias"}
    assert not any("lora" in name or "base" in name for name in values)
    fresh = nn.Sequential(layer.__class__(*arguments(layer)), nn.Flatten(), nn.Linear(*model[2].weight.shape[::-1]))
    fresh.load_state_dict(values)
    assert torch.allclose(outputs(fresh, inputs), before, atol=1e-5)


def arguments(layer: Any) -> tuple[Any, ...]:
    if isinstance(layer, nn.Embedding):
        return layer.num_embeddings, layer.embedding_dim
    return layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding


def test_in_evaluation_torchs_transformer_calls_its_adapters(recwarn: pytest.WarningsRecorder) -> None:
    block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(block, 1), nn.Flatten(), nn.Linear(40, 3))
    inputs = torch.randn(9, 5, 8)
    before = outputs(model, inputs)
    task = adapted(task_of(model, inputs, ("2",)), "r=2", 0)
    names = {name.rpartition(".lora_A")[0] for name, p in model.named_parameters() if "lora_A" in name}
    assert names == {"0.layers.0.linear1", "0.layers.0.linear2"}, "attention of torch does not call its layers"
    with pytest.raises(TaskError):
        chosen(model, ("2",), ("out_proj",), "r=2")
    with pytest.raises(TaskError):
        adapted(task, "r=2", 0)  # over adapters
    for name, parameter in task.model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)
    training = model.train()(inputs).detach()
    assert torch.allclose(outputs(model, inputs), training, atol=1e-6)
    assert not torch.allclose(training, before, atol=1e-2)


def test_a_remark_names_the_layers_that_are_adapted() -> None:
    assert load("r=2").remarks == (
        "lora r=2,alpha=2: 2 layers are adapted (query, value) by 64 parameters, all else is frozen",
    )
    assert "a smaller r would send less" in load("r=16").remarks[1]


@pytest.mark.parametrize(
    ("target", "fragment"),
    [("qeury", "did you mean 'query'?"), ("head", "outside of the head"), ("norm", "such are linear")],
)
def test_a_target_that_cannot_be_adapted_is_refused(target: str, fragment: str) -> None:
    with refused(TaskError, f"--lora r=2,alpha=2,targets={target}: the target '{target}' is no layer", fragment):
        load(f"r=2,targets={target}")


def test_a_model_without_a_layer_of_its_own_to_adapt_is_refused() -> None:
    tied = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))
    tied[2].weight = tied[0].weight
    for net, head, fragment in (
        (nn.Sequential(nn.Linear(4, 3)), "0", "outside of its head the model has no linear layer"),
        (tied, "3", "the weight of '0' is tied ('0.weight' and '2.weight' are one)"),
    ):
        with refused(TaskError, "--lora r=2: ", fragment):
            adapted(task_of(net, torch.randn(9, 4), (head,)), "r=2", 0)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("r=16,alpha=32", Lora(16, 32.0)),
        ("alpha=32, r=16", Lora(16, 32.0)),
        ("r=4", Lora(4, 4.0)),
        ("r=8,alpha=0.1,targets=value+query+value", Lora(8, 0.1, ("query", "value"))),
    ],
)
def test_one_text_for_one_meaning(text: str, means: Lora) -> None:
    assert Lora.parse(text) == means == Lora.parse(str(means))
    assert check_lora(text) == str(means)


@pytest.mark.parametrize("text", ["16", "r=4,r=4", "r=0", "r=²", "alpha=32", "r=4,targets=a++b", "r=4,alpha=x"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected r=R\[,alpha=A\]"):
        check_lora(text)


# A federation that trains adapters: from the setting to the model that a stranger loads.


@pytest.mark.slow
def test_a_run_is_saved_resumed_and_loaded_without_peft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(rounds: int, folder: str) -> dpeer.Settings:
        return dpeer.Settings(
            size=2, task="digits", algorithm="dfedmdc", optimizer="adamw", lora="alpha=8,r=4", rounds=rounds,
            local_steps=4, body_epochs=1, head_epochs=1, finish="none", alone="never", out=tmp_path / folder,
        )  # fmt: skip

    dpeer.run(settings(2, "whole"), mode="simulate")
    dpeer.run(settings(1, "parts"), mode="simulate")
    dpeer.run(settings(2, "parts"), mode="simulate", resume=True)
    one, other = (tmp_path / folder / "rank-0" / "model.safetensors" for folder in ("whole", "parts"))
    assert one.read_bytes() == other.read_bytes()
    with safe_open(one, framework="pt") as values:
        assert not any("lora" in name or "base" in name for name in values.keys())  # noqa: SIM118
    (saved,) = (tmp_path / "whole" / "rank-0" / "checkpoint").rglob("learner.safetensors")
    with safe_open(saved, framework="pt") as values:
        sizes = {name: values.get_tensor(name).numel() for name in values.keys()}  # noqa: SIM118
    assert sizes["last/body"] == 2084
    assert sum(sizes.values()) < 3 * (2084 + 1290), "frozen weights are in no checkpoint"
    for name in [name for name in sys.modules if name.partition(".")[0] == "peft"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "peft", None)  # an import of it fails
    model = dpeer.load_model(tmp_path / "whole" / "rank-0")
    assert model.card["lora"] == "r=4,alpha=8"
    assert len(model.module(torch.rand(5, 1, 8, 8)).argmax(1)) == 5
