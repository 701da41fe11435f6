"""Rates and delays between checks: over emulated lines, beside running peers, and with words that cannot be."""

import asyncio
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation import line_speed, measured_lines
from dpeer.federation.findings import Findings
from dpeer.federation.line_check import check_lines
from dpeer.federation.line_speed import LineMeter, rate_of
from dpeer.peer.core import wire
from dpeer.peer.transport import Arrival, Sent
from dpeer.topology.transfer_time import LineSpeed
from tests.emulated_link import Line
from tests.federation.test_line_check import ENOUGH, Sites
from tests.peer.table import Table

MEGABYTE = 1e6


def test_the_rate_is_that_of_a_trains_second_half() -> None:
    """Eight parts: the first four take a second each, the others a tenth of one, by hand 4000 bits in 0.4 s."""
    times = [0.0, 1.0, 2.0, 3.0, 3.1, 3.2, 3.3, 3.4]
    assert rate_of([(at, 125) for at in times]) == pytest.approx(4 * 1000 / 0.4)
    assert math.isfinite(rate_of([(1.0, 125)] * 8)), "all at once"


async def measured(
    sites: Sites, rank: int, changed: Mapping[int, Mapping[str, Any]] | None = None
) -> tuple[dict[int, LineSpeed], str]:
    findings = Findings()
    found = await check_lines(findings, sites.starting(rank, changed), within=ENOUGH)
    return found, "\n".join(one.text for one in findings.all)


def over(line: Any, sites: Sites) -> list[tuple[dict[int, LineSpeed], str]]:
    async def both() -> Any:
        port = await line.listen()
        try:
            here = measured(sites, 0, {1: {"address": f"tcp://127.0.0.1:{port}"}})
            return await asyncio.gather(here, measured(sites, 1))
        finally:
            await line.close()

    return asyncio.run(both())


@pytest.mark.slow
@pytest.mark.parametrize("keys", [True, False])
def test_both_ends_learn_both_rates_and_the_delay(tmp_path: Path, keys: bool) -> None:
    sites = Sites(tmp_path, 2, keys=keys)
    line = Line(sites.ports[1], 0.02, 2 * MEGABYTE)
    line.back.uplink.bytes_per_second = MEGABYTE / 2
    (here, words), (there, _) = over(line, sites)
    assert here[1].sends == pytest.approx(16e6, rel=0.4)
    assert here[1].receives == pytest.approx(4e6, rel=0.4)
    assert 0.04 <= here[1].round_trip < 1
    assert there == {0: LineSpeed(here[1].receives, here[1].sends, here[1].round_trip)}
    assert "round trip 4" in words or "round trip 5" in words or keys is False


@pytest.mark.slow
def test_three_that_check_at_once_measure_one_line_after_the_other(tmp_path: Path) -> None:
    async def all_three(sites: Sites) -> Any:
        return await asyncio.gather(*(measured(sites, rank) for rank in range(3)))

    found = asyncio.run(all_three(Sites(tmp_path, 3)))
    assert [set(lines) for lines, _ in found] == [{1, 2}, {0, 2}, {0, 1}]
    for rank, (lines, _) in enumerate(found):
        for other, line in lines.items():
            assert line.sends == found[other][0][rank].receives


class Wires:
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, link: Any, frames: Any) -> Sent:
        self.sent.append((link, json.loads(bytes(frames[0])[2:])["say"]))
        return Sent.TAKEN


async def ended(meter: LineMeter, rank: int) -> None:
    task = meter._lines[rank].task
    assert task is not None
    await task


def probe(**word: Any) -> list[bytes]:
    return [wire.PROBE + json.dumps(word).encode()]


async def test_a_running_peer_gets_no_train() -> None:
    wires = Wires()
    meter = LineMeter(wires, 0, frozenset({1, 2}))
    meter.met(1, "out")
    await asyncio.sleep(0)
    assert wires.sent == [("out", "ask")]
    meter.came(Arrival("out", wire.encode(wire.Unknown(rank=1))), 1)
    meter.met(2)
    hello = wire.Hello(rank=2, next_round=0, fingerprint={}, manifest={}, digest="")
    meter.came(Arrival(b"in", wire.encode(hello)), 2)
    assert (meter.settled(1), meter.settled(2)) == (True, True)
    assert (meter.why(1), meter.why(2)) == (line_speed.RUNS, line_speed.RUNS)
    await meter.close()
    assert wires.sent == [("out", "ask")]


@pytest.mark.parametrize(
    "frames",
    [
        [wire.PROBE],
        [wire.PROBE + b"[]"],
        [wire.PROBE + b"{}"],
        [wire.PROBE + b"[" * 300],
        [wire.PROBE + b'{"rank": true, "say": "ask"}'],
        [wire.PROBE + b'{"rank": 1, "say": 5}'],
        probe(rank=7, say="ask"),
        probe(rank=2, say="ask"),
        probe(rank=1, say="ask", more="x" * 500),
        [wire.PROBE + b"\xff\xfe"],
        [b""],
        [b"junk"],
    ],
)
async def test_words_that_are_none_are_dropped(frames: list[bytes]) -> None:
    wires = Wires()
    meter = LineMeter(wires, 0, frozenset({1, 2}))
    assert meter.came(Arrival("in", frames), 1) is None
    assert wires.sent == []
    await meter.close()


@pytest.mark.parametrize("value", [-1, 0, 1e-300, 1e18, "fast", None, True, [1]])
async def test_a_figure_that_cannot_be_ends_the_measurement(value: Any) -> None:
    wires = Wires()
    meter = LineMeter(wires, 0, frozenset({1}))
    meter.met(1, "out")
    for word in ("ready", *["pong"] * line_speed.PINGS):
        meter.came(Arrival("out", probe(rank=1, say=word)), 1)
    meter.came(Arrival("out", probe(rank=1, say="got", seconds=1.0, rate=value)), 1)
    await ended(meter, 1)
    assert meter.found == {}
    assert (meter.why(1) or "").startswith("the other end gives rate")
    await meter.close()


async def test_a_second_neighbor_is_told_to_wait_and_comes_next() -> None:
    wires = Wires()
    meter = LineMeter(wires, 0, frozenset({1, 2}))
    meter.came(Arrival("one", probe(rank=1, say="ask")), 1)
    meter.came(Arrival("two", probe(rank=2, say="ask")), 2)
    assert wires.sent == [("one", "ready"), ("two", "busy")]
    await asyncio.sleep(0)
    for word in (
        {"say": "part", "left": 100}, {"say": "part", "left": 0}, {"say": "turn"},
        {"say": "got", "seconds": 1.0, "rate": 8e6}, {"say": "result", "round_trip": 0.1},
    ):  # fmt: skip
        meter.came(Arrival("one", [*probe(rank=1, **word), b"x" * 100]), 1)
    await ended(meter, 1)
    assert meter.found[1].sends == 8e6
    meter.came(Arrival("two", probe(rank=2, say="ask")), 2)
    assert wires.sent[-1] == ("two", "ready")
    await meter.close()


def test_a_running_peer_answers_a_probe_counts_nothing_and_goes_on() -> None:
    table = Table()
    before = dict(table.core.drops.counts)
    table.core.receive(b"a check", probe(rank=1, say="ask"), table.now, None)
    frames = table.core.outgoing(b"a check")
    assert frames is not None
    assert wire.decode(frames, wire.Limits()) == wire.Unknown(rank=0)
    assert dict(table.core.drops.counts) == before


def test_what_was_measured_is_kept_beside_what_was_measured_before(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert measured_lines.read_lines(out) == {}
    measured_lines.keep(out, 3, {0: LineSpeed(1e6, 2e6, 0.1), 2: LineSpeed(3e6, 4e6, 0.2)})
    path = measured_lines.keep(out, 3, {2: LineSpeed(5e6, 6e6, 0.3)})
    assert path == out / "lines-3.json"
    assert measured_lines.read_lines(out) == {3: {0: LineSpeed(1e6, 2e6, 0.1), 2: LineSpeed(5e6, 6e6, 0.3)}}


def test_the_size_of_a_body_is_kept_with_the_lines(tmp_path: Path) -> None:
    line = LineSpeed(1e6, 2e6, 0.1)
    for rank in (0, 1, 2):
        measured_lines.keep(tmp_path, rank, {3: line})
    assert measured_lines.read_body_bytes(tmp_path, (0, 1, 2, 9)) is None, "files of earlier versions have none"
    measured_lines.keep(tmp_path, 1, {}, 480)
    measured_lines.keep(tmp_path, 1, {0: line})
    assert measured_lines.read_lines(tmp_path)[1] == {0: line, 3: line}
    assert measured_lines.read_body_bytes(tmp_path, (0, 1, 2)) == 480
    measured_lines.keep(tmp_path, 2, {}, 484)
    assert measured_lines.read_body_bytes(tmp_path, (0, 1)) == 480
    with pytest.raises(ConfigurationError, match=r"480 bytes in .*lines-1\.json, 484 bytes in .*lines-2\.json"):
        measured_lines.read_body_bytes(tmp_path, (0, 1, 2))


def test_keys_of_later_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "lines-0.json"
    path.write_text(
        '{"rank": 0, "later": [1], "lines": {"1": {"sends": 1, "receives": 2, "round_trip": 3, "more": 4}}}'
    )
    assert measured_lines.read_lines(tmp_path) == {0: {1: LineSpeed(1, 2, 3)}}
    measured_lines.keep(tmp_path, 0, {2: LineSpeed(1e6, 2e6, 0.1)}, 480)
    content = json.loads(path.read_text())
    assert content["later"] == [1]
    assert content["lines"]["1"]["more"] == 4


@pytest.mark.parametrize("value", ["480", 0, -1, True, 4.5, [480], 10**16])
def test_a_size_that_is_none_is_named(tmp_path: Path, value: object) -> None:
    (tmp_path / "lines-0.json").write_text(json.dumps({"rank": 0, "body_bytes": value, "lines": {}}))
    with pytest.raises(ConfigurationError, match=r"lines-0\.json.*is no size: measure again"):
        measured_lines.read_body_bytes(tmp_path, (0,))


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"lines": []}', '{"lines": {"x": {}}}', '{"lines": {"1": {"sends": 1}}}',
     '{"lines": {"1": {"sends": "a", "receives": 1, "round_trip": 1}}}',
     '{"lines": {"1": {"sends": 0, "receives": 1, "round_trip": 1}}}'],
)  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "lines-0.json").write_text(content)
    with pytest.raises(ConfigurationError, match=r"lines-0\.json.*measure again"):
        measured_lines.read_lines(tmp_path)
    measured_lines.keep(tmp_path, 0, {1: LineSpeed(1e6, 2e6, 0.1)})


async def test_a_line_that_breaks_is_given_up_and_measured_when_it_is_back() -> None:
    wires = Wires()
    meter = LineMeter(wires, 0, frozenset({1}))
    meter.met(1, "out")
    await asyncio.sleep(0)
    meter.broke("out")
    await asyncio.sleep(0)
    assert (meter.settled(1), meter.why(1)) == (True, line_speed.BROKE)
    meter.met(1, "out")
    await asyncio.sleep(0)
    assert wires.sent == [("out", "ask")] * 2
    assert not meter.settled(1)
    await meter.close()


class Filler(Wires):
    """Counts the bytes of filler."""

    count = 0

    def send(self, link: Any, frames: Any) -> Sent:
        self.count += wire.size(frames[1:])
        return super().send(link, frames)


async def test_a_neighbor_that_asks_again_and_again_gets_no_filler_without_end() -> None:
    wires = Filler()
    meter = LineMeter(wires, 0, frozenset({1, 2}))
    train = [{"say": "part", "left": 1}, {"say": "part", "left": 0}, {"say": "turn"}]
    for _ in range(9):
        for word in ({"say": "ask"}, *train, *[{"say": "got", "seconds": 0, "rate": 1}] * 9):
            meter.came(Arrival("in", [*probe(rank=1, **word), b"x"]), 1)
            await asyncio.sleep(0)
    assert 11e6 < wires.count < line_speed.TRIES * 11.2e6
    assert wires.sent[-1] == ("in", "busy")
    await ended(meter, 1)
    meter.came(Arrival("two", probe(rank=2, say="ask")), 2)
    assert wires.sent[-1] == ("two", "ready"), "and keeps no other one from it"
    await meter.close()


async def test_a_neighbor_that_breaks_its_line_again_and_again_gets_no_filler_without_end() -> None:
    wires = Filler()
    meter = LineMeter(wires, 0, frozenset({1}))
    for _ in range(9):
        meter.met(1, "out")
        await asyncio.sleep(0)
        for word in (
            {"say": "ready"},
            *[{"say": "pong"}] * line_speed.PINGS,
            *[{"say": "got", "seconds": 0, "rate": 1}] * 9,
        ):
            meter.came(Arrival("out", probe(rank=1, **word)), 1)
            await asyncio.sleep(0.001)
        meter.broke("out")
        await asyncio.sleep(0)
    assert 11e6 < wires.count < line_speed.TRIES * 11.2e6
    assert meter.why(1) == line_speed.OFTEN
    await meter.close()


async def test_words_that_are_not_read_are_not_kept_without_end() -> None:
    meter = LineMeter(Wires(), 0, frozenset({1}))
    meter.met(1, "out")
    await asyncio.sleep(0)
    for _ in range(1000):
        meter.came(Arrival("out", probe(rank=1, say="junk")), 1)
    assert meter._lines[1].words.qsize() < 100
    await meter.close()


async def test_a_train_without_end_is_no_train() -> None:
    meter = LineMeter(Wires(), 0, frozenset({1}))
    meter.came(Arrival("in", probe(rank=1, say="ask")), 1)
    for _ in range(40):
        meter.came(Arrival("in", [*probe(rank=1, say="part", left=1), b"x"]), 1)
        await asyncio.sleep(0)
    await ended(meter, 1)
    assert meter.why(1) == "the other end sends trains without end"
    await meter.close()
