"""Nothing of a head leaves its peer: every message of a federation is recorded and searched.

Bodies and heads are read from the models by name: the product's own split into both is not used.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

import dpeer.training.building
from dpeer.simulation.network import FaultyTransport
from dpeer.training import TorchLearner
from dpeer.training.split import Split
from tests.thinning import only

pytestmark = pytest.mark.slow

SIZE, ROUNDS = 3, 3


@dataclass
class Run:
    """What peers gave to their transports, the bodies after each training, and the heads before and after."""

    messages: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    first: list[NDArray[np.float32]] = field(default_factory=list)
    heads: list[NDArray[np.float32]] = field(default_factory=list)

    def head_patterns(self) -> set[bytes]:
        """What would give a head away: two neighboring float32 values of it, or any one as a float64."""
        found = set()
        for head in self.first + self.heads:
            for kind, width in (("<f4", 2), (">f4", 2), ("<f8", 1), (">f8", 1)):
                data, step = head.astype(kind).tobytes(), 8 // width
                found |= {data[start : start + 8] for start in range(0, len(data) - 7, step)}
        return {window for window in found if any(window)}


@pytest.fixture
def recorded(task, simulate, monkeypatch):
    """Run a federation of an algorithm, and note all of it."""
    run = Run()
    send, train = FaultyTransport.send, TorchLearner.train

    def sent(transport, link, frames):
        run.messages.append(b"".join(map(bytes, frames)))
        return send(transport, link, frames)

    def trained(learner, number, **more):
        named = dict(learner.trainer.module.named_parameters())

        def values(part):
            return [named[f"{part}.{name}"].detach().numpy().ravel().copy() for name in ("weight", "bias")]

        run.first.extend(values("fc") if number == 0 else [])
        found = train(learner, number, **more)
        run.heads.extend(values("fc"))
        run.bodies.append(b"".join(one.tobytes() for one in values("body")))
        return found

    monkeypatch.setattr(FaultyTransport, "send", sent)
    monkeypatch.setattr(TorchLearner, "train", trained)

    def made(algorithm: str) -> Run:
        simulate(
            "--size", SIZE, "--topology", "ring", "--task", task, "--algorithm", algorithm, "--rounds", ROUNDS,
            "--body-epochs", 2, "--grad-clip", 0, "--batch-size", 8,
        )  # fmt: skip
        return run

    return made


@pytest.mark.parametrize("algorithm", only(["dfedsmdc", "fedopt"], ["dfedmdc", "dfedsmdc", "fedper", "fedopt"]))
def test_every_body_is_sent_and_no_value_of_any_head(algorithm, recorded):
    run = recorded(algorithm)
    assert len(set(run.bodies)) == SIZE * ROUNDS
    for body in run.bodies:
        assert sum(body in message for message in run.messages) == 2, "to each neighbor"
    patterns = run.head_patterns()
    assert len(patterns) > SIZE * ROUNDS * 3 * 12
    assert not [window for window in patterns if any(window in message for message in run.messages)]
    # In the little that is not body, not even a single value is found (in a body four bytes may agree by chance).
    rest = run.messages
    for body in run.bodies:
        rest = [message.replace(body, b"|") for message in rest]
    assert 0 < sum(map(len, rest)) < 20_000
    singles = {value.tobytes() for head in run.first + run.heads for value in head if value}
    assert not [value for value in singles if any(value in message for message in rest)]


def test_the_search_finds_the_heads_of_a_build_made_to_send_them(recorded, monkeypatch):
    """The whole model becomes the body, behind the algorithm's back."""

    def split(model, head, shares, algorithm):
        return Split(body=list(model.named_parameters()), head=[])

    monkeypatch.setattr(dpeer.training.building, "split", split)
    run = recorded("dfedmdc")
    for body in run.bodies:
        assert sum(body in message for message in run.messages) == 2
    for head in run.heads:
        windows = [head[start : start + 2].tobytes() for start in range(len(head) - 1)]
        assert all(any(window in message for message in run.messages) for window in windows)
