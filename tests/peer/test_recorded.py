"""What somebody sees who records all bytes between two peers."""

import numpy as np
import pytest
from line_emulator import Line

from dpeer.topology import build
from tests.peer.conftest import VectorLearner

WIDTH = 20_000
SETTINGS = {"hospital_setting": "value-of-a-setting"}
WORDS = (b"hospital_setting", b"value-of-a-setting", b"body_lr", b"a_parameter", b"fingerprint", b"heartbeat", b"round")


def learner(rank):
    parameters = [{"name": "a_parameter", "shape": [WIDTH], "offset": 0}]
    one = VectorLearner(rank, width=WIDTH, manifest={"dtype": "float64", "count": WIDTH, "parameters": parameters})
    one.body = np.random.default_rng(rank).normal(size=WIDTH)
    return one


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tcp", "keys"])
async def test_with_keys_no_word_and_no_number_can_be_read(federation, kind):
    topology = build("ring", 2)
    change = {rank: {"learner": learner(rank), "fingerprint": SETTINGS} for rank in range(2)}
    ours = federation(kind, topology, rounds=3, change=change)
    addresses = await ours.listen()
    seen = bytearray(), bytearray()
    line = Line(int(addresses[1].rpartition(":")[2]), watch=lambda way, data: seen[way is line.back].extend(data))
    await line.listen()
    outcomes = await ours.serve({**addresses, 1: f"tcp://127.0.0.1:{line.port}"})
    await line.close()
    assert [one.completed_rounds for one in outcomes.values()] == [3, 3]
    recorded = b"\n".join(map(bytes, seen))
    released = [bytes(one) for rank in range(2) for one in ours.learners[rank].released.values()]
    assert len(released) == 6
    assert len(recorded) > 6 * 8 * WIDTH
    found = {word for word in WORDS if word in recorded}
    numbers = sum(body[at : at + 8] in recorded for body in released for at in range(0, 8 * WIDTH, 8 * WIDTH // 40))
    if kind == "tcp":
        assert found == {*WORDS}
        assert numbers == 6 * 40
    else:
        assert not found
        assert numbers == 0
