"""On another device nothing is left behind on the host, nothing of it is saved or sent, and the bits stay.

No GPU is needed: see conftest.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Evaluation, Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.device import HOST, Compute
from tests.thinning import every, only
from tests.training.algorithm_cases import CASES, ROBUST, peers, rounds
from tests.training.small import NormedNet, Rows, small_task

pytestmark = pytest.mark.slow

NORMED = "fedbabu with dropout, buffers and frozen parameters"
ALL = [*(CASES | ROBUST), NORMED]


def files(learners: list[TorchLearner], folder: Path) -> list[bytes]:
    for rank, ours in enumerate(learners):
        (folder / str(rank)).mkdir(parents=True)
        ours.save(folder / str(rank))
        ours.write_model(folder / str(rank) / "model.safetensors")
    return [file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()]


def made(case: str, *computes: Compute) -> list[TorchLearner]:
    if case != NORMED:
        return peers(case, *computes)
    return peers("fedbabu", *computes, task={"model": NormedNet, "head": lambda: ("norm", "fc")})


TAKEN = [
    NORMED, "dfedavgm robust=median", "ditto compress=int4", "dis-pfl", "ditto adamw", "fedrod personal=hypernetwork",
    "fedadamw aggregate=full", "scaffold", "fedavg-ls", "dfedsmdc sam=both, clipped",
]  # fmt: skip


@pytest.mark.parametrize("case", only(TAKEN, ALL))
def test_a_whole_life_elsewhere_has_the_bits_of_one_on_the_host(case: str, tmp_path: Path, elsewhere: Any) -> None:
    """And peers of one federation may be anywhere."""
    there = Compute(elsewhere.device)
    ours, plain = made(case, there, HOST, HOST), made(case)
    assert ours[0].about.digest == plain[0].about.digest
    assert ours[0].about.manifest == plain[0].about.manifest
    assert rounds(ours, 2) == rounds(plain, 2)
    one, other = ours[0], plain[0]
    assert one.fine_tune(1) == other.fine_tune(1)
    assert elsewhere.of(one.trainer.model.data) == there.device
    assert {elsewhere.of(p) for p in one.trainer.module.parameters()} == {there.device}
    assert elsewhere.of(one.body).type == "cpu"
    assert torch.equal(one.body, other.body)
    assert files(ours[:1], tmp_path / "ours") == files(plain[:1], tmp_path / "plain")


@pytest.mark.parametrize("case", every(2, ["dis-pfl", "ditto", "fedrod personal=hypernetwork", "fedbabu", "dfedsmdc"]))
@pytest.mark.parametrize("to_host", every(2, [True, False]))
def test_a_run_is_resumed_on_another_device(case: str, to_host: bool, tmp_path: Path, elsewhere: Any) -> None:
    there = Compute(elsewhere.device)
    before, after = (there, HOST) if to_host else (HOST, there)
    first, whole, resumed = peers(case, before, HOST, HOST), peers(case), peers(case, after, HOST, HOST)
    rounds(first, 2)
    rounds(whole, 2)
    files(first, tmp_path / "a")
    for rank, ours in enumerate(resumed):
        ours.load(tmp_path / "a" / str(rank))
    assert rounds(resumed, 1, start=2) == rounds(whole, 1, start=2)
    assert files(resumed[:1], tmp_path / "b") == files(whole[:1], tmp_path / "c")


# Data.


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


@pytest.mark.parametrize("wrap", [lambda data: Subset(data, [5, 3, -1, *range(10, 30)]), Rows])
def test_subsets_and_collated_batches(wrap: Callable[[Any], Any], elsewhere: Any) -> None:
    tasks = [small_task(train=wrap(small_task().train), test=wrap(small_task().test)) for _ in range(2)]
    assert evaluated(Compute(elsewhere.device), tasks[0]) == evaluated(HOST, tasks[1])


def test_structured_inputs_targets_and_outputs(elsewhere: Any) -> None:
    def made() -> Task:
        def pair(sample: Any) -> Any:
            return {"x": sample[0], "more": [sample[0] * 2]}, {"label": sample[1]}

        def metrics(outputs: Any, targets: Any) -> dict[str, float]:
            return {"accuracy": float((outputs["scores"].numpy().argmax(1) == targets["label"].numpy()).mean())}

        task = small_task()
        torch.manual_seed(0)
        return small_task(
            model=Named(), train=Rows(task.train, pair), test=Rows(task.test, pair), metrics=metrics,
            loss=lambda outputs, targets: nn.functional.cross_entropy(outputs["scores"], targets["label"]),
        )  # fmt: skip

    assert evaluated(Compute(elsewhere.device), made()) == evaluated(HOST, made())


def test_a_loss_with_weights_is_each_peers_own(elsewhere: Any) -> None:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
    assert evaluated(Compute(elsewhere.device), small_task(loss=loss)) == evaluated(HOST, small_task(loss=loss))


def test_only_a_peers_own_rows_are_put_there(elsewhere: Any) -> None:
    pool = TensorDataset(torch.arange(60.0).view(10, 6), torch.arange(10) % 3)
    task = small_task(train=Subset(pool, [7, 2]), test=Subset(pool, [1]))
    learner = build_learner(task, "local", rank=0, seed=0, compute=Compute(elsewhere.device))
    inputs, targets = learner.trainer.data.take(torch.tensor([0, 1], device=elsewhere.device))
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


def test_a_tensor_that_a_model_keeps_to_itself_is_named(elsewhere: Any) -> None:
    class Careless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.fc, self.mask = nn.Linear(6, 8), nn.Linear(8, 3), torch.ones(8)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.fc(self.body(x) * self.mask)
            return out

    ours = build_learner(small_task(model=Careless()), "local", rank=0, seed=0, compute=Compute(elsewhere.device))
    with pytest.raises(TaskError, match=r"model failed on a training batch.*same device"):
        ours.train(0)


def test_a_task_leaves_its_model_on_the_host(elsewhere: Any) -> None:
    task = small_task()
    task.model.to(elsewhere.device)
    with pytest.raises(TaskError, match="leave the model on the cpu: --device moves it"):
        build_learner(task, "local", rank=0, seed=0, compute=Compute(elsewhere.device))
