"""On another device nothing is left behind on the host, nothing of it is saved or sent, and the bits stay.

No GPU is needed: see conftest.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import (
    ALGORITHMS,
    Evaluation,
    Hyperparameters,
    Task,
    TorchLearner,
    build_learner,
    find_algorithm,
    options_among,
)
from dpeer.training.device import HOST, Compute
from tests.thinning import every

pytestmark = pytest.mark.slow

Make = Callable[..., Task]
SIZE = 3
ROW = dict.fromkeys(range(SIZE), 1 / SIZE)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ALGORITHMS},
    "dfedavgm quantize=8": ("dfedavgm", {"quantize": 8}),
    **{f"dfedavgm robust={rule}": ("dfedavgm", {"robust": rule}) for rule in ("clip", "trimmed-mean:1", "median")},
    "fedrod personal=hypernetwork": ("fedrod", {"options": {"personal": "hypernetwork"}}),
    "fedper quantize=4": ("fedper", {"quantize": 4}),
    "dfedsmdc sam=both, clipped": ("dfedsmdc", {"sam": "both", "grad_clip": 0.5, "weight_decay": 0.01}),
}


def made(task: Task, algorithm: str, settings: dict[str, Any], **more: Any) -> TorchLearner:
    """A learner whose hyperparameters and options are among the settings; some epochs may be none."""
    h = Hyperparameters().model_copy(update={n: v for n, v in settings.items() if n in Hyperparameters.model_fields})
    options = {**options_among(find_algorithm(algorithm), settings), **settings.get("options", {})}
    return build_learner(task, algorithm, h, options=options, **more)


class Net(nn.Module):
    """Dropout, and batch statistics in the head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3))
        self.norm, self.fc = nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.norm(self.body(x) * self.frozen))
        return out


def peers(make_task: Make, case: str, *computes: Compute, **task: Any) -> list[TorchLearner]:
    algorithm, settings = CASES[case]
    message = {"body_epochs": 1, "batch_size": 16, "rounds": 3} | settings
    found = []
    for rank, compute in enumerate(computes or (HOST,) * SIZE):
        ours = make_task(rank, samples=20, **task)
        ours.validation = ours.test
        found.append(made(ours, algorithm, message, rank=rank, seed=0, keep="best", compute=compute))
    return found


def rounds(learners: list[TorchLearner], count: int, start: int = 0) -> list[Any]:
    """Rounds in this thread, everyone hearing everyone; all that comes out of them."""
    seen: list[Any] = []
    for number in range(start, start + count):
        seen += [ours.train(number) for ours in learners]
        sent = [ours.release(number) for ours in learners]
        for rank, ours in enumerate(learners):
            if ours.shares:
                received = {j: sent[j] or [] for j in ROW if j != rank}
                assert [ours.check(j, payload) for j, payload in received.items()] == [None] * len(received)
                ours.mix(received, ROW)
            seen += [[bytes(part) for part in sent[rank] or []], ours.evaluate()]
    return seen


def files(learners: list[TorchLearner], folder: Path) -> list[bytes]:
    for rank, ours in enumerate(learners):
        (folder / str(rank)).mkdir(parents=True)
        ours.save(folder / str(rank))
        ours.write_model(folder / str(rank) / "model.safetensors")
    return [file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()]


@pytest.mark.parametrize("case", every(2, CASES))
def test_a_whole_life_elsewhere_has_the_bits_of_one_on_the_host(
    case: str, make_task: Make, tmp_path: Path, elsewhere: Any
) -> None:
    there = Compute(elsewhere.device)
    ours, plain = peers(make_task, case, there, there, there), peers(make_task, case)
    assert ours[0].digest == plain[0].digest
    assert ours[0].manifest == plain[0].manifest
    assert rounds(ours, 2) == rounds(plain, 2)
    for one, other in zip(ours, plain, strict=True):
        assert one.finish(1) == other.finish(1)
        assert elsewhere.of(one.trainer.model.data) == there.device
        assert {elsewhere.of(p) for p in one.trainer.module.parameters()} == {there.device}
        assert elsewhere.of(one.body).type == "cpu"
        assert torch.equal(one.body, other.body)
    assert files(ours, tmp_path / "ours") == files(plain, tmp_path / "plain")


@pytest.mark.parametrize(
    "case", ["dfedsmdc", "dis-pfl", "ditto", "fedbabu", "fedrod", "fedrod personal=hypernetwork", "dfedavgm quantize=8"]
)
@pytest.mark.parametrize("to_host", every(2, [True, False]))
def test_a_run_is_resumed_on_another_device(
    case: str, to_host: bool, make_task: Make, tmp_path: Path, elsewhere: Any
) -> None:
    there = Compute(elsewhere.device)
    before, after = (there, HOST) if to_host else (HOST, there)
    first, whole = peers(make_task, case, *[before] * SIZE), peers(make_task, case)
    rounds(first, 2)
    rounds(whole, 2)
    files(first, tmp_path / "a")
    resumed = peers(make_task, case, *[after] * SIZE)
    for rank, ours in enumerate(resumed):
        ours.load(tmp_path / "a" / str(rank))
    assert rounds(resumed, 1, start=2) == rounds(whole, 1, start=2)
    assert files(resumed, tmp_path / "b") == files(whole, tmp_path / "c")


@pytest.mark.parametrize("case", ["dfedmdc", "dis-pfl", "dfedavgm quantize=8", "fedper quantize=4"])
def test_peers_of_one_federation_may_be_anywhere(case: str, make_task: Make, elsewhere: Any) -> None:
    mixed = peers(make_task, case, Compute(elsewhere.device), HOST, Compute(elsewhere.device))
    assert rounds(mixed, 2) == rounds(peers(make_task, case), 2)


@pytest.mark.parametrize("algorithm", ["dfedmdc", "dfedsmdc", "fedbabu", "local"])
def test_dropout_buffers_and_frozen_parameters(algorithm: str, make_task: Make, tmp_path: Path, elsewhere: Any) -> None:
    def made(compute: Compute) -> list[TorchLearner]:
        torch.manual_seed(1)
        return peers(make_task, algorithm, compute, model=Net(), head=("norm", "fc"))

    ours, plain = made(Compute(elsewhere.device)), made(HOST)
    for learners in (ours, plain):
        for number in range(2):
            learners[0].train(number)
            learners[0].evaluate()
    assert files(ours, tmp_path / "ours") == files(plain, tmp_path / "plain")
    saved = load_file(tmp_path / "ours" / "0" / "model.safetensors")
    assert saved["norm.num_batches_tracked"] > 0


# Data.


class Plain(Dataset[Any]):
    """The same data, but as an ordinary dataset."""

    def __init__(self, data: Any, make: Callable[[Any], Any] = lambda pair: pair) -> None:
        self.data, self.make = data, make

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.make(self.data[index])


class Named(nn.Module):
    """Takes its inputs by name, and gives a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor, more: list[Tensor]) -> dict[str, Tensor]:
        return {"scores": self.fc(self.body(x + more[0]).relu())}


def evaluated(compute: Compute, task: Task) -> tuple[float | None, Evaluation]:
    ours = build_learner(task, "dfedmdc", Hyperparameters(body_epochs=1), rank=0, seed=0, compute=compute)
    return ours.train(0), ours.evaluate()


@pytest.mark.parametrize("wrap", [lambda data: Subset(data, [5, 3, -1, *range(10, 30)]), Plain])
def test_subsets_and_collated_batches(wrap: Callable[[Any], Any], make_task: Make, elsewhere: Any) -> None:
    def made() -> Task:
        task = make_task()
        return make_task(train=wrap(task.train), test=wrap(task.test))

    assert evaluated(Compute(elsewhere.device), made()) == evaluated(HOST, made())


def test_structured_inputs_targets_and_outputs(make_task: Make, elsewhere: Any) -> None:
    def made() -> Task:
        def pair(sample: Any) -> Any:
            return {"x": sample[0], "more": [sample[0] * 2]}, {"label": sample[1]}

        def metrics(outputs: Any, targets: Any) -> dict[str, float]:
            return {"accuracy": float((outputs["scores"].numpy().argmax(1) == targets["label"].numpy()).mean())}

        task = make_task()
        torch.manual_seed(0)
        return make_task(
            model=Named(), train=Plain(task.train, pair), test=Plain(task.test, pair), metrics=metrics,
            loss=lambda outputs, targets: nn.functional.cross_entropy(outputs["scores"], targets["label"]),
        )  # fmt: skip

    assert evaluated(Compute(elsewhere.device), made()) == evaluated(HOST, made())


def test_a_loss_with_weights_is_each_peers_own(make_task: Make, elsewhere: Any) -> None:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
    assert evaluated(Compute(elsewhere.device), make_task(loss=loss)) == evaluated(HOST, make_task(loss=loss))


def test_only_a_peers_own_rows_are_put_there(make_task: Make, elsewhere: Any) -> None:
    pool = TensorDataset(torch.arange(60.0).view(10, 6), torch.arange(10) % 3)
    task = make_task(train=Subset(pool, [7, 2]), test=Subset(pool, [1]))
    inputs, targets = build_learner(
        task, "local", rank=0, seed=0, compute=Compute(elsewhere.device)
    ).trainer.data._tensors
    assert elsewhere.of(inputs) == elsewhere.of(targets) == elsewhere.device
    assert inputs[:, 0].tolist() == [42.0, 12.0]
    assert elsewhere.of(pool.tensors[0]).type == "cpu"


# That these tests would notice.


def test_the_second_device_is_told_from_the_host(elsewhere: Any) -> None:
    here, there = torch.ones(3), torch.ones(3).to(elsewhere.device)
    assert (here.device.type, there.device) == ("cpu", elsewhere.device)
    assert (there * 2 + 1)[1:].device == elsewhere.device
    assert there.to("cpu").device == here.device
    assert torch.zeros_like(there).device == elsewhere.device
    for mix in (
        lambda: here + there,
        lambda: there.add_(here),
        lambda: here[there.long()],
        lambda: torch.cat([here, there]),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            mix()
    with pytest.raises(TypeError, match="can't convert"):
        there.numpy()


def test_a_tensor_that_a_model_keeps_to_itself_is_named(make_task: Make, elsewhere: Any) -> None:
    class Careless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.fc, self.mask = nn.Linear(6, 8), nn.Linear(8, 3), torch.ones(8)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.fc(self.body(x) * self.mask)
            return out

    ours = build_learner(make_task(model=Careless()), "local", rank=0, seed=0, compute=Compute(elsewhere.device))
    with pytest.raises(TaskError, match=r"model failed on a training batch.*same device"):
        ours.train(0)


def test_a_task_leaves_its_model_on_the_host(make_task: Make, elsewhere: Any) -> None:
    task = make_task()
    task.model.to(elsewhere.device)
    with pytest.raises(TaskError, match="leave the model on the cpu: --device moves it"):
        build_learner(task, "local", rank=0, seed=0, compute=Compute(elsewhere.device))
