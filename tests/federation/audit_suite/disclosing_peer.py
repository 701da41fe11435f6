"""One peer whose steps are private at sample level, and which tells its neighbor the gradient of each step.

What is computed from private gradients may be seen by anybody, and the claim counts every step. So the peer's algorithm
trains as `dfedmdc` does (or `dfedsmdc`), and sends each gradient beside the body: more than any of dpeer's algorithms
says, and no more than the claim covers. All else is the product's own: learner, sampler, clipping, noise, ledger,
release, mixing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.privacy import Charge, PeerData, PrivacyConfig, SampleGuarantee, SampleSession
from dpeer.privacy.settings import PrivacySettings
from dpeer.training import Algorithm, Hyperparameters, Task, TorchLearner, build_learner, sam
from dpeer.training.flat import Flat
from dpeer.training.minibatches import Batch
from dpeer.training.mixing.weighted_sum import weighted_sum
from dpeer.training.payload import encode, views
from dpeer.training.split import Split
from dpeer.training.trainer import Trainer
from tests.federation.audit_suite.canary import MEMORY, ROW, Array
from tests.federation.audit_suite.echo import BODY, HEAD
from tests.federation.audit_suite.records import WIDTH, Records

RATE = 0.05
"""The learning rate of body and head."""

_SEED = 0
_RHO = 0.1


class Told(Algorithm):
    """Head steps, then body steps; each gradient is told."""

    shares = "body"

    @dataclass(frozen=True)
    class Options:
        """How many gradients a round has, at most, and whether steps are SAM's."""

        most: int = 1
        climbs: bool = False

    def extras(self, split: Split) -> Mapping[str, int]:
        """See `Algorithm.extras`: how many gradients there were, and they themselves."""
        return {"number": 1, "gradients": self.options.most * WIDTH}

    def train(self, peer: Trainer) -> None:
        """See `Algorithm.train`."""
        h, number = peer.hyperparameters, 0
        rows = peer.extras["gradients"].view(self.options.most, WIDTH)
        rows.zero_()

        def told(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
            nonlocal number
            loss = peer.gradient(part, batch)
            if number < len(rows):
                rows[number, BODY if part is peer.head else 0 : BODY if part is peer.body else WIDTH] = part.grad
            number += 1
            return loss

        gradient = sam(_RHO, told) if self.options.climbs else told
        peer.fit(peer.head, epochs=h.head_epochs, lr=h.head_lr, gradient=gradient)
        peer.fit(peer.body, epochs=h.body_epochs, lr=h.body_lr, gradient=gradient)
        peer.extras["number"].fill_(number)


@dataclass(frozen=True)
class Setting:
    """The mechanism that is attacked.

    Attributes:
        guarantee: The guarantee that is claimed.
        units: N, how many records there are nominally.
        looks: How many gradients each step takes of its batch: 2 with SAM's on the same batch, else 1.
        microbatch: How many records' gradients are in memory at a time.
    """

    guarantee: SampleGuarantee
    units: int = 4
    looks: int = 1
    microbatch: int = 64

    @property
    def planned(self) -> tuple[str, ...]:
        """The part that each gradient of a round is of, in order."""
        g = self.guarantee
        body = "model" if g.head == "joint" else "body"
        return ("head",) * (g.head_steps * self.looks) + (body,) * (g.steps * self.looks)

    @property
    def charge(self) -> Charge:
        """What a step has to be charged for, as `dpeer.privacy.sample_level` has it."""
        g = self.guarantee
        return Charge(g.sampling_rate, g.noise_multiplier / self.looks**0.5, 1)


COLUMNS = {"head": slice(BODY, WIDTH), "body": slice(0, BODY), "model": slice(0, WIDTH)}
"""Where the values of a part lie in a gradient."""


@dataclass(frozen=True)
class View:
    """What the neighbor has of the runs of one peer, and the peer's own ledger.

    Attributes:
        released: Each gradient as it was sent, shape (runs, gradients, WIDTH), 0 where a gradient has no values.
        sums: The same as noised sums over the clip norm.
        told: How many gradients there were in each round, shape (runs, rounds).
        strayed: Bodies less those that a neighbor computes from the gradients, any shape.
        charges: What each run was charged for.
        epsilon: The epsilon that the peer says it has spent after its first run; None where it was not asked.
    """

    released: NDArray[np.float32]
    sums: Array
    told: NDArray[np.int64]
    strayed: Array
    charges: Sequence[Sequence[Charge]]
    epsilon: float | None


def learner(setting: Setting, records: Records, task: Task, folder: Path, rounds: int) -> TorchLearner:
    """The peer that is attacked, with its ledger in a folder; the task is that of the records."""
    g = setting.guarantee
    climbs = setting.looks == 2
    h = Hyperparameters(
        body_epochs=g.steps, head_epochs=max(1, g.head_steps), local_steps=g.steps, body_lr=RATE, head_lr=RATE,
        momentum=0.0, optimizer="sgd", weight_decay=0.0, lr_decay=1.0, grad_clip=None,
        finish="none", rounds=rounds,
    )  # fmt: skip

    private = PrivacySettings(
        privacy="sample", noise_multiplier=g.noise_multiplier, clip_norm=g.clip_norm, delta=g.delta,
        sampling_rate=g.sampling_rate, records=setting.units, dp_head=g.head,
        dp_sam="same-batch" if climbs else "previous", microbatch=setting.microbatch,
        privacy_unit="record" if records.groups is None else "group",
    )  # fmt: skip
    data = PeerData(records=setting.units, groups=records.groups)
    session = SampleSession(PrivacyConfig(private, rounds=rounds), folder, data)
    options = {"most": len(setting.planned), "climbs": climbs}
    return build_learner(task, Told, h, rank=0, seed=_SEED, session=session, options=options)


def view(setting: Setting, records: Records, rounds: int, runs: int = 1, *, ask: bool = False) -> View:
    """Have one peer make runs, one after the other, with draws and noise of its own.

    What a run shows does not depend on the runs before it, but for the values that body and head begin it with; where
    the records have nothing at the ear, gradients do not depend on them.
    """
    parts = setting.planned
    released = np.zeros((runs, rounds, len(parts), WIDTH), dtype=np.float32)
    told, strayed = np.zeros((runs, rounds), dtype=np.int64), np.zeros((runs, rounds, 2, BODY))
    charges: list[Sequence[Charge]] = []
    expected: float | None = None
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="dpeer-audit-", dir=place) as folder:
        victim = learner(setting, records, records.task(), Path(folder), rounds * runs)
        session = victim.session
        assert isinstance(session, SampleSession)
        base = torch.zeros(victim.shared_values)
        for run in range(runs):
            before = len(session.ledger.charges)
            for number in range(rounds):
                strayed[run, number, 0] = (victim.body - base[-BODY:]).double().numpy()
                victim.train(run * rounds + number)
                message, own = victim.release(run * rounds + number), [encode(base)]
                assert message is not None
                heard, mine = _values(message, base.numel()), _values(own, base.numel())
                told[run, number], rows = int(heard[0]), heard[1:-BODY].view(len(parts), WIDTH)
                released[run, number] = rows.numpy()
                stepped = base[-BODY:].clone()
                for part, row in zip(parts, rows, strict=True):
                    if part != "head" and setting.looks == 1:
                        stepped.add_(row[:BODY], alpha=-RATE)
                if setting.looks == 1:
                    strayed[run, number, 1] = (heard[-BODY:] - stepped).double().numpy()
                victim.mix({1: own}, ROW)
                base = torch.empty_like(base)
                weighted_sum(base, [([heard], ROW[0]), ([mine], ROW[1])])
            charges.append(session.ledger.charges[before:])
            if ask and run == 0:
                spent = victim.privacy
                assert spent is not None
                expected = float(spent["epsilon"])
    g = setting.guarantee
    flat = released.reshape(runs, rounds * len(parts), WIDTH)
    return View(
        flat,
        -flat.astype(np.float64) * (g.sampling_rate * setting.units / g.clip_norm),
        told,
        strayed,
        charges,
        expected,
    )


def after_the_end(setting: Setting, records: Records) -> tuple[bool, bool]:
    """What a peer does when its budget has ended."""
    task = records.task()
    with tempfile.TemporaryDirectory(prefix="dpeer-audit-") as folder:
        victim = learner(setting, records, task, Path(folder), 2)
        session = victim.session
        assert isinstance(session, SampleSession)
        sent, heads = [], []
        for number in range(2):
            victim.train(number)
            sent.append(_values(victim.release(number), victim.shared_values).clone())
            heads.append(task.model.get_parameter("head.weight").detach().clone())
            victim.mix({1: [encode(torch.zeros(victim.shared_values))]}, ROW)
            session.end(number)
    mixed = torch.cat([ROW[0] * sent[0][:-BODY], sent[0][-BODY:]])  # with a neighbor's zeros
    return torch.equal(mixed, sent[1]), not torch.equal(*heads)


def _values(payload: object, count: int) -> Tensor:
    vectors = views(payload, count)
    assert vectors is not None
    return torch.cat(vectors)


assert HEAD + BODY == WIDTH
