"""Nothing of a head leaves its peer: every message of a federation is recorded and searched.

What to look for is computed here, by learners driven by hand.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import dpeer.training.building
from dpeer.simulation.network import FaultyTransport
from dpeer.training import Hyperparameters, build_learner, load_task
from dpeer.training.split import Split
from tests.thinning import only
from tests.training.small import mix

pytestmark = pytest.mark.slow

SIZE, ROUNDS, SEED = 3, 3, 11


class Reference:
    """The same federation driven by hand: the bodies of each round, and all values that the heads ever have.

    Both are read from the models by name: the product's own split into body and head is not used.
    """

    def __init__(self, folder: Path, algorithm: str) -> None:
        self.bodies: list[bytes] = []
        self.heads: list[NDArray[np.float32]] = []
        tasks = [load_task(str(folder / "small.py") + ":task", rank, SIZE, SEED) for rank in range(SIZE)]
        h = Hyperparameters(body_epochs=2, batch_size=8)
        learners = [build_learner(task, algorithm, h, rank=rank, seed=SEED) for rank, task in enumerate(tasks)]
        models = [task.model for task in tasks]
        self._note_heads(models)
        for number in range(ROUNDS):
            sent = []
            for learner, model in zip(learners, models, strict=True):
                learner.train(number)
                (payload,) = learner.release(number)
                sent.append(bytes(payload))
                self.bodies.append(b"".join(values(model, name).tobytes() for name in ("body.weight", "body.bias")))
            self._note_heads(models)
            row = dict.fromkeys(range(SIZE), 1 / 3)
            for rank, learner in enumerate(learners):
                mix(learner, {other: [sent[other]] for other in range(SIZE) if other != rank}, row)

    def _note_heads(self, models):
        for model in models:
            for name in ("fc.weight", "fc.bias"):
                self.heads.append(values(model, name))

    def head_patterns(self) -> set[bytes]:
        """What would give a head away: two neighboring float32 values of it, or any one as a float64."""
        found = set()
        for head in self.heads:
            for kind, width in (("<f4", 2), (">f4", 2), ("<f8", 1), (">f8", 1)):
                data, step = head.astype(kind).tobytes(), 8 // width
                found |= {data[start : start + 8] for start in range(0, len(data) - 7, step)}
        return {window for window in found if any(window)}


def values(model, name: str) -> NDArray[np.float32]:
    found: NDArray[np.float32] = model.get_parameter(name).detach().numpy().ravel().copy()
    return found


@pytest.fixture
def recorded(task, simulate, monkeypatch):
    """Run a federation; returns each message that any peer gave to its transport."""
    messages: list[bytes] = []
    send = FaultyTransport.send

    def listening(transport, link, frames):
        messages.append(b"".join(map(bytes, frames)))
        return send(transport, link, frames)

    def run(algorithm: str) -> list[bytes]:
        simulate(
            "--size", SIZE, "--topology", "ring", "--task", task, "--algorithm", algorithm, "--rounds", ROUNDS,
            "--seed", SEED, "--body-epochs", 2, "--grad-clip", 0, "--batch-size", 8,
        )  # fmt: skip
        return messages

    monkeypatch.setattr(FaultyTransport, "send", listening)
    return run


@pytest.mark.parametrize("algorithm", only(["dfedsmdc", "fedopt"], ["dfedmdc", "dfedsmdc", "fedper", "fedopt"]))
def test_every_body_is_sent_and_no_value_of_any_head(algorithm, recorded, tmp_path):
    messages = recorded(algorithm)
    reference = Reference(tmp_path, algorithm)
    assert len(set(reference.bodies)) == SIZE * ROUNDS
    for body in reference.bodies:
        assert sum(body in message for message in messages) == 2, "to each neighbor"
    patterns = reference.head_patterns()
    assert len(patterns) > SIZE * ROUNDS * 3 * 12
    assert not [window for window in patterns if any(window in message for message in messages)]
    # In the little that is not body, not even a single value is found (in a body four bytes may agree by chance).
    rest = messages
    for body in reference.bodies:
        rest = [message.replace(body, b"|") for message in rest]
    assert 0 < sum(map(len, rest)) < 20_000
    singles = {value.tobytes() for head in reference.heads for value in head if value}
    assert not [value for value in singles if any(value in message for message in rest)]


def test_the_search_finds_the_heads_of_a_build_made_to_send_them(recorded, monkeypatch, tmp_path):
    """The whole model becomes the body, behind the algorithm's back."""

    def split(model, head, shares, algorithm):
        return Split(body=list(model.named_parameters()), head=[])

    monkeypatch.setattr(dpeer.training.building, "split", split)
    messages = recorded("dfedmdc")
    reference = Reference(tmp_path, "dfedmdc")
    for body in reference.bodies:
        assert sum(body in message for message in messages) == 2
    # The first heads are those from before the first round, which are never sent.
    for head in reference.heads[2 * SIZE :]:
        windows = [head[start : start + 2].tobytes() for start in range(len(head) - 1)]
        assert all(any(window in message for message in messages) for window in windows)
