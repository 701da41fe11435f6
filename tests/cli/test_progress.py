"""Progress of runs: the live table and the plain lines."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from dpeer.cli.progress import LiveTable, PlainLines, open_view
from dpeer.cli.terminal import Terminal
from dpeer.results.training_alerts import Alert
from dpeer.results.units import decimals, size


def entry(number: int, **changes: Any) -> dict[str, Any]:
    common = {"train_loss": 0.5, "accuracy": 0.75, "bytes_sent": 1500, "missed": [], "active": True}
    return {"round": number} | common | changes


def console(*, terminal: bool, height: int = 25) -> Terminal:
    return Terminal(Console(file=io.StringIO(), force_terminal=terminal, width=80, height=height, color_system=None))


def lines(of: Terminal) -> list[str]:
    assert of.flush()
    assert isinstance(of.console.file, io.StringIO)
    return of.console.file.getvalue().splitlines()


def test_a_line_is_printed_when_all_peers_have_completed_the_round() -> None:
    out = console(terminal=False)
    with PlainLines(out, 3, 2, "cluster: [3] peers") as view:
        view.record(0, entry(0, accuracy=0.5))
        view.record(1, entry(0, accuracy=1.0, train_loss=None, missed=[0, 2], active=False))  # which heard nobody
        view.record(0, entry(1))
        assert len(lines(out)) == 1
        view.record(2, entry(0, accuracy=None, missed=[1]))
    assert lines(out)[1:] == ["round 1/2, loss 0.5000, accuracy 0.7500 (lowest 0.5000), sent 4.5 kB, missed 1"]


def test_a_lost_peer_is_said_and_no_longer_waited_for() -> None:
    out = console(terminal=False)
    with PlainLines(out, 2, 2, "title") as view:
        view.record(0, entry(0, accuracy=None))
        view.status(1, "failed")
        view.record(0, entry(1, accuracy=None, train_loss=None, missed=[1]))
        view.status(0, "done")
    assert lines(out)[1:] == [
        "rank 1 failed",
        "round 1/2, loss 0.5000, sent 1.5 kB",
        "round 2/2, loss -, sent 1.5 kB, missed 1",
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_an_alert_of_a_kind_is_printed_once(terminal: bool) -> None:
    out = console(terminal=terminal)
    with open_view(out, 20, 5, "title") as view:
        for rank in range(3, 15):
            view.alert(rank, Alert("flat", "the loss has stayed at [2.3]"))
        view.alert(4, Alert("diverged", "training has diverged: the loss is not finite"))
    message = [found[0].rstrip() for line in lines(out) if (found := re.search(r"rank \d+: .*", line))]
    assert message == ["rank 3: the loss has stayed at [2.3]", "rank 4: training has diverged: the loss is not finite"]


def test_lines_are_not_wrapped_where_they_are_long() -> None:
    out = console(terminal=False)
    with PlainLines(out, 100, 1, "t" * 200) as view:
        for rank in range(100):
            view.record(rank, entry(0, missed=[(rank + 1) % 100]))
    assert [len(line) > 80 for line in lines(out)] == [True, True]


@pytest.mark.parametrize("peers", [2, 30])
def test_the_table_fits_the_terminal_and_ends_with_all_peers(peers: int) -> None:
    out = console(terminal=True)
    with open_view(out, peers, 1000, "cluster: peers") as view:
        pass
    assert isinstance(view, LiveTable)
    out.console.print(view.drawing())
    assert any(line.split().count("-") == 4 and "starting" in line for line in lines(out))
    for rank in range(peers):
        view.record(rank, entry(998, bytes_sent=123_456_789, accuracy=rank / peers, missed=[8, 9]))
        view.record(rank, entry(999, bytes_sent=123_456_789, accuracy=None, missed=[8, 9]))
    view.status(peers - 1, "failed")
    before = len(lines(out))
    out.console.print(view.drawing())
    printed = lines(out)[before:]
    assert len(printed) <= out.console.height
    assert max(map(len, printed)) <= 80
    assert not any("…" in line for line in printed)
    assert "100%" in printed[-1], "the bar counts rounds of all peers, also those before a resume"
    rows = [re.split(" {2,}", line.strip()) for line in printed if re.match(r" *(\d+|\.\.\.|all) ", line)]
    assert rows[0] == ["0", "1000/1000", "0.5000", "0.0000", "246.9 MB", "8, 9", "running"]
    shown = [row for row in rows if row[0].isdigit()]
    assert [shown[-1][0], shown[-1][-1]] == [str(peers - 1), "failed"], "failures are shown if rows do not fit"
    assert rows[-1][0] == "all"
    assert rows[-1][1] == decimals(sum(rank / peers for rank in range(peers)) / peers)
    assert rows[-1][2] == size(peers * 246_913_578)
    if len(shown) < peers:
        assert f"{peers - len(shown)} more" in rows[-2]


def test_numbers_are_written_for_people() -> None:
    assert [decimals(0.5), decimals(None), decimals(0.0, "+")] == ["0.5000", "-", "+0.0000"]
    values = (1.23456789e-7, -0.00061234, 0.0012, 9999.5, 123456.789, 11154322.318)  # in mol/l, ..., in cents
    assert [*map(decimals, values)] == ["1.2346e-07", "-0.00061234", "0.0012", "9999.5000", "1.2346e+05", "1.1154e+07"]
    sizes = {0: "0 B", 999: "999 B", 1000: "1.0 kB", 1_550_000: "1.6 MB", 3 * 10**9: "3.0 GB", 10**15: "1000.0 TB"}
    assert {count: size(count) for count in sizes} == sizes
