"""Nothing of a head leaves its peer: every byte between real processes is recorded and searched.

All connections run through proxies in the test. What to look for is computed here, by learners driven by hand.
"""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dpeer.training.building
from dpeer.training import Hyperparameters, build_learner, load_task

pytestmark = pytest.mark.slow

SIZE, ROUNDS, SEED = 3, 3, 11

# Made to send the head: the whole model becomes the body, behind the algorithm's back.
LEAK = """
import dpeer.training.building
from dpeer.training.split import Split


def split(model, head, shares, algorithm):
    return Split(body=list(model.named_parameters()), head=[])


def install():
    dpeer.training.building.split = split


if __name__ == "__main__":
    from dpeer.cli import main

    install()
    main()
"""


class Proxy:
    """Accepts connections for a rank, joins them to the port it really listens at, and keeps all bytes."""

    def __init__(self, real_port: Callable[[], int]) -> None:
        self._real_port = real_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.streams: list[bytearray] = []
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._real_port()))
            except (OSError, AssertionError):
                return
            self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                self.streams.append(bytearray())
                threading.Thread(target=self._pump, args=(source, target, self.streams[-1]), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, stream: bytearray) -> None:
        try:
            while data := source.recv(65536):
                stream += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        for one in self._sockets:
            one.close()


@pytest.fixture
def proxies(tmp_path: Path, until: Callable[..., Any]) -> Iterator[list[Proxy]]:
    """One for each rank; a rank's port is the one that its log says it was given."""

    def port_of(rank: int) -> int:
        log = tmp_path / "run" / f"rank-{rank}" / "log.jsonl"
        found = until(lambda: log.exists() and re.search(r"listening at tcp://127\.0\.0\.1:(\d+)", log.read_text()), 40)
        return int(found[1])

    made = [Proxy(lambda rank=rank: port_of(rank)) for rank in range(SIZE)]
    yield made
    for proxy in made:
        proxy.close()


class Reference:
    """The same federation driven by hand: the bodies of each round, and all values that the heads ever have.

    Both are read from the models by name: what the product takes for the body is not asked.
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
                learner.mix({other: [sent[other]] for other in range(SIZE) if other != rank}, row)

    def _note_heads(self, models: list[Any]) -> None:
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


def values(model: Any, name: str) -> NDArray[np.float32]:
    found: NDArray[np.float32] = model.get_parameter(name).detach().numpy().ravel().copy()
    return found


@pytest.fixture
def recorded(task: str, dpeer: Callable[..., Any], proxies: list[Proxy], tmp_path: Path) -> Callable[..., list[bytes]]:
    """Run a federation of `dpeer start` processes; returns all bytes of each direction of each connection."""

    def run(algorithm: str, program: str | None = None) -> list[bytes]:
        ranks = "".join(
            f'[rank.{rank}]\nbind = "tcp://127.0.0.1:0"\naddress = "tcp://127.0.0.1:{proxy.port}"\n'
            for rank, proxy in enumerate(proxies)
        )
        (tmp_path / "dpeer.toml").write_text(
            f'size = {SIZE}\ntopology = "ring"\ntask = "{task}"\nalgorithm = "{algorithm}"\nrounds = {ROUNDS}\n'
            f'seed = {SEED}\nbody_epochs = 2\ngrad_clip = 0\nbatch_size = 8\nthreads = 1\nout = "run"\nwait = 40\n'
            + ranks
        )
        peers = [dpeer("start", "--rank", rank, program=program) for rank in range(SIZE)]
        for peer in peers:
            peer.succeed()
        streams = [bytes(stream) for proxy in proxies for stream in proxy.streams]
        # Every edge went through a proxy (the lower rank dials), and nothing that was counted is missing from the tap.
        assert [len(proxy.streams) for proxy in proxies] == [0, 2, 4]
        summaries = [
            json.loads((tmp_path / "run" / f"rank-{rank}" / "summary.json").read_text()) for rank in range(SIZE)
        ]
        assert sum(map(len, streams)) > sum(summary["bytes_sent"] for summary in summaries) > 0
        return streams

    return run


@pytest.mark.parametrize("algorithm", ["dfedmdc", "dfedsmdc", "fedper", "fedopt"])
def test_every_body_is_found_on_the_wire_and_no_value_of_any_head(
    algorithm: str, recorded: Callable[..., list[bytes]], tmp_path: Path
) -> None:
    streams = recorded(algorithm)
    reference = Reference(tmp_path, algorithm)
    assert len(set(reference.bodies)) == SIZE * ROUNDS
    for body in reference.bodies:
        assert sum(body in stream for stream in streams) == 2, "to each neighbor"  # twice if it asks again
    patterns = reference.head_patterns()
    assert len(patterns) > SIZE * ROUNDS * 3 * 12
    assert not [window for window in patterns if any(window in stream for stream in streams)]
    # In the little that is not body, not even a single value is found (in a body four bytes may agree by chance).
    rest = streams
    for body in reference.bodies:
        rest = [stream.replace(body, b"|") for stream in rest]
    assert 0 < sum(map(len, rest)) < 20_000
    singles = {value.tobytes() for head in reference.heads for value in head if value}
    assert not [value for value in singles if any(value in stream for stream in rest)]


def test_the_search_finds_the_heads_of_a_build_made_to_send_them(
    recorded: Callable[..., list[bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "leak.py").write_text(LEAK)
    streams = recorded("dfedmdc", program=str(tmp_path / "leak.py"))
    made: dict[str, Any] = {"__name__": "leak"}
    monkeypatch.setattr(dpeer.training.building, "split", dpeer.training.building.split)  # put back afterwards
    exec(LEAK, made)
    made["install"]()
    reference = Reference(tmp_path, "dfedmdc")
    for body in reference.bodies:
        assert sum(body in stream for stream in streams) == 2
    # The first heads are those from before the first round, which are never sent.
    for head in reference.heads[2 * SIZE :]:
        windows = [head[start : start + 2].tobytes() for start in range(len(head) - 1)]
        assert all(any(window in stream for stream in streams) for window in windows)
