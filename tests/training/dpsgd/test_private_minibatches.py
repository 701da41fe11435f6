"""Private minibatches: training with privacy at sample level, against computations of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpeer.exceptions import AlgorithmError, Interrupted
from dpeer.privacy import Charge
from dpeer.privacy.accounting import total_epsilon
from dpeer.privacy.guarantee import Phase
from dpeer.training import Algorithm, Task, Trainer
from dpeer.training.split import Split
from tests.error_texts import refused
from tests.training.dp_learners import sample_terms, sampled
from tests.training.small import BodyOnly, mix, small_task

ALMOST_NONE = 1e-9
"""A noise multiplier with which steps are what they are without noise, but for the rounding to its grid."""


def clipped_mean(model: nn.Module, task: Task, names: list[str], clip_norm: float, divisor: float) -> dict[str, Any]:
    """The sum of the clipped gradients of single examples over a number: one backward pass for each example."""
    total = {name: np.zeros(parameter.shape) for name, parameter in model.named_parameters() if name in names}
    parameters = {name: parameter for name, parameter in model.named_parameters() if name in names}
    for inputs, target in task.train:
        loss = cross_entropy(model(inputs[None]), target[None])
        found = torch.autograd.grad(loss, list(parameters.values()))
        gradients = {name: one.double().numpy() for name, one in zip(parameters, found, strict=True)}
        norm = np.sqrt(sum((one**2).sum() for one in gradients.values()))
        limit = clip_norm * (1 - 2**-10)
        for name, one in gradients.items():
            total[name] += one * min(1.0, limit / norm)
    return {name: one / divisor for name, one in total.items()}


def values(task: Task) -> dict[str, Any]:
    return {name: parameter.detach().double().numpy().copy() for name, parameter in task.model.named_parameters()}


BODY, HEAD = ["body.0.weight", "body.0.bias"], ["fc.weight", "fc.bias"]


@pytest.mark.parametrize("head", ["joint", "alternate", "post"])
def test_a_step_of_every_record_is_the_clipped_mean_by_hand(head: str, tmp_path: Path) -> None:
    """dfedmdc with one step of head and body; the other way of the same round is written out here."""
    task, by_hand = small_task(samples=20), small_task(samples=20)
    hyper = {"body_lr": 0.3, "head_lr": 0.2, "momentum": 0.0}
    learner = sampled(task, tmp_path, rate=1.0, noise=ALMOST_NONE, clip_norm=0.5, units=16, head=head, hyper=hyper)
    model, expected = by_hand.model, values(by_hand)

    def step(names: list[str], rates: dict[str, float]) -> None:
        found = clipped_mean(model, by_hand, names, 0.5, 16.0)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in names:
                    expected[name] = expected[name] - rates[name] * found[name]
                    parameter.copy_(torch.from_numpy(expected[name]))

    rates = dict.fromkeys(BODY, 0.3) | dict.fromkeys(HEAD, 0.2)
    for group in {"joint": [BODY + HEAD], "alternate": [HEAD, BODY]}.get(head, [BODY]):
        step(group, rates)
    learner.train(0)
    for name, found in values(task).items():
        assert np.allclose(found, expected[name], atol=2e-6), name
    charged = learner.session.ledger.charges
    assert sum(charge.steps for charge in charged) == {"alternate": 2}.get(head, 1)


@pytest.mark.slow
def test_steps_are_as_many_as_passes_need_and_all_of_them_are_charged(tmp_path: Path) -> None:
    hyper = {"body_epochs": 3, "head_epochs": 2}
    for head, expected in (("joint", 30), ("alternate", 20 + 30), ("post", 30)):
        learner = sampled(small_task(), tmp_path / head, rate=0.1, head=head, hyper=hyper)
        assert sum(phase.steps for phase in learner.session.guarantee.phases) == expected
        for number in range(2):
            learner.train(number)
            learner.release(number)
            assert learner.figures.steps == learner.figures.steps_asked
            assert sum(learner.figures.steps) == expected
        assert learner.session.ledger.steps == learner.privacy["steps"] == 2 * expected
        assert {charge.noise_multiplier for charge in learner.session.ledger.charges} == {1.0}


@pytest.mark.parametrize(("ascent", "noise"), [("previous", 2.0), ("same-batch", 2.0 / 2**0.5)])
def test_a_second_gradient_on_a_batch_is_one_step_with_less_noise(ascent: str, noise: float, tmp_path: Path) -> None:
    learner = sampled(small_task(), tmp_path, "dfedsmdc", noise=2.0, ascent=ascent, head="alternate")
    learner.train(0)
    assert learner.session.ledger.charges == (Charge(0.5, 2.0, 2), Charge(0.5, noise, 2))


def test_sam_climbs_along_the_gradient_of_the_step_before(tmp_path: Path) -> None:
    """Two steps on all records, of the body alone: the second gradient is taken at w + rho g / ||g||."""
    task, by_hand = small_task(samples=20), small_task(samples=20)
    how = {"units": 20, "head": "post"}
    hyper = {"rho": 0.7, "body_lr": 0.5, "momentum": 0.0, "body_epochs": 2}
    learner = sampled(task, tmp_path, "dfedsmdc", rate=1.0, noise=ALMOST_NONE, hyper=hyper, **how)
    learner.train(0)
    start = values(by_hand)
    first = clipped_mean(by_hand.model, by_hand, BODY, 1.0, 20.0)
    length = np.sqrt(sum((one**2).sum() for one in first.values()))
    after = {name: start[name] - 0.5 * first[name] for name in BODY}
    with torch.no_grad():
        for name, parameter in by_hand.model.named_parameters():
            if name in BODY:
                parameter.copy_(torch.from_numpy(after[name] + 0.7 * first[name] / length))
    second = clipped_mean(by_hand.model, by_hand, BODY, 1.0, 20.0)
    for name in BODY:
        assert np.allclose(values(task)[name], after[name] - 0.5 * second[name], atol=3e-6)


def test_when_the_budget_ends_the_last_body_is_sent_again(tmp_path: Path) -> None:
    learner = sampled(small_task(), tmp_path, noise=3.0, budget=2.0, rounds=9)
    fits = learner.session.rounds
    assert 0 < fits < 9
    sent, message = [], []
    for number in range(fits + 2):
        learner.train(number)
        sent.append(b"".join(bytes(buffer) for buffer in learner.release(number) or ()))
        mix(learner, {}, {0: 1.0})
        message.append(learner.privacy)
    assert len({*sent[:fits]}) == fits
    assert sent[fits - 1 :] == [sent[fits - 1]] * 3
    assert [one["sent_again"] for one in message] == [False] * fits + [True] * 2
    assert message[fits - 1]["epsilon"] == message[-1]["epsilon"] <= 2.0
    assert learner.session.epsilon(1) > 2.0
    assert learner.session.ledger.steps == 2 * fits


def test_a_resumed_peer_pays_again_and_never_goes_beyond_its_budget(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    learner = sampled(small_task(), tmp_path / "p", noise=3.0, budget=3.0, rounds=20)
    fits = learner.session.rounds
    for number in range(2):
        learner.train(number)
        learner.release(number)
        mix(learner, {}, {0: 1.0})
    learner.save(folder)
    learner.train(2)  # and is killed
    again = sampled(small_task(), tmp_path / "p", noise=3.0, budget=3.0, rounds=20, resume=True)
    again.load(folder)
    assert again.session.ledger.steps == 6
    assert again.session.rounds == fits - 3
    for number in range(2, fits + 2):
        again.train(number)
    assert again.session.ledger.steps == 2 * fits


def test_a_head_that_is_trained_without_noise_feeds_no_body_any_more(tmp_path: Path) -> None:
    """With post the head goes on when the budget has ended; a larger budget later does not bring the body back."""
    how: dict[str, Any] = {"rounds": 9, "head": "post", "hyper": {"finish": "head:1"}}
    learner = sampled(small_task(), tmp_path / "p", noise=3.0, budget=2.0, **how)
    head, fits = learner.trainer.head, learner.session.rounds
    first = head.data.clone()
    for number in range(fits + 1):
        learner.train(number)
        learner.release(number)
    assert torch.equal(head.data, first)
    learner.train(fits + 1)
    assert not torch.equal(head.data, first)
    body = learner.body
    again = sampled(small_task(), tmp_path / "p", noise=3.0, budget=50.0, resume=True, **how)
    assert again.session.ended
    before = again.body
    again.train(fits + 2)
    assert torch.equal(again.body, before)
    assert again.session.ledger.steps == learner.session.ledger.steps
    assert torch.equal(learner.body, body)


class Twice(Algorithm):
    """Takes two gradients on a batch, and states that if it is honest."""

    shares, looks = "body", 2

    def train(self, peer: Any) -> None:
        def rule(peer: Any, part: Any, batch: Any) -> Any:
            peer.gradient(part, batch)
            return peer.gradient(part, batch)

        rule.looks = self.looks
        peer.fit(peer.body, epochs=1, lr=0.1, gradient=rule)


def test_an_own_rule_that_states_two_gradients_is_charged_for_two(tmp_path: Path) -> None:
    honest = sampled(small_task(), tmp_path / "c", Twice, rate=1.0, noise=4.0)
    assert [(phase.part, phase.steps, phase.looks) for phase in honest.session.guarantee.phases] == [("body", 1, 2)]
    honest.train(0)
    assert honest.session.ledger.charges == (Charge(1.0, 4.0 / 2**0.5, 1),)
    with refused(AlgorithmError, "this one is not charged", "`looks`"):
        sampled(small_task(), tmp_path / "d", type("Greedy", (Twice,), {"looks": 1}), rate=1.0).train(0)


class Weighing(Algorithm):
    """Steps by what it could learn of a batch."""

    shares = "body"

    def train(self, peer: Any) -> None:
        def rule(peer: Any, part: Any, batch: Any) -> Any:
            loss = peer.gradient(part, batch)
            self.seen.append((float(loss), batch.size, batch.inputs, batch.targets, batch.units))
            return loss

        self.seen: list[Any] = []
        peer.fit(peer.body, epochs=1, lr=0.1, gradient=rule)


def test_an_own_algorithm_learns_nothing_of_a_batch(tmp_path: Path) -> None:
    learner = sampled(small_task(), tmp_path, Weighing, rate=0.5)
    loss = learner.train(0)
    assert loss is not None
    assert loss > 0.1, "the peer's own files have it"
    assert {*learner.algorithm.seen} == {(0.0, 0, None, None, None)}


class Asking(Algorithm):
    """Makes its steps as long as a figure of the data says."""

    shares = "body"

    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Options:
        figure: str = ""
        when: str = "train"

    def start(self, peer: Any) -> None:
        self.found: Any = getattr(peer, self.options.figure) if self.options.when == "start" else None

    def train(self, peer: Any) -> None:
        peer.fit(peer.body, epochs=1, lr=0.1)
        if self.options.when == "train":
            peer.fit(peer.body, epochs=1, lr=0.001 * (getattr(peer, self.options.figure)))


@pytest.mark.parametrize("when", ["start", "train"])
@pytest.mark.parametrize("figure", ["loss", "gradients", "num_samples"])
def test_an_own_algorithm_is_not_told_figures_of_the_data(figure: str, when: str, tmp_path: Path) -> None:
    options = {"figure": figure, "when": when}
    with pytest.raises(AlgorithmError):
        sampled(small_task(), tmp_path, Asking, options=options)


def test_the_peers_own_files_have_these_figures(tmp_path: Path) -> None:
    learner = sampled(small_task(samples=20), tmp_path, rate=1.0, groups=np.arange(20) // 4, head="post")
    loss = learner.train(0)
    assert loss is not None
    assert 0.5 < loss < 3.0
    assert (learner.about.samples, learner.trainer.figures.units, learner.figures.gradients) == (20, 5, 20)
    learner.release(0)
    assert learner.privacy["records_drawn"] == 5


@pytest.mark.slow
def test_one_kind_of_step_beyond_its_plan_leaves_less_for_the_other(tmp_path: Path) -> None:
    """A budget holds for all kinds together, whatever the order in which they are taken."""
    phases = (Phase("head", 10), Phase("body", 10, looks=2))
    session = sample_terms(tmp_path, rate=0.1, noise=2.0, budget=3.0, rounds=20).open(phases)
    many = session.guarantee.charge(6, 2)
    while total_epsilon([*session.ledger.charges, many], 1e-5) <= 3.0:
        assert session.charge(0, 6, looks=2) == 6
    dear = session.ledger.steps
    assert dear > 10 * session.rounds, "more than were planned, and none was refused"
    assert not session.ended
    while session.charge(1, 10):
        pass
    assert 2.5 < session.epsilon() <= 3.0
    assert session.ended
    assert session.ledger.steps - dear < 10 * session.rounds, "fewer than were planned"


class Counting(BodyOnly):
    """Sends a value beside the body, which each round changes."""

    def extras(self, split: Split) -> Mapping[str, int]:
        return {"rounds": 1}

    def train(self, peer: Trainer) -> None:
        super().train(peer)
        peer.extras["rounds"] += 1.0


def test_what_training_writes_to_extras_is_not_there_before_it(tmp_path: Path) -> None:
    """Steps are counted by an instance of the algorithm that trains nothing."""
    learner = sampled(small_task(), tmp_path, Counting)
    assert learner.trainer.extras["rounds"].tolist() == [0.0]
    learner.train(0)
    assert learner.trainer.extras["rounds"].tolist() == [1.0]


def test_the_loss_is_the_mean_over_the_last_pass(tmp_path: Path) -> None:
    peer = sampled(small_task(), tmp_path, rate=0.25).trainer
    noted: list[tuple[float, int]] = []
    weighed = peer.source.weighed

    def note(loss: Any, batch: Any) -> Any:
        found = weighed(loss, batch)
        noted.append((float(found[0]), found[1]))
        return found

    peer.source.weighed = note
    peer.fit(peer.body, epochs=2, lr=0.1)
    assert len(noted) == 8
    last = noted[4:]
    assert peer.figures.loss == pytest.approx(sum(a * b for a, b in last) / sum(b for _, b in last))


def test_batches_that_are_all_empty_have_no_loss(tmp_path: Path) -> None:
    learner = sampled(small_task(), tmp_path, rate=1e-12, hyper={"local_steps": 3})
    assert learner.train(0) is None


@pytest.mark.parametrize(
    ("rate", "h", "epochs", "expected"),
    [(0.3, {}, 1, 3), (0.9, {}, 0, 0), (0.1, {"local_steps": 7, "body_epochs": 5}, 1, 2)],
)
def test_how_many_steps(rate: float, h: dict[str, int], epochs: int, expected: int, tmp_path: Path) -> None:
    peer = sampled(small_task(), tmp_path, rate=rate, hyper=h).trainer
    assert peer.planned_steps(epochs) == expected == len([*peer.minibatches("body", epochs)])


def test_it_can_be_interrupted(tmp_path: Path) -> None:
    peer = sampled(small_task(), tmp_path).trainer
    steps = peer.minibatches("body", 5)
    next(steps)
    peer.interrupt()
    with pytest.raises(Interrupted):
        next(steps)
