"""How many steps a phase takes, how long a step may be, and how many gradients that costs."""

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpeer.exceptions import Interrupted
from dpeer.training import ALGORITHMS, Hyperparameters, Task, TorchLearner, build_learner, find_algorithm, options_among
from dpeer.training.batch_loader import batch_order

Make = Callable[..., Task]
SEED, RANK = 3, 2


def made(task: Task, algorithm: str, settings: dict[str, Any], **more: Any) -> TorchLearner:
    """A learner whose hyperparameters and options are among the settings; some epochs may be none."""
    h = Hyperparameters().model_copy(update={n: v for n, v in settings.items() if n in Hyperparameters.model_fields})
    return build_learner(task, algorithm, h, options=options_among(find_algorithm(algorithm), settings), **more)


def learner(task: Task, algorithm: str, **changes: Any) -> TorchLearner:
    settings: dict[str, Any] = {
        "body_lr": 0.1, "head_lr": 0.2, "momentum": 0.9, "lr_decay": 0.9, "batch_size": 16, "grad_clip": None,
    }  # fmt: skip
    return made(task, algorithm, settings | changes, rank=RANK, seed=SEED)


class Plain:
    """Ordinary training of a copy of the task's model in float64, by torch.optim.SGD."""

    def __init__(self, task: Task) -> None:
        self.model = copy.deepcopy(task.model).double()
        self.x, self.y = task.train.tensors
        self.x = self.x.double()
        self.norms: list[float] = []
        self.own: nn.Module | None = None

    def batches(self, phase: Any, steps: int, number: int = 0, size: int = 16) -> Iterable[Tensor]:
        """The first `steps` minibatches of as many shuffled passes as it takes, short last batches included."""
        epoch = 0
        while steps > 0:
            chunks = batch_order(len(self.x), SEED, RANK, number, phase, epoch).split(size)[:steps]
            yield from chunks
            steps, epoch = steps - len(chunks), epoch + 1

    def run(
        self,
        phase: Any,
        steps: int,
        lr: float,
        *,
        part: str = "",
        number: int = 0,
        rho: float = 0.0,
        clip: float | None = None,
        decay: float = 0.0,
        pull: tuple[float, list[Tensor]] | None = None,
    ) -> None:
        moving = [p for name, p in self.model.named_parameters() if name.startswith(part)]
        optimizer = torch.optim.SGD(moving, lr=lr * 0.9**number, momentum=0.9, weight_decay=decay)
        for rows in self.batches(phase, steps, number):
            self.gradient(moving, rows)
            if rho:
                kept = [p.detach().clone() for p in moving]
                length = torch.cat([p.grad.reshape(-1) for p in moving]).norm()
                with torch.no_grad():
                    for p in moving:
                        p.add_(p.grad, alpha=rho / length.item())
                self.gradient(moving, rows)
                with torch.no_grad():
                    for p, value in zip(moving, kept, strict=True):
                        p.copy_(value)
            if pull is not None:
                with torch.no_grad():
                    for p, towards in zip(moving, pull[1], strict=True):
                        p.grad.add_(p - towards, alpha=pull[0])
            if clip is not None:
                self.norms.append(float(torch.nn.utils.clip_grad_norm_(moving, clip)))
            optimizer.step()

    def gradient(self, moving: list[Any], rows: Tensor) -> None:
        self.model.zero_grad()
        cross_entropy(self.model(self.x[rows]), self.y[rows]).backward(inputs=moving)


def assert_close(ours: TorchLearner, plain: Plain) -> None:
    for name, value in plain.model.state_dict().items():
        torch.testing.assert_close(ours.trainer.module.state_dict()[name].double(), value, rtol=0, atol=1e-5)


# local_steps.


@pytest.mark.parametrize("samples", [5, 16, 50, 200])
@pytest.mark.parametrize("steps", [1, 3, 7])
def test_local_steps_are_so_many_minibatches_whatever_the_data(make_task: Make, samples: int, steps: int) -> None:
    task = make_task(RANK, samples=samples)
    plain, ours = Plain(task), learner(task, "dfedavgm", body_epochs=5, local_steps=steps)
    calls: list[int] = []
    task.model.register_forward_hook(lambda _, given, __: calls.append(len(given[0])))
    for number in range(2):
        calls.clear()
        ours.train(number)
        assert calls == [len(rows) for rows in plain.batches("model", steps)]
        assert len(calls) == steps
        plain.run("model", steps, 0.1, number=number)
        assert_close(ours, plain)


def test_a_second_pass_is_shuffled_anew(make_task: Make) -> None:
    task = make_task(RANK, samples=50)  # four minibatches a pass
    seen: list[Tensor] = []
    ours = learner(task, "dfedavgm", local_steps=10)
    task.model.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    ours.train(0)
    passes = [torch.cat(seen[:4]), torch.cat(seen[4:8])]
    for one in passes:
        torch.testing.assert_close(one.sort(dim=0).values, task.train.tensors[0].sort(dim=0).values, rtol=0, atol=0)
    assert not torch.equal(passes[0], passes[1])
    assert not torch.equal(seen[8], seen[4])


def test_other_phases_are_scaled_by_their_epochs_and_rounded_up(make_task: Make) -> None:
    task = make_task(RANK)
    plain, ours = Plain(task), learner(task, "dfedmdc", body_epochs=3, head_epochs=2, local_steps=7)
    ours.train(0)
    plain.run("head", math.ceil(7 * 2 / 3), 0.2, part="fc")
    plain.run("body", 7, 0.1, part="body")
    assert_close(ours, plain)

    def minibatches(algorithm: str, *, finish: bool = False, **changes: Any) -> int:
        task = make_task(RANK)
        ours = learner(task, algorithm, body_epochs=2, local_steps=7, **changes)
        calls: list[None] = []
        task.model.register_forward_hook(lambda *_: calls.append(None))
        ours.finish(0) if finish else ours.train(0)
        return len(calls)

    assert minibatches("fedbabu", finish=True, finetune_epochs=3) == 11
    assert minibatches("ditto") == 7 + 7
    assert minibatches("fedrep", head_epochs=10) == 35 + 7
    assert minibatches("dfedsmdc", head_epochs=1, sam="both") == 2 * (4 + 7)
    assert minibatches("dis-pfl") == 7 + 1
    assert minibatches("fedrod") == 7


def test_the_loss_is_of_the_last_pass_or_of_all_steps_where_there_are_fewer(make_task: Make) -> None:
    """With a learning rate too small to matter, each minibatch has the loss that the model has on it now."""
    for steps, counted in ((3, slice(0, 3)), (10, slice(6, 10))):
        task = make_task(RANK, samples=50)
        plain = Plain(task)
        rows = torch.cat(list(plain.batches("model", steps))[counted])
        expected = cross_entropy(plain.model(plain.x[rows]), plain.y[rows]).item()
        found = learner(task, "dfedavgm", local_steps=steps, body_lr=1e-12).train(0)
        assert found == pytest.approx(expected, rel=1e-5)


# grad_clip.

CLIP = 0.6


def binds_sometimes(norms: list[float]) -> bool:
    return any(norm > 1.05 * CLIP for norm in norms) and any(norm < 0.95 * CLIP for norm in norms)


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize(("algorithm", "rho"), [("dfedavgm", 0.0), ("dfedsam", 0.3)])
def test_grad_clip_is_pytorchs_on_the_gradient_of_the_step(
    make_task: Make, algorithm: str, rho: float, decay: float
) -> None:
    task = make_task(RANK)
    plain = Plain(task)
    ours = learner(task, algorithm, body_epochs=2, grad_clip=CLIP, rho=rho, weight_decay=decay)
    for number in range(2):
        ours.train(number)
        plain.run("model", 8, 0.1, number=number, rho=rho, clip=CLIP, decay=decay)
    assert binds_sometimes(plain.norms)
    assert_close(ours, plain)


def test_grad_clip_is_of_each_phases_own_parameters(make_task: Make) -> None:
    task = make_task(RANK)
    plain, ours = Plain(task), learner(task, "dfedmdc", body_epochs=2, head_epochs=2, grad_clip=CLIP)
    ours.train(0)
    plain.run("head", 8, 0.2, part="fc", clip=CLIP)
    plain.run("body", 8, 0.1, part="body", clip=CLIP)
    assert binds_sometimes(plain.norms)
    assert_close(ours, plain)


def test_dittos_pull_is_clipped_with_the_gradient(make_task: Make) -> None:
    task = make_task(RANK)
    shared, personal = Plain(task), Plain(task)
    ours = learner(task, "ditto", body_epochs=2, grad_clip=CLIP, ditto_lambda=2.0)
    for number in range(2):
        received = [p.detach().clone() for p in shared.model.parameters()]
        shared.run("model", 8, 0.1, number=number, clip=CLIP)
        personal.run("personal", 8, 0.1, number=number, clip=CLIP, pull=(2.0, received))
        ours.train(number)
    assert binds_sometimes(personal.norms)
    assert_close(ours, shared)
    own = ours.algorithm.predictor(ours.trainer)
    assert own is not None
    expected = torch.cat([p.detach().reshape(-1) for p in personal.model.parameters()])
    torch.testing.assert_close(own.double(), expected, rtol=0, atol=1e-5)


def test_fedrod_clips_generic_and_personal_gradients_each_on_its_own(make_task: Make) -> None:
    task = make_task(RANK)
    plain, ours = Plain(task), learner(task, "fedrod", body_epochs=2, grad_clip=CLIP)
    own = copy.deepcopy(plain.model.fc)
    prior = torch.bincount(plain.y, minlength=3).double().log()
    generic = torch.optim.SGD(plain.model.parameters(), lr=0.1, momentum=0.9)
    personal = torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.9)
    norms: list[float] = []
    for rows in plain.batches("model", 8):
        features = plain.model.body(plain.x[rows])
        logits = plain.model.fc(features)
        generic.zero_grad()
        personal.zero_grad()
        cross_entropy(logits + prior, plain.y[rows]).backward()
        cross_entropy(logits.detach() + own(features.detach()), plain.y[rows]).backward()
        for part, optimizer in ((plain.model, generic), (own, personal)):
            norms.append(float(torch.nn.utils.clip_grad_norm_(part.parameters(), CLIP)))
            optimizer.step()
    ours.train(0)
    assert binds_sometimes(norms[::2])
    assert any(norm > 1.05 * CLIP for norm in norms[1::2])
    assert_close(ours, plain)
    for name, value in own.state_dict().items():
        torch.testing.assert_close(ours.algorithm._personal.now()[name].double(), value, rtol=0, atol=1e-5)


def test_a_clip_that_is_never_reached_changes_nothing_but_rounding(make_task: Make) -> None:
    bodies = []
    for clip in (None, 1e9):
        ours = learner(make_task(RANK), "dfedsmdc", grad_clip=clip)
        ours.train(0)
        bodies.append(ours.trainer.model.data.clone())
    assert torch.equal(bodies[0], bodies[1])


# What it costs.


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [(name, {}) for name in ALGORITHMS] + [("dfedsmdc", {"sam": sam}) for sam in ("head", "both")],
)
def test_gradients_are_counted_as_foretold(make_task: Make, algorithm: str, changes: dict[str, Any]) -> None:
    """As many gradients as samples went forward through the model, and as `Algorithm.gradients` says."""
    task = make_task(RANK, samples=50)
    ours = learner(task, algorithm, body_epochs=3, head_epochs=2, **changes)
    forward: list[int] = []
    task.model.register_forward_hook(lambda _, given, __: forward.append(len(given[0])))
    foretold = ours.algorithm.gradients(ours.trainer.hyperparameters) * 50
    assert ours.gradients == 0
    for number in range(2):
        ours.train(number)
        # dis-pfl looks at a minibatch more to choose its mask.
        extra = 16 if algorithm == "dis-pfl" else 0
        assert ours.gradients == sum(forward) == (number + 1) * (foretold + extra)


OPTIONS: dict[str, Any] = {
    "head_lr": 0.01, "head_epochs": 3, "rho": 0.4, "sam": "both", "finetune_epochs": 2, "ditto_lambda": 3.0,
    "sparsity": 0.3, "prune_rate": 0.1,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_its_settings_are_those_that_matter_to_an_algorithm(make_task: Make, algorithm: str) -> None:
    def outcome(**changes: Any) -> tuple[Tensor, float]:
        ours = learner(make_task(RANK, samples=30), algorithm, body_epochs=1, **changes)
        ours.train(0)
        ours.release(0)
        ours.mix({}, {RANK: 1.0}) if ours.shares else None
        ours.finish(0)
        return ours.trainer.model.data.clone(), ours.evaluate().test_loss

    model, loss = outcome()
    matter = set()
    for name, value in OPTIONS.items():
        other, other_loss = outcome(**{name: value})
        if not torch.equal(other, model) or other_loss != loss:
            matter.add(name)
    assert matter == set(find_algorithm(algorithm).settings())


def test_an_interrupted_finish_has_changed_nothing(make_task: Make) -> None:
    ours = learner(make_task(RANK), "fedbabu")
    ours.train(0)
    ours.release(0)
    ours.mix({}, {RANK: 1.0})
    before, found = ours.trainer.model.data.clone(), ours.evaluate()
    calls: list[None] = []

    def third(*_: Any) -> None:
        calls.append(None)
        if len(calls) == 3:
            ours.interrupt()

    hook = ours.trainer.module.register_forward_hook(third)
    with pytest.raises(Interrupted):
        ours.finish(0)
    hook.remove()
    assert len(calls) == 3
    assert torch.equal(ours.trainer.model.data, before)
    assert ours.evaluate() == found
