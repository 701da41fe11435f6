"""The live page: what it shows of a status document, read back from its HTML."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.report.live_page import page, view
from dpeer.report.live_style import STYLE
from tests.report.html_tree import Node, tree
from tests.report.live_documents import document, history, running, stopped

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\u202e\x00"


def shown(*peers: Any) -> Node:
    return tree(view(document(*peers)))


def facts(found: Node) -> dict[str, str]:
    return {one.one("dt").text: one.one("dd").text for one in found.one("dl").all("div")}


def cards(found: Node) -> dict[str, Node]:
    return {one.one("h3").text: one for one in found.one("section", id="charts").all("div", "card")}


def rows(found: Node) -> list[dict[str, str]]:
    head, *lines = (
        [cell.text for cell in row.all() if cell.tag in ("td", "th")] for row in found.one("table").all("tr")
    )
    return [dict(zip(head, line, strict=True)) for line in lines]


def links(found: Node) -> dict[str, str]:
    """By both ranks, the kind of a link that is a line of its own."""
    return {
        one.attributes["data-link"]: (one.classes - {"link"}).pop()
        for one in found.all("g", "link")
        if "data-link" in one.attributes
    }


@pytest.mark.parametrize("size", [1, 2, 4, 16, 36, 100])
def test_every_peer_is_drawn_and_has_a_row(size: int) -> None:
    found = shown(*(running(rank, size, hops=2) for rank in range(size)))
    assert [one.attributes["data-rank"] for one in found.all("g", "peer")] == [str(rank) for rank in range(size)]
    assert [row["rank"] for row in rows(found)] == [str(rank) for rank in range(size)]
    assert facts(found)["peers that take part"] == f"{size} of {size}"
    assert found.one("section", id="trouble").text == ""


def test_facts_are_over_all_peers() -> None:
    four = [running(rank, 4, completed=12 - (rank == 3)) for rank in range(4)]
    four[2]["epsilon"], four[2]["delta"] = 2.5, 1e-5
    found = facts(shown(*four, stopped(4)))
    assert found["peers that take part"] == "4 of 51 away"
    assert found["round"] == "12 to 13of 20"
    assert found["a round takes"] == "21.5 sslowest peer 23.0 s"
    assert found["time left"] == "3 minat this pace"
    assert found["epsilon"] == "2.5at delta 1e-05"
    assert found["least disk left"] == "5.0 GBrank 0"
    assert found["accuracy, median"].startswith("0.81"), "of 0.834, 0.824, 0.814 and 0.786"


def test_a_link_has_the_worse_of_both_views_and_names_both() -> None:
    seen = {0: "alive", 1: "suspect", 2: "dead", 3: "gone"}
    four = [running(rank, 4, liveness=lambda other: (seen[other], "silent for 7 s" if other == 2 else ""))
            for rank in (0, 1)]  # fmt: skip
    found = shown(*four, stopped(2), stopped(3))
    assert links(found) == {"0-1": "suspect", "0-3": "gone", "1-2": "dead"}
    words = {one.attributes["data-link"]: one.one("title").text for one in found.all("g", "link") if one.all("title")}
    assert words["0-1"] == "rank 0 sees 1 suspect; rank 1 sees 0 alive"
    assert words["1-2"] == "rank 1 sees 2 dead (silent for 7 s)"
    assert [len(one.all("path", "cross")) for one in found.all("g", data_link="1-2")] == [1], "not by color alone"
    legend = [one.text for one in found.one("ul", "legend").all("li")]
    assert legend == ["takes part: 2", "does not run or answer: 2", "suspect: 1", "gone, with a goodbye: 1",
                      "dead, silent: 1"]  # fmt: skip


def test_a_link_that_takes_a_unix_socket_is_marked() -> None:
    two = [running(rank, 2) for rank in range(2)]
    two[0]["neighbors"][0]["unix_socket"] = True
    found = shown(*two)
    assert found.one("g", data_link="0-1").one("title").text == "rank 0 sees 1 alive (unix); rank 1 sees 0 alive"
    assert [row["neighbors"] for row in rows(found)] == ["alive 1 (unix)", "alive 0"]


def test_an_arrow_goes_from_a_peer_that_waits_to_each_that_it_waits_for() -> None:
    waits = {1: "in round 12", 3: "not heard yet"}
    found = shown(running(0, 4, waits=waits, waiting_seconds=12.0), *(running(rank, 4) for rank in (1, 2, 3)))
    assert [one.attributes["data-wait"] for one in found.all("g", "wait") if one.all("title")] == ["0-1", "0-3"]
    assert found.one(data_wait="0-3").one("title").text == "rank 0 waits for rank 3: not heard yet"
    assert rows(found)[0]["state"] == "waits 12.0 s for bodies: rank 1 (in round 12), rank 3 (not heard yet)"


def test_why_peers_take_no_part_stands_above_all_else_and_leads_to_their_rows() -> None:
    pauses = "it pauses: it sees 2 of 5 ranks"
    five = [running(rank, 5, unready=pauses if rank < 2 else None) for rank in range(3)]
    found = shown(*five, stopped(3), running(4, 5, completed=20, phase="ended", unready="its rounds are over"))
    lines = found.one("section", id="trouble").all("li")
    assert [one.text for one in lines] == [f"ranks 0, 1: {pauses}", "rank 3: does not run: stopped"]
    for one in found.one("section", id="trouble").all("a"):
        assert found.one("tr", id=(one.attributes["href"] or "").removeprefix("#")).one("th").text == one.text
    standings = {one.attributes["data-rank"]: (one.classes - {"peer"}).pop() for one in found.all("g", "peer")}
    assert standings == {"0": "idle", "1": "idle", "2": "part", "3": "away", "4": "ended"}
    assert facts(found)["peers that take part"] == "1 of 52 idle, 1 away, 1 ended"


def test_many_peers_without_a_part_are_named_by_ranges() -> None:
    reasons = {rank: f"reason {rank}" for rank in range(30, 40)}
    found = shown(*(running(rank, 60, unready=reasons.get(rank, "it starts")) for rank in range(60)))
    first, *others, last = (one.text for one in found.one("section", id="trouble").all("li"))
    assert first == "ranks 0..29, 40..59: it starts"
    assert others == [f"rank {rank}: reason {rank}" for rank in range(30, 35)]
    assert last == "and 5 more reasons, in the table below"


def test_the_neighbors_of_a_single_peer_are_drawn_around_it() -> None:
    found = shown(running(2, 8, hops=2, liveness=lambda other: ("dead" if other == 4 else "alive", "")))
    assert links(found) == {"0-2": "alive", "1-2": "alive", "2-3": "alive", "2-4": "dead"}
    middle = found.one("g", "peer", data_rank="2").one("circle").attributes
    assert (middle["cx"], middle["cy"]) == ("180", "180")
    assert Counter((one.classes - {"peer"}).pop() for one in found.all("g", "peer")) == {"part": 1, "unasked": 4}


def test_a_peer_that_cannot_be_asked_has_no_count_of_rounds() -> None:
    unknown = {"folder": "rank-1", "running": False, "state": "cannot be asked", "completed": None, "rounds": None}
    assert [row["rounds"] for row in rows(shown(running(0, 2), unknown, stopped(2)))] == ["12/20", "-", "7/20"]


def test_a_run_that_has_ended_says_so() -> None:
    found = shown(*(stopped(rank, "does not run: done", 20) for rank in range(3)))
    assert facts(found)["peers"] == "all 3 ended"
    assert facts(found)["round"] == "20 doneof 20"
    assert found.one(id="facts").attributes["data-news"] == "the run has ended"
    assert found.one("section", id="trouble").text == ""


@pytest.mark.parametrize(
    ("peers", "why"),
    [
        ([running(rank, 2, completed=0, phase="meet", unready="it waits") for rank in range(2)],
         "No round is complete yet."),
        ([running(rank, 2, lines=[]) for rank in range(2)], "No round is complete since these peers started."),
        ([stopped(0), stopped(1)], "Only peers that run show their rounds; dpeer report shows those of a run."),
    ],
    ids=["before the start", "resumed", "ended"],
)  # fmt: skip
def test_charts_without_a_round_say_why(peers: list[Any], why: str) -> None:
    found = shown(*peers)
    assert {name: one.one("p").text for name, one in cards(found).items()} == dict.fromkeys(
        ["Accuracy", "Disagreement", "Round time, s", "Missed bodies"], why
    )
    assert not found.all("svg", "chart")


def test_a_private_federation_shows_no_figure_of_the_training_and_says_so() -> None:
    bare = [{"round": number, "round_seconds": 20.0, "heard": [1], "missed": []} for number in range(5)]
    found = shown(*(running(rank, 3, epsilon=1.5, delta=1e-5, lines=bare) for rank in range(3)))
    empty = {name: cards(found)[name].one("p").text for name in ("Accuracy", "Disagreement")}
    assert empty == {
        "Accuracy": "Not shown: of peers with privacy no figure of the training leaves.",
        "Disagreement": "Not measured: no mix yet, or bodies travel as sums or masks, or privacy keeps it here.",
    }
    assert facts(found)["epsilon, largest"] == "1.5at delta 1e-05"
    assert {"accuracy", "disagreement"}.isdisjoint(rows(found)[0])
    mixed = shown(running(0, 3, epsilon=1.5, lines=bare), running(1, 3))
    assert "1 peer with privacy left out" in cards(mixed)["Accuracy"].text


def test_a_task_without_accuracy_has_its_loss() -> None:
    found = shown(running(0, 2, lines=history(0, 5, accuracy=None)))
    assert [*cards(found)] == ["Test loss", "Disagreement", "Round time, s", "Missed bodies"]


def test_missed_bodies_are_counted_over_all_peers() -> None:
    lines = [history(rank, 4) for rank in range(3)]
    lines[0][1]["missed"], lines[2][1]["missed"], lines[2][3]["missed"] = [1], [0, 1], [0]
    card = cards(shown(*(running(rank, 3, lines=lines[rank]) for rank in range(3))))["Missed bodies"]
    assert [one.one("title").text for one in card.one("g", "bars").all("rect")] == ["3 in round 2", "1 in round 4"]
    assert card.one("span", "now").text == "4 in all"
    assert "most in round 2: 3" in (card.one("svg").attributes["aria-label"] or "")


def test_columns_without_a_value_are_left_out() -> None:
    assert {"epoch", "epsilon", "dropped"}.isdisjoint(rows(shown(running(0, 2), running(1, 2)))[0])
    epoch = {"number": 2, "members": [0, 1, 2], "begins": 5}
    full = rows(shown({**running(0, 2), "epoch": epoch, "epsilon": 1.0, "dropped": {"stranger": 2}}))[0]
    assert (full["epoch"], full["epsilon"], full["dropped"]) == ("2: 0..2", "1", "2 stranger")


def test_hostile_text_stays_text() -> None:
    peer = running(0, 4, waits={1: HOSTILE}, liveness=lambda other: ("dead", HOSTILE), unready=HOSTILE, why=HOSTILE)
    peer["dropped"] = {HOSTILE: 2}
    unknown = {"folder": HOSTILE, "running": False, "state": HOSTILE * 50}
    found = shown(peer, unknown, {**running(2, 4), "phase": HOSTILE})
    harmless = tree(view(document(running(0, 4, waits={1: "x"}, unready="x"), stopped(1), running(2, 4))))
    assert {one.tag for one in found.walk()} == {one.tag for one in harmless.walk()}
    names = {name for one in found.walk() for name in one.attributes}
    assert not {name for name in names if name.startswith("on") or name in ("style", "src")}
    assert all((one.attributes["href"] or "").startswith("#") for one in found.all("a"))
    assert "<script>alert(1)</script>" in found.text, "it is shown as it is"
    assert not set("\u202e\x00") & set(view(document(peer)))
    assert max(len(cell) for row in rows(found) for cell in row.values()) < 3000


def test_a_lone_surrogate_can_be_sent() -> None:
    assert view(document(stopped(0, "\ud800"))).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**12) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_no_document_makes_the_page_fail(data: st.DataObject) -> None:
    """Values of other types, at any place where a peer states one."""
    peer = running(0, 3, epsilon=1.0, waits={1: "late"})
    epoch = {"number": 1, "members": [0, 1], "begins": 3}
    peer |= {"epoch": epoch, "next_epoch": dict(epoch), "rank": 0, "dropped": {"stranger": 1}}
    inner: list[Any] = [peer, peer["history"][0], peer["neighbors"][0], peer["epoch"], peer["next_epoch"]]
    for target in (document(peer)["peers"][0], *inner):
        for name in data.draw(st.sets(st.sampled_from(sorted(target)), max_size=3)):
            target[name] = data.draw(JSON)
    peer["waits_for"] = data.draw(st.just(peer["waits_for"]) | JSON)
    for one in ({"peers": [peer, data.draw(JSON)]}, {"peers": data.draw(JSON)}):
        tree(view(one))


@pytest.mark.parametrize("figure", ["accuracy", "test_loss", "round_seconds", "disagreement"])
@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-99, -5e-324, 1e99, -1e99, 1e308])
def test_no_number_makes_the_page_fail(figure: str, value: float) -> None:
    lines = history(0, 3)
    lines[1] |= {"accuracy": None, figure: value}
    tree(view(document(running(0, 2, lines=lines, round_seconds=value, left_seconds=value, epsilon=value))))


def test_a_peer_with_many_words_has_a_short_row() -> None:
    epoch = {"number": 2, "members": list(range(0, 100, 2)), "begins": 3}
    peer = running(0, 60, hops=20, waits={one: f"late {one}" for one in range(1, 41)}) | {"epoch": epoch}
    for number, one in enumerate(peer["neighbors"]):
        one["why"] = f"reason {number}"
    row = rows(shown(peer))[0]
    assert row["neighbors"].count("reason") == 8
    assert row["neighbors"].endswith(" and 32 more")
    assert row["state"].count("late") == 8
    assert row["epoch"] == "2: 0, 2, 4, 6, 8, 10, 12, 14 and 42 more"


def test_the_page_needs_nothing_from_elsewhere() -> None:
    found = tree(page("dpeer: <run>", view(document(running(0, 2), running(1, 2)))))
    assert found.one("head").one("title").text == found.one("h1").text == "dpeer: <run>"
    assert found.one("html").attributes["lang"] == "en"
    html = page("dpeer", view(document(running(0, 2))))
    assert not re.search(r"(?:src|href|action)=\"(?!#|data:,)", html)
    assert not re.search(r"https?:|//[a-z]|url\((?!#)|@import", html)
    assert len(re.findall(r"<script>", html)) == 1, "whose hash the server allows"


def test_every_name_in_the_script_is_an_element_of_the_page() -> None:
    found = tree(page("dpeer", view(document(running(0, 2)))))
    script = found.one("script").text
    for name in re.findall(r"getElementById\(\"([\w-]+)\"\)", script):
        assert found.one(id=name)
    assert found.one("main").all("section", data_news="1 of 1 take part")
    ids = [one.attributes["id"] for one in found.walk() if "id" in one.attributes]
    assert len(ids) == len(set(ids))


def test_every_drawing_has_words_and_every_cell_a_heading() -> None:
    found = shown(*(running(rank, 12) for rank in range(12)))
    for one in found.all("svg"):
        assert one.attributes.get("aria-hidden") == "true" or one.attributes["aria-label"]
    label = found.one("svg", "graph").attributes["aria-label"]
    assert label == "Graph of 12 peers: 12 takes part. Links: 12 alive."
    table = found.one("table")
    heads = [one.text for one in table.one("thead").all("th")]
    for row in table.one("tbody").all("tr"):
        assert [one.attributes["data-label"] for one in row.all("td")] == heads[1:], "which a narrow screen shows"


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colors_have_the_contrast_that_wcag_asks_for(scheme: int) -> None:
    """4.5 for text and 3 for what is drawn (WCAG 2.2, 1.4.3 and 1.4.11)."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    colors = dict(re.findall(r"--([\w]+): (#[0-9a-f]{6})", blocks[scheme]))
    texts = ["ink", "soft", "link", "idle", "dead", "s0", "s1", "s2", "s3", "s4", "s6"]
    for ground in ("bg", "card"):
        assert {name: contrast(colors[name], colors[ground]) for name in texts
                if contrast(colors[name], colors[ground]) < 4.5} == {}  # fmt: skip
        marks = colors.keys() - {"bg", "card", "on", "line", "grid"}
        assert {name: contrast(colors[name], colors[ground]) for name in marks
                if contrast(colors[name], colors[ground]) < 3} == {}  # fmt: skip
    for name in ("part", "idle"):
        assert contrast(colors[name], colors["on"]) >= 4.5, "a rank inside of a mark"


def test_the_page_does_not_need_the_plot_extra() -> None:
    program = (
        "import sys, json; from dpeer.report.live_page import page, view; view(json.load(sys.stdin)); page('x');"
        "print(*sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(document(running(0, 2))), text=True, capture_output=True,
        check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert {"torch", "matplotlib", "jinja2"}.isdisjoint(ended.stdout.split())
