"""Outer steps against recursions in numpy: DiLoCo on a full graph, the mean and consensus on others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpeer.privacy import ClientSession, Guarantee, Ledger, Sparsifier
from dpeer.topology import TOPOLOGIES, ServerSampling, build
from dpeer.training import TorchLearner, build_learner
from dpeer.training.flat import Flat
from dpeer.training.mixing.outer import OuterStep
from dpeer.training.mixing.outer_setting import Outer, check_outer
from dpeer.training.mixing.outer_stability import ROUNDS as ROUNDS_PLAYED
from dpeer.training.mixing.outer_stability import left, shrinks, steadier
from tests.training.linear import (
    BODY,
    COUNT,
    DECAY,
    FULL,
    RING,
    SIZE,
    STEPS,
    Vector,
    begin,
    gradient,
    models,
    peers,
    task,
)

ROUNDS, LR = 6, 0.1
STEP = "nesterov:0.7:0.9"
Matrix = NDArray[np.float64]


def sgd(x: Vector, rank: int, number: int) -> Vector:
    for _ in range(STEPS):
        x = x - LR * DECAY**number * gradient(x, rank)
    return x


def weigh(matrix: Matrix, rank: int) -> Any:
    def row(ranks: Any) -> dict[int, float]:
        left = {other: float(matrix[rank, other]) for other in sorted(ranks)}
        return dict(sorted({**left, rank: 1.0 - sum(left.values())}.items()))

    return row


def play(learners: list[TorchLearner], matrix: Matrix = RING, numbers: range = range(ROUNDS)) -> None:
    """The round loop, by hand."""
    for number in numbers:
        sent = {}
        for rank, ours in enumerate(learners):
            ours.train(number)
            sent[rank] = ours.release(number)
        for rank, ours in enumerate(learners):
            near = [int(other) for other in np.flatnonzero(matrix[rank]) if other != rank]
            assert ours.mix_sound({other: sent[other] for other in near}, weigh(matrix, rank)) == {}


def gossip(matrix: Matrix, lr: float, momentum: float, rounds: int = ROUNDS) -> Matrix:
    """The bodies of all peers after the pseudo-code's rounds, in float64, by rank."""
    b, u = np.stack([begin()] * SIZE), np.zeros((SIZE, COUNT))
    for number in range(rounds):
        g = b - matrix @ np.stack([sgd(b[rank], rank, number) for rank in range(SIZE)])
        u = momentum * u + g
        b = b - lr * (g + momentum * u)
    return b


def diloco(lr: float, momentum: float) -> Vector:
    """Algorithm 1 of DiLoCo: one global model, and torch's own SGD with Nesterov's momentum outside."""
    theta = torch.nn.Parameter(torch.from_numpy(begin()))
    outer = torch.optim.SGD([theta], lr=lr, momentum=momentum, nesterov=momentum > 0)
    for number in range(ROUNDS):
        now = theta.detach().numpy().copy()
        changes = [now - sgd(now, rank, number) for rank in range(SIZE)]
        theta.grad = torch.from_numpy(np.mean(changes, axis=0))
        outer.step()
    return theta.detach().numpy()


@pytest.mark.parametrize(("lr", "momentum"), [(0.7, 0.9), (0.5, 0.0), (1.2, 0.4)])
def test_peers_of_a_full_graph_are_dilocos_server(lr: float, momentum: float) -> None:
    learners = peers("dfedavgm", outer=f"nesterov:{lr}:{momentum}")
    play(learners, FULL)
    for ours in models(learners):
        np.testing.assert_allclose(ours, diloco(lr, momentum), rtol=0, atol=2e-5)


def test_a_large_body_is_stepped_to_its_last_value() -> None:
    rng = np.random.default_rng(0)
    first, *mixes = (rng.standard_normal(150_001).astype(np.float32) for _ in range(4))
    body = Flat("body", [("w", torch.nn.Parameter(torch.from_numpy(first.copy())))])
    step = OuterStep(body, Outer(0.7, 0.9))
    b, u = first.astype(np.float64), np.zeros(len(first))
    for x in mixes:
        body.data.copy_(torch.from_numpy(x))
        step.mixed()
        u = 0.9 * u + (b - x)
        b = b - 0.7 * ((b - x) + 0.9 * u)
        np.testing.assert_allclose(body.data, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_bodies_follow_the_pseudo_code_on_a_ring(momentum: float) -> None:
    learners = peers("dfedavgm", outer=f"nesterov:0.7:{momentum}")
    play(learners)
    np.testing.assert_allclose(models(learners), gossip(RING, 0.7, momentum), rtol=0, atol=2e-5)


def test_rate_one_without_momentum_is_plain_gossip_to_the_bit() -> None:
    stepped, plain = peers("dfedmdc", outer="nesterov:1:0"), peers("dfedmdc")
    play(stepped)
    play(plain)
    np.testing.assert_array_equal(models(stepped), models(plain))
    assert stepped[0].outer is None


def test_the_mean_follows_the_outer_step_on_the_mean_change_on_any_graph() -> None:
    learners = peers("dfedavgm", outer=STEP)
    b, u = begin(), np.zeros(COUNT)
    trained: list[Vector] = []
    for ours in learners:
        noting(ours, trained)
    for number in range(ROUNDS - 1):
        play(learners, numbers=range(number, number + 1))
        g = b - np.mean(trained[-SIZE:], axis=0)
        u = 0.9 * u + g
        b = b - 0.7 * (g + 0.9 * u)
        np.testing.assert_allclose(np.mean(models(learners), axis=0), b, rtol=0, atol=3e-5)


def noting(ours: TorchLearner, trained: list[Vector]) -> None:
    """Have a peer's bodies noted when they are released."""
    release = ours.release

    def noted(number: int) -> Any:
        trained.append(ours.body.double().numpy())
        return release(number)

    ours.release = noted


@pytest.mark.parametrize("more", [{}, {"compress": "int4"}], ids=str)
def test_a_resumed_run_has_the_same_bits(more: dict[str, Any], tmp_path: Path) -> None:
    whole, first, second = (peers("dfedmdc", outer=STEP, **more) for _ in range(3))
    play(whole)
    play(first, RING, range(3))
    for rank, (before, after) in enumerate(zip(first, second, strict=True)):
        (tmp_path / str(rank)).mkdir()
        before.save(tmp_path / str(rank))
        after.load(tmp_path / str(rank))
    play(second, RING, range(3, ROUNDS))
    np.testing.assert_array_equal(models(second), models(whole))


def test_a_peer_that_adopts_counts_from_the_mean_and_has_no_velocity() -> None:
    learners = peers("dfedavgm", outer=STEP)
    play(learners, numbers=range(3))
    sent = [ours.release(3) for ours in learners]
    returner, mean = learners[0], np.mean([ours.body.double().numpy() for ours in learners[1:3]], axis=0)
    assert returner.outer is not None
    assert float(returner.outer.state()["velocity"].norm()) > 0
    returner.sit_out(3)
    returner.adopt(3, {1: sent[1], 2: sent[2]}, lambda ranks: dict.fromkeys(ranks, 0.5))
    np.testing.assert_allclose(returner.body, mean, rtol=0, atol=1e-6)
    state = returner.outer.state()
    assert list(state) == ["velocity"]  # the base is the body
    assert not state["velocity"].any()


def test_a_round_that_was_trained_and_not_mixed_counts_with_the_next(tmp_path: Path) -> None:
    ours, other = (peers("dfedavgm", outer="nesterov:0.5:0")[0] for _ in range(2))
    ours.train(0)  # its release was lost
    ours.save(tmp_path)
    other.load(tmp_path)
    for one in (ours, other):
        one.train(1)
        trained = one.body.double().numpy()
        one.release(1)
        one.mix_sound({}, weigh(np.eye(SIZE), 0))
        np.testing.assert_allclose(one.body, (begin() + trained) / 2, rtol=0, atol=1e-6)


def test_private_updates_count_from_what_the_outer_step_left(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "0", {}, resume=False)
    session = ClientSession(Guarantee(1e-7, 0.01, 1e-5), ledger, None, Sparsifier.parse(None))
    made = peers("dfedmdc", outer=STEP)[0]
    ours = build_learner(task(0, ("head",)), "dfedmdc", made.trainer.hyperparameters, rank=0, seed=0, session=session)
    base, velocity = begin()[:BODY], np.zeros(BODY)
    for number in range(3):
        ours.train(number)
        change = ours.body.double().numpy() - base
        assert np.linalg.norm(change) > 0.01
        payload = ours.release(number)
        assert payload is not None
        sent = np.frombuffer(payload[0], "<f4").astype(np.float64)
        np.testing.assert_allclose(sent, base + change * 0.01 / np.linalg.norm(change), rtol=0, atol=1e-5)
        ours.mix_sound({}, weigh(np.eye(SIZE), 0))
        g = base - sent
        velocity = 0.9 * velocity + g
        base = base - 0.7 * (g + 0.9 * velocity)
        np.testing.assert_allclose(ours.body, base, rtol=0, atol=1e-5)
        base = ours.body.double().numpy()


def test_all_take_the_step_of_a_servers_sample() -> None:
    """FedAvg with momentum on the server, of which the peers that are not drawn take the same step."""
    drawn = ServerSampling(build("full", SIZE, weights="uniform"), 0.5, 5)
    h = peers("dfedavgm", outer=STEP)[0].trainer.hyperparameters
    learners = [
        build_learner(task(r, ()), "dfedavgm", h, rank=r, seed=0, sampled_share=drawn.share) for r in range(SIZE)
    ]
    b, u = begin(), np.zeros(COUNT)
    for number in range(ROUNDS):
        sample = sorted(drawn.participants(number))
        sent: dict[int, Any] = {}
        for rank, ours in enumerate(learners):
            if rank in sample:
                ours.train(number)
                sent[rank] = ours.release(number)
            else:
                ours.sit_out(number)
        for rank, ours in enumerate(learners):
            row = drawn.at(number, rank).row
            ours.mix_sound({other: sent[other] for other in sent if other != rank}, row.restricted_to)
        g = b - np.mean([sgd(b, rank, number) for rank in sample], axis=0)
        u = 0.9 * u + g
        b = b - 0.7 * (g + 0.9 * u)
        for model in models(learners):
            np.testing.assert_allclose(model, b, rtol=0, atol=2e-5)


# -- the setting, and what peers disagree about ----------------------------------------------------------------------


def test_texts_that_mean_the_same_are_one() -> None:
    assert check_outer("nesterov:0.70:0.9") == "nesterov:0.7:0.9"
    assert check_outer("nesterov:1:0") == check_outer("none") == "none"


@pytest.mark.parametrize("text", ["nesterov", "nesterov:0.7", "nesterov:0:0.9", "nesterov:0.7:1", "sgd:1:0",
                                  "nesterov:nan:0.9", "nesterov:inf:0", "nesterov:0.7:0.9:1"])  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected none or nesterov|could not convert"):
        check_outer(text)


def matrices_of(name: str, size: int) -> list[Matrix]:
    topology = build(name, size, degree=2, fresh_neighbors=2, graph_seed=1)
    return [topology.mixing_at(number).sparse.toarray() for number in range(min(topology.period, ROUNDS_PLAYED))]


DIRECTED = {"exponential-directed", "one-peer-exponential", "fresh-directed"}


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "late"])
@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_what_peers_disagree_about_shrinks_on_built_in_graphs(name: str, size: int, late: bool) -> None:
    matrices = matrices_of(name, size)
    step = Outer(0.7, 0.7 if name in DIRECTED else 0.9)
    if name == "exponential-directed" and late:
        step = Outer(0.7, 0.5)
    assert shrinks(step, matrices)
    for kept in (1.0, 0.9, 0.5):
        lengths = left(step, matrices, kept=kept)
        assert lengths[-1] < 0.2 * max(lengths[:30])


def roots_of(matrix: Matrix, outer: Outer) -> NDArray[np.float64]:
    """The factors of a round without training as a matrix on all bodies and velocities, largest first."""
    size, eye = len(matrix), np.eye(len(matrix))
    b, u = (np.eye(size, 2 * size, size * number) for number in range(2))
    g = (eye - matrix) @ b
    velocity = outer.momentum * u + g
    after = b - outer.lr * (g + outer.momentum * velocity)
    return np.sort(np.abs(np.linalg.eigvals(np.vstack([after, velocity]))))[::-1]


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "late"])
@pytest.mark.parametrize("name", ["ring", "torus", "star", "exponential-directed", "grid"])
def test_played_rounds_agree_with_the_eigenvalues_of_a_round(name: str, late: bool) -> None:
    (matrix,) = matrices_of(name, 16)
    seen = set()
    for outer in (Outer(0.7, 0.9), Outer(1.0, 0.9), Outer(1.35, 0.9), Outer(2.2, 0.0), Outer(0.9, 0.5)):
        largest = roots_of(matrix, outer)
        grows = bool(largest[0] > 1 + 1e-9)
        if grows and largest[0] < 1.01:
            continue  # slower than what shrinks beside it
        assert shrinks(outer, [matrix]) != grows
        seen.add(grows)
    assert seen == {False, True}


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("name", ["ring", "torus", "star"])
def test_the_rate_at_which_peers_drift_apart_is_the_formulas(name: str, momentum: float) -> None:
    (matrix,) = matrices_of(name, 16)
    most = (2 + 2 * momentum) / ((1 + 2 * momentum) * (1 - np.linalg.eigvalsh(matrix)[0]))
    assert shrinks(Outer(0.98 * most, momentum), [matrix])
    assert not shrinks(Outer(1.05 * most, momentum), [matrix])


def test_a_smaller_momentum_is_the_most_that_holds() -> None:
    matrices = matrices_of("one-peer-exponential", 16)
    assert not shrinks(Outer(0.7, 0.9), matrices)
    found = steadier(Outer(0.7, 0.9), matrices)
    assert found == Outer(0.7, 0.8)
    assert steadier(Outer(4.0, 0.9), matrices) is None


def test_bodies_rest_as_far_apart_as_by_plain_gossip_where_data_differ() -> None:
    convex = {"lr_decay": 1.0, "weight_decay": 0.3}
    stepped, plain = peers("dfedavgm", outer="nesterov:0.7:0.8", **convex), peers("dfedavgm", **convex)
    apart = []
    for learners in (stepped, plain):
        play(learners, numbers=range(100))
        bodies = np.stack(models(learners))
        apart.append(float(np.linalg.norm(bodies - bodies.mean(axis=0))))
    assert apart[0] == pytest.approx(apart[1], rel=1e-3)
    assert apart[1] > 0.05  # each peer's data pull at it
