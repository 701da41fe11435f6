"""RepeatedLook: peers that answer, hang, come and go."""

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.control_client import Place
from dpeer.federation.repeated_look import OLD, Look, RepeatedLook


def counting(rank: int) -> Look:
    """A peer that counts the looks at it."""
    looks = count(1)
    return lambda: [Place(Path(f"rank-{rank}"), None, f"look {next(looks)}")]


class Hanging:
    """A peer that answers its first look at once, and each later one when it is let go."""

    def __init__(self) -> None:
        self.looks, self.go = 0, threading.Event()

    def __call__(self) -> list[Place]:
        self.looks += 1
        if self.looks > 1:
            self.go.wait()
        return [Place(Path("rank-1"), None, f"look {self.looks}")]


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    found = Hanging()
    yield found
    found.go.set()


def shown(look: Callable[[], list[Place]]) -> dict[str, str]:
    return {one.name: one.state for one in look()}


def until(look: Callable[[], list[Place]], name: str, state: str) -> dict[str, str]:
    while (found := shown(look)).get(name) != state:
        pass
    return found


def test_a_peer_that_hangs_is_shown_as_it_was_and_holds_up_no_other(hanging: Hanging) -> None:
    looks: dict[str, Look] = {"a": counting(0), "b": hanging, "c": counting(2)}
    repeated = RepeatedLook(lambda: looks, patience=0.01)
    assert shown(repeated) == {"rank-0": "look 1", "rank-1": "look 1", "rank-2": "look 1"}
    assert until(repeated, "rank-2", "look 5")["rank-1"] == "look 1"
    assert hanging.looks == 2, "it is not asked again while it hangs"
    hanging.go.set()
    assert [*until(repeated, "rank-1", "look 3")] == ["rank-0", "rank-1", "rank-2"]


def test_peers_come_and_go() -> None:
    looks = {"a": counting(0)}
    repeated = RepeatedLook(lambda: looks, patience=60)
    assert shown(repeated) == {"rank-0": "look 1"}
    looks["b"] = counting(1)
    assert shown(repeated) == {"rank-0": "look 2", "rank-1": "look 1"}
    del looks["a"]
    assert shown(repeated) == {"rank-1": "look 2"}


def test_a_folder_that_is_removed_during_a_look_is_left_out() -> None:
    def removed() -> list[Place]:
        raise ConfigurationError("'rank-0' holds no run")

    looks = {"a": removed, "b": counting(1)}
    assert shown(RepeatedLook(lambda: looks)) == {"rank-1": "look 1"}


def test_a_mistake_of_the_user_is_raised() -> None:
    def nowhere() -> dict[str, Look]:
        raise ConfigurationError("no folder 'nowhere' exists")

    with pytest.raises(ConfigurationError, match="nowhere"):
        RepeatedLook(nowhere)()


def test_after_a_pause_nothing_old_is_shown(hanging: Hanging) -> None:
    """A page is opened: a peer that hangs by then is waited for, and not shown as it was before the pause."""
    now = [100.0]
    repeated = RepeatedLook(lambda: {"b": hanging}, patience=0.01, clock=lambda: now[0])
    assert shown(repeated) == {"rank-1": "look 1"}
    now[0] += OLD
    assert shown(repeated) == {"rank-1": "look 1"}
    now[0] += OLD + 1
    threading.Timer(0.05, hanging.go.set).start()
    assert shown(repeated) == {"rank-1": "look 2"}
