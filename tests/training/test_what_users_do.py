"""What users' models and data do that could silently spoil training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.metrics import classification_metrics
from dpeer.training.split import split

Make = Callable[..., Task]
H = Hyperparameters(body_epochs=1, batch_size=16)


def learner(task: Task, algorithm: str = "dfedmdc", **changes: Any) -> TorchLearner:
    return build_learner(
        task, algorithm, changes.pop("hyperparameters", H), rank=changes.pop("rank", 0), seed=0, **changes
    )


def body_of(task: Task) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for name, p in task.model.named_parameters() if not name.startswith("fc")])


class Net(nn.Module):
    """Body `a`, head `fc`; `tamper` runs in every forward pass."""

    def __init__(self, tamper: Callable[["Net"], None] = lambda net: None) -> None:
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.fc = nn.Linear(8, 3)
        self.tamper = tamper

    def forward(self, x: Tensor) -> Tensor:
        self.tamper(self)
        out: Tensor = self.fc(torch.relu(self.a(x)))
        return out


def test_one_model_for_two_ranks_is_refused(make_task: Make) -> None:
    first = make_task(0)
    kept = learner(first)
    for model in (first.model, nn.Sequential(first.model.body, nn.Linear(8, 3))):
        with pytest.raises(TaskError, match="another peer of this process trains already: build a new model"):
            learner(make_task(1, model=model, head=()), rank=1)
    assert kept.train(0) is not None


def renorm(net: Net) -> None:
    net.a.weight.data = torch.renorm(net.a.weight.data, 2, 0, 1.0)


@pytest.mark.parametrize("algorithm", ["dfedmdc", "dfedsmdc", "dfedavgm"])
@pytest.mark.parametrize("tamper", [renorm, lambda net: net.zero_grad()], ids=["max-norm", "zero_grad"])
def test_a_model_that_replaces_its_storage_still_trains_and_mixes(
    make_task: Make, tamper: Callable[[Net], None], algorithm: str
) -> None:
    torch.manual_seed(1)
    task = make_task(model=Net(tamper))
    found = learner(task, algorithm)
    before = body_of(task)
    found.train(0)
    assert (body_of(task) - before).abs().max() > 0.01
    released = np.frombuffer(found.release(0)[0], "<f4")
    found.evaluate()
    ours = torch.cat([p.detach().reshape(-1) for _, p in task.model.named_parameters()])[: len(released)]
    assert np.array_equal(found.body.numpy(), ours.numpy())
    found.mix({1: [np.zeros(len(released), "<f4").tobytes()]}, {0: 0.5, 1: 0.5})
    mixed = torch.cat([p.detach().reshape(-1) for _, p in task.model.named_parameters()])[: len(released)]
    np.testing.assert_allclose(mixed.numpy(), released / 2, rtol=1e-6)


def test_max_norm_is_as_in_plain_pytorch(make_task: Make) -> None:
    torch.manual_seed(1)
    task = make_task(model=Net(renorm), head=())
    plain = Net(renorm)
    plain.load_state_dict(task.model.state_dict())
    inputs, targets = task.train.tensors
    found = learner(
        task, "dfedavgm", hyperparameters=Hyperparameters(body_epochs=3, batch_size=1000, momentum=0.0, grad_clip=None)
    )
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(plain(inputs), targets).backward()
        optimizer.step()
    found.train(0)
    expected = torch.cat([p.detach().reshape(-1) for p in plain.parameters()])
    torch.testing.assert_close(found.body, expected, rtol=1e-5, atol=1e-6)


def test_buffers_of_any_layout_are_saved(make_task: Make, tmp_path: Path) -> None:
    def task() -> Task:
        made = make_task()
        made.model.register_buffer("basis", torch.arange(24.0).view(4, 6).T)
        return made

    first, second = learner(task()), learner(task())
    first.train(0)
    first.save(tmp_path)
    second.load(tmp_path)
    assert torch.equal(second.trainer.module.basis, torch.arange(24.0).view(4, 6).T)
    first.write_model(tmp_path / "model.safetensors")


class Teacher(nn.Module):
    """A frozen copy that follows the student: a moving average, as mean teachers and momentum encoders have it."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.fc = nn.Linear(8, 3)
        self.teacher = nn.Linear(6, 8).requires_grad_(False)
        self.still = nn.Linear(2, 2).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.teacher.weight.lerp_(self.a.weight, 0.1)
        out: Tensor = self.fc(torch.relu(self.a(x) + self.teacher(x)))
        return out


def test_frozen_parameters_that_change_are_in_the_checkpoint(make_task: Make, tmp_path: Path) -> None:
    def fresh() -> TorchLearner:
        torch.manual_seed(3)
        return learner(make_task(model=Teacher()))

    whole, first, second = fresh(), fresh(), fresh()
    for number in range(4):
        whole.train(number)
    for number in range(2):
        first.train(number)
    first.save(tmp_path)
    second.load(tmp_path)
    for number in (2, 3):
        second.train(number)
    for name, value in whole.trainer.module.state_dict().items():
        assert torch.equal(value, second.trainer.module.state_dict()[name]), name
    assert not any("still" in name for path in tmp_path.glob("*.safetensors") for name in load_file(path))


def test_a_users_default_dtype_does_not_reach_the_wire(make_task: Make) -> None:
    task = make_task()
    torch.set_default_dtype(torch.float64)
    try:
        found = learner(task)
        assert found.body.dtype == torch.float32
        found.train(0)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_model_that_comes_in_eval_mode_trains_in_train_mode(make_task: Make) -> None:
    task = make_task(dropout=0.5)
    task.model.eval()
    modes = set()
    task.model.drop.register_forward_pre_hook(lambda module, args: modes.add(module.training))
    learner(task).train(0)
    assert modes == {True}


def test_weight_decay_reaches_the_steps(make_task: Make) -> None:
    norms = []
    for decay in (0.0, 0.5):
        found = learner(make_task(), hyperparameters=Hyperparameters(body_epochs=5, batch_size=16, weight_decay=decay))
        for number in range(3):
            found.train(number)
        norms.append(found.body.norm())
    assert norms[1] < 0.8 * norms[0]


def test_negative_indices_of_a_subset_count_from_the_end(make_task: Make) -> None:
    whole = make_task().train
    one = learner(make_task(train=Subset(whole, range(-20, 0))))
    other = learner(make_task(train=Subset(whole, range(30, 50))))
    assert one.train(0) == other.train(0)


def test_data_that_cannot_be_gathered_is_named(make_task: Make) -> None:
    whole = make_task().train
    with pytest.raises(TaskError, match="train data cannot be read: IndexError"):
        learner(make_task(train=Subset(whole, [0, 1, 5000]))).train(0)


def test_batch_norm_without_parameters_can_follow_its_own_advice(make_task: Make) -> None:
    def model() -> nn.Sequential:
        return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4, affine=False), nn.Linear(4, 3))

    with pytest.raises(TaskError, match="keep it at home with '1' in the task's head"):
        learner(make_task(model=model(), head=("2",)))
    learner(make_task(model=model(), head=("1", "2"))).train(0)


def test_instance_norm_with_running_statistics_is_refused_like_batch_norm() -> None:
    with pytest.raises(TaskError, match="InstanceNorm1d '0' cannot be shared"):
        split(nn.Sequential(nn.InstanceNorm1d(4, track_running_stats=True), nn.Linear(3, 2)), ("1",), "body")
    split(nn.Sequential(nn.InstanceNorm1d(4, affine=True), nn.Linear(3, 2)), ("1",), "body")


@pytest.mark.parametrize("algorithm", ["local", "dfedmdc"])
def test_two_parameters_over_one_storage_are_refused(make_task: Make, algorithm: str) -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3))
    model[1].weight = nn.Parameter(model[0].weight.data)
    with pytest.raises(TaskError, match=r"'0\.weight' and '1\.weight' are two over one tied tensor"):
        learner(make_task(model=model, head=("2",)), algorithm)


def test_default_metrics_only_speak_of_classifiers() -> None:
    labels = torch.tensor([0, 1, 1, 0])
    assert classification_metrics(torch.randn(4, 1), labels) == {}, "one score per sample"
    assert classification_metrics(torch.randn(4, 5, 3), torch.randint(0, 3, (4, 6))) == {}
    assert classification_metrics(torch.randn(4, 3, 5), torch.randint(0, 3, (4, 6))) == {}, "other positions"
    assert classification_metrics(torch.randn(4, 2), torch.tensor([0, 1, 2, 7])) == {}, "no such score"
    assert classification_metrics(torch.randn(4, 2), torch.full((4,), -100)) == {}


def test_default_metrics_leave_out_what_cross_entropy_ignores() -> None:
    scores = torch.tensor([[2.0, 1.0], [2.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
    found = classification_metrics(scores, torch.tensor([0, 1, -100, 0]))
    assert found == {"accuracy": pytest.approx(2 / 3), "balanced_accuracy": 0.5}


def test_outputs_that_cannot_be_joined_need_metrics_only_when_the_user_has_some(make_task: Make) -> None:
    class Both(Net):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x), None

    def loss(outputs: Any, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs[0], targets)

    found = learner(make_task(model=Both(), loss=loss))
    found.train(0)
    assert found.evaluate().metrics == {}
    own = learner(make_task(model=Both(), loss=loss, metrics=lambda outputs, targets: {"one": 1.0}))
    own.train(0)
    with pytest.raises(TaskError, match="the task's metrics failed"):
        own.evaluate()


def test_mappings_are_keyword_arguments(make_task: Make) -> None:
    from collections import UserDict

    from dpeer.training.batch_loader import predict

    assert torch.equal(predict(lambda x, y: x - y, UserDict(y=torch.ones(2), x=torch.ones(2))), torch.zeros(2))


def test_tensor_datasets_are_gathered_not_collated(make_task: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(self: TensorDataset, index: int) -> Any:
        raise AssertionError("fetched sample by sample")

    found = learner(make_task())
    monkeypatch.setattr(TensorDataset, "__getitem__", slow)
    assert found.train(0) is not None


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.fc = nn.Linear(6, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.a(x))
        return out


@pytest.mark.parametrize(
    ("inputs", "targets", "advice"),
    [
        (torch.randn(8, 6).double(), torch.zeros(8).long(), r"the inputs are float64.*\.float\(\)"),
        (torch.zeros(8, 6, dtype=torch.uint8), torch.zeros(8).long(), r"the inputs are uint8.*\.float\(\)"),
        (torch.randn(8, 6), torch.arange(8) % 2 + 1, "run from 1 to 2, the model has 2 outputs: classes count from 0"),
        (torch.randn(8, 6), torch.zeros(8, dtype=torch.int32), r"the targets are int32: give class numbers as \.long"),
        (
            torch.randn(8, 5, 6),
            torch.zeros(8, 5).long(),
            r"shape \(8, 5, 2\) and the targets \(8, 5\): classes go in dimension 1, .*outputs.movedim\(-1, 1\)",
        ),
        (torch.randn(8, 6), torch.zeros(8, 1).long(), r"the targets \(8, 1\): give the targets as \.squeeze\(1\)"),
        (
            torch.randn(8, 6),
            torch.zeros(8, 3).long(),
            r"the targets \(8, 3\): classes go in dimension 1; cross-entropy",
        ),
        (torch.randn(8, 6), torch.rand(8), r"the targets are float32: .*\.long\(\), or the task a `loss`"),
    ],
    ids=["float64", "uint8", "from one", "int32", "classes last", "a column", "rows of targets", "float targets"],
)
def test_common_mistakes_in_data_are_told_with_their_remedy(
    make_task: Make, inputs: Tensor, targets: Tensor, advice: str
) -> None:
    data = TensorDataset(inputs, targets)
    with pytest.raises(TaskError, match="on a training batch.*" + advice):
        learner(make_task(model=TwoOutputs(), train=data)).train(0)
    good = TensorDataset(torch.randn(8, 6), torch.zeros(8).long())
    found = learner(make_task(model=TwoOutputs(), train=good, test=data))
    found.train(0)
    with pytest.raises(TaskError, match="on its test data.*" + advice):
        found.evaluate()


def test_text_is_told_to_be_no_number(make_task: Make) -> None:
    rows = [("a", 0), ("b", 1)]
    with pytest.raises(TaskError, match="the inputs are text"):
        learner(make_task(train=rows)).train(0)
    with pytest.raises(TaskError, match="the targets are text"):
        learner(make_task(train=[(torch.zeros(6), "cat"), (torch.zeros(6), "dog")])).train(0)
