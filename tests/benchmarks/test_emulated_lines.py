"""Emulated lines have the bandwidth and the delay that they are given, and are shared by all connections of a host."""

import asyncio
import socket
import struct
import time
from contextlib import contextmanager

import emulated_lines
import fleet
import line_emulator
import network_namespaces
import pytest
import rings
import wide_area


def test_a_shape_is_read_from_its_text():
    shape = emulated_lines.Shape.parse("100Mbit/40ms")
    assert (shape.bytes_per_second, shape.round_trip, str(shape)) == (12.5e6, 0.04, "100 Mbit/s, 40 ms")
    assert emulated_lines.Shape.parse("2.5Gbit/1ms").bytes_per_second == 312.5e6
    for text in ("a", "100Mbit", "100Mbit/40s", "100/40ms"):
        with pytest.raises(ValueError, match="bandwidth and round trip"):
            emulated_lines.Shape.parse(text)


def test_a_pipe_sends_at_its_bandwidth():
    pipe = emulated_lines.Pipe(bytes_per_second=1000.0)
    assert [pipe.sent(500, now=10.0) for _ in range(3)] == [10.5, 11.0, 11.5]
    assert pipe.sent(1000, now=20.0) == 21.0


def test_a_downlink_adds_no_time_unless_it_is_shared():
    pipe = emulated_lines.Pipe(bytes_per_second=1000.0)
    assert pipe.passed(500, now=1.0) == 1.0  # it came at the same bandwidth: its first byte is through already
    assert pipe.passed(500, now=1.0) == 1.5
    assert pipe.passed(500, now=5.0) == 5.0


def test_the_headers_of_a_packet_that_is_not_cut_yet_count():
    header = 52
    offload = struct.pack("<BBHHHH", 1, 1, header, 1000, 20, 16)
    packet = offload + bytes(header) + bytes(2500)
    assert network_namespaces.wire_bytes(packet) == 2500 + 3 * header
    whole = struct.pack("<BBHHHH", 0, 0, 0, 0, 0, 0) + bytes(header + 100)
    assert network_namespaces.wire_bytes(whole) == header + 100


def test_the_first_emulator_that_works_is_opened(monkeypatch):
    @contextmanager
    def broken(shapes):
        raise OSError("no such kernel module")
        yield

    @contextmanager
    def working(shapes):
        yield "lines"

    monkeypatch.setattr(emulated_lines, "emulators", lambda: {"first": broken, "second": working})
    with emulated_lines.opened([]) as found:
        assert found == ("second", "lines")
    with pytest.raises(OSError, match="no such kernel module"), emulated_lines.opened([], "first"):
        pass


def test_an_error_inside_is_no_reason_for_another_emulator(monkeypatch):
    opened = []

    @contextmanager
    def working(shapes):
        opened.append("opened")
        yield "lines"

    monkeypatch.setattr(emulated_lines, "emulators", lambda: {"first": working, "second": working})
    with pytest.raises(OSError, match="in the measurement"), emulated_lines.opened([]):
        raise OSError("in the measurement")
    assert opened == ["opened"]


def test_two_connections_of_a_host_share_its_uplink():
    shape, nbytes = emulated_lines.Shape(500_000.0, 0.1), 60_000

    async def receive(host: str) -> tuple[int, asyncio.Future]:
        came: asyncio.Future = asyncio.get_running_loop().create_future()

        async def read(reader, writer):
            await reader.readexactly(nbytes)
            came.set_result(time.monotonic())
            writer.close()

        server = await asyncio.start_server(read, host, 0)
        return server.sockets[0].getsockname()[1], came

    async def seconds() -> float:
        with line_emulator.proxied([shape] * 3) as proxied:
            receivers = [await receive(proxied.host(rank)) for rank in (1, 2)]
            writers = []
            for rank, (port, _) in enumerate(receivers, 1):
                address = await asyncio.to_thread(proxied.reach, 0, rank, port)
                writers.append((await asyncio.open_connection(*address))[1])
            began = time.monotonic()
            for writer in writers:
                writer.write(bytes(nbytes))
            ended = await asyncio.gather(*(came for _, came in receivers))
            for writer in writers:
                writer.close()
            return max(ended) - began

    # Either alone would need 0.12 s and half of the round trip.
    assert asyncio.run(seconds()) > 0.95 * (2 * nbytes / shape.bytes_per_second + shape.round_trip / 2)


def test_a_proxy_is_asked_for_once():
    with (
        line_emulator.proxied([emulated_lines.Shape(1e9, 0.0)] * 2) as proxied,
        socket.create_server((proxied.host(1), 0)) as listener,
    ):
        port = listener.getsockname()[1]
        assert proxied.reach(0, 1, port) == proxied.reach(0, 1, port) != proxied.reach(1, 1, port)


@pytest.mark.slow
@pytest.mark.parametrize("emulator", ["packets", "proxy"])
def test_a_ring_gets_no_more_than_its_lines(emulator):
    shape = emulated_lines.Shape(2_500_000.0, 0.02)
    case = {"size": 3, "parameters": 100_000, "rounds": 2, "neighbors": fleet.ring(3), "options": {}}
    try:
        with emulated_lines.opened([shape] * 3, emulator) as (name, found):
            figures = fleet.run(rings.raw, fleet.Case(**case, lines=found, warm_up=1))
    except OSError as error:
        pytest.skip(f"needs root and a kernel that has it: {error}")
    assert name == emulator
    assert all(one.bytes_sent == 2 * 2 * 400_000 for one in figures)
    least = 2 * 400_000 / shape.bytes_per_second
    assert min(one.seconds / 2 for one in figures) > 0.9 * least  # what is in buffers when a lap ends comes earlier


def test_the_table_has_the_median_of_all_repetitions_and_the_lines_own_time():
    cell = {"line": "a", "parameters": 10, "train": 2.0, "peers": 4, "name": "raw"}
    found = [
        {
            "cell": {**cell, "repetition": 0},
            "round_seconds": [5.0, 4.0],
            "bytes_sent": 1e6,
            "line_seconds": 1.5,
            "emulator": "proxy",
        },
        {
            "cell": {**cell, "repetition": 1},
            "round_seconds": [3.0],
            "bytes_sent": 1e6,
            "line_seconds": 1.5,
            "emulator": "proxy",
        },
    ]
    (row,) = wide_area.table(found)
    assert (row["seconds"], row["least"], row["most"], row["rounds"]) == (4.0, 3.0, 5.0, 3)
    assert (row["waits"], row["mb"], row["ratio"]) == (0.5, 1.0, 2.0)


def test_a_contestant_is_named_by_its_ways():
    assert wide_area.contestant("dpeer-int4")[1]["settings"] == {"compress": "int4"}
    assert wide_area.contestant("dpeer")[1]["settings"] == {}
    assert len(wide_area.contestant("dpeer-keys", 3)[1]["keyrings"]) == 3
    for name in ("dpeer-int3", "raw-int8", "dpeer-int8-int4", "other"):
        with pytest.raises((ValueError, wide_area.argparse.ArgumentTypeError)):
            wide_area.contestant(name)


def test_what_was_measured_is_not_measured_again(monkeypatch, tmp_path, capsys):
    asked = []

    def measured(cell, rounds, emulator):
        asked.append(cell["name"])
        return {"emulator": "none", "round_seconds": [1.0], "bytes_sent": 1.0, "line_seconds": 1.0}

    monkeypatch.setattr(wide_area, "measured", measured)
    monkeypatch.setattr(wide_area, "reached", lambda *_: ("none", 1.0))
    for names, new in (["raw"], ["raw"]), (["raw", "dpeer-int8"], ["dpeer-int8"]):
        asked.clear()
        arguments = ["wide_area", "--lines", "a", "--parameters", "10", "--repeats", "1", "--out"]
        monkeypatch.setattr("sys.argv", [*arguments, str(tmp_path), "--only", *names])
        wide_area.main()
        assert asked == new
    assert "| dpeer-int8 |" in capsys.readouterr().out
