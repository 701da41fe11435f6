"""Two peers that dial each other: whatever comes first, both write on one link, and no body is lost on the way."""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from dpeer.peer.core.effects import Close, Dial, Write
from tests.peer.table import Table
from tests.world.scenario import graphs

# -- two cores, and the connections between them -----------------------------------------------------------------------


@dataclass
class Connection:
    """A connection, by the names that its ends have for it; messages under way by their receiver."""

    dialler: int
    names: dict[int, str]
    under_way: dict[int, deque] = field(default_factory=lambda: {0: deque(), 1: deque()})
    broken: bool = False
    unaware: set[int] = field(default_factory=set)
    """Who has yet to learn that it is broken."""
    found_out: set[int] = field(default_factory=set)
    """Who of them does, because it is the dialler or has written since."""


class End(Table):
    """The core of one of two ranks; what it writes goes out at once."""

    def __init__(self, rank, pair):
        self.rank, self.pair = rank, pair
        super().__init__(
            rank=rank, topology=graphs("ring", 2, 1.0), chunk_bytes=None,
            dialled=[1 - rank] if rank in pair.dials else [],
        )  # fmt: skip

    def do(self, effects):
        for effect in effects:
            match effect:
                case Write(link):
                    self.pair.write(self, link)
                case Dial(_):
                    super().do([effect])
                    self.pair.dialled[self.rank] = self.links[1 - self.rank]
                case Close(link):
                    self.pair.close(self, link)
                case _:
                    super().do([effect])


class Pair:
    """Ranks 0 and 1, each with its body of round 0, and what may happen next between them.

    Args:
        dials: Who dials the other.
        breaks: How many connections may break at any moment, by themselves.
        restarts: How often rank 1 may be killed and begin again.
        beats: How many beats each has at any moment.
        again: Whether a connection that broke comes about again.

    Attributes:
        past: What has happened to each; with it the state of both is determined.
    """

    def __init__(self, dials=(0, 1), breaks=0, restarts=0, beats=0, again=True):
        self.dials, self.again = dials, again
        self.breaks, self.restarts, self.beats = breaks, restarts, {0: beats, 1: beats}
        self.connections: list[Connection] = []
        self.dialled: dict[int, str] = {}
        self.past = {0: [], 1: []}
        self.ends = {}
        for rank in (0, 1):
            self._begin(rank)

    def _begin(self, rank):
        self.dialled.pop(rank, None)
        self.ends[rank] = End(rank, self)
        self.ends[rank].runs(0)

    def _open(self, end, link):
        """The connection of a link that is not broken."""
        return next((one for one in self.connections if one.names[end.rank] == link and not one.broken), None)

    # -- what the cores want ---------------------------------------------------------------------------------------

    def write(self, end, link):
        connection = self._open(end, link)
        while (frames := end.core.outgoing(link)) is not None:
            end.core.taken(link)
            if connection is not None:
                connection.under_way[1 - end.rank].append(frames)
            for gone in (one for one in self.connections if one.names[end.rank] == link and one.broken):
                gone.found_out |= {end.rank} & gone.unaware

    def close(self, end, link):
        connection = self._open(end, link)
        if self.dialled.get(end.rank) == link:
            del self.dialled[end.rank]
        if connection is not None:
            self._break(connection)
            connection.unaware.discard(end.rank)
            connection.found_out.discard(end.rank)

    # -- what may happen -------------------------------------------------------------------------------------------

    def possible(self):
        """The next events: the rank that each happens to, or None for both, and what it is."""
        found = []
        for rank in (0, 1):
            link = self.dialled.get(rank)
            mine = [one for one in self.connections if one.names[rank] == link]
            if (
                link is not None
                and (self.again or not mine)
                and not any(one.unaware & {rank} or not one.broken for one in mine)
            ):
                found.append((rank, "opens"))
            found += [(rank, "beat")] if self.beats[rank] else []
        for number, one in enumerate(self.connections):
            found += [(rank, "hears", number) for rank in (0, 1) if one.under_way[rank]]
            found += [(rank, "misses", number) for rank in sorted(one.found_out) if not one.under_way[rank]]
            found += [(None, what, number) for what in ("break", "cut") if self.breaks and not one.broken]
        return found + ([(None, "restart")] if self.restarts else [])

    def happen(self, event):
        """Let one of them happen."""
        rank, what, *which = event
        for one in (0, 1) if rank is None else (rank,):
            self.past[one].append((what, *which))
        connection = self.connections[which[0]] if which else None
        match what:
            case "opens":
                self._connect(rank)
            case "beat":
                self.beats[rank] -= 1
                self._beat(rank)
            case "hears":
                self._hear(rank, connection)
            case "misses":
                connection.unaware.discard(rank)
                connection.found_out.discard(rank)
                self.ends[rank].breaks(connection.names[rank])
            case "break":
                self.breaks -= 1
                self._lose(connection)
            case "cut":
                self.breaks -= 1
                self._break(connection)
            case "restart":
                self.restarts -= 1
                for one in self.connections:
                    if not one.broken:
                        self._lose(one)
                    one.under_way[1].clear()
                    one.unaware.discard(1)
                    one.found_out.discard(1)
                self._begin(1)

    def _connect(self, rank):
        names = {rank: self.dialled[rank], 1 - rank: f"connection {len(self.connections)}"}
        self.connections.append(Connection(rank, names))
        self.ends[rank].established(1 - rank)

    def _hear(self, rank, connection):
        self.ends[rank].hear(connection.names[rank], connection.under_way[rank].popleft())

    def _beat(self, rank):
        self.ends[rank].wait(1)

    def _break(self, connection):
        """Both learn of it after what is under way has come, the one that was dialled when it writes."""
        connection.broken, connection.unaware, connection.found_out = True, {0, 1}, {connection.dialler}

    def _lose(self, connection):
        """The same, and what is under way is lost."""
        for rank, messages in connection.under_way.items():
            self.past[rank].append(("lost", len(messages)))
            messages.clear()
        self._break(connection)

    def settle(self):
        """Let all happen that is under way, and some beats."""
        for _ in range(8):
            while following := [one for one in self.possible() if one[1] in ("opens", "hears", "misses")]:
                self.happen(following[0])
            for rank in (0, 1):
                self._beat(rank)

    # -- what must hold --------------------------------------------------------------------------------------------

    def uses(self, rank):
        """The number of the connection on which a rank writes."""
        link = self.ends[rank].core.members[1 - rank].link
        found = [number for number, one in enumerate(self.connections) if one.names[rank] == link and not one.broken]
        return found[0] if found else None

    def agree(self):
        """Both write on one connection, no other one is left, and each has the other's body, and gets the next."""
        self.settle()
        if not self.again and all(one.broken for one in self.connections):
            return
        assert self.uses(0) is not None
        assert self.uses(0) == self.uses(1)
        assert sum(not one.broken for one in self.connections) == 1
        assert self.bodies(0)
        before = {rank: dict(self.ends[rank].core.reports.counts) for rank in (0, 1)}
        for rank in (0, 1):
            self.ends[rank].runs(1)
        self.settle()
        assert self.bodies(1)
        assert {rank: dict(self.ends[rank].core.reports.counts) for rank in (0, 1)} == before

    def bodies(self, number):
        """Whether both have the other's body of a round."""
        return all(
            any(getattr(one, "number", None) == number and [*one.bodies] == [1 - rank] for one in end.ended)
            for rank, end in self.ends.items()
        )


def every_order(**options):
    """Check all orders in which what may happen can happen, and return how many there are.

    What happens to one of the two and what happens to the other commute: of such two orders only one is played.
    """
    orders, todo = 0, [([], frozenset())]
    while todo:
        path, asleep = todo.pop()
        pair = Pair(**options)
        for event in path:
            pair.happen(event)
        while following := pair.possible():
            awake = [event for event in following if event not in asleep]
            if not awake:
                break  # another order has the same outcome
            for number, event in enumerate(awake):
                others = {one for one in asleep | {*awake[:number]} if None not in (one[0], event[0])}
                sleeps = frozenset(one for one in others if one[0] != event[0])
                if number:
                    todo.append(([*path, event], sleeps))
                else:
                    first = event, sleeps
            path, asleep = [*path, first[0]], first[1]
            pair.happen(first[0])
        else:
            orders += 1
            try:
                pair.agree()
            except AssertionError as error:
                raise AssertionError(f"{path}") from error
    return orders


def drawn_orders(count, **options):
    """Check so many orders, drawn at random."""
    for seed in range(count):
        rng, pair, path = random.Random(seed), Pair(**options), []
        while following := pair.possible():
            path.append(rng.choice(following))
            pair.happen(path[-1])
        try:
            pair.agree()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {path}") from error


@pytest.mark.slow
def test_whatever_comes_first_both_use_one_link_in_the_end():
    assert every_order() > 50


@pytest.mark.slow
@pytest.mark.parametrize("dials", [(0,), (1,)])
def test_where_one_dials_a_link_that_breaks_or_a_process_that_begins_anew_changes_nothing(dials):
    assert every_order(dials=dials, restarts=1) > 10
    assert every_order(dials=dials, breaks=1) > 10


ACCIDENTS = [
    {"beats": 3}, {"breaks": 2, "beats": 1}, {"breaks": 1, "beats": 2, "again": False},
    {"restarts": 1, "breaks": 1, "beats": 2},
]  # fmt: skip


@pytest.mark.parametrize("accidents", ACCIDENTS, ids=str)
def test_nor_do_links_that_break_processes_that_begin_anew_and_links_that_are_given_up(accidents):
    drawn_orders(40, **accidents)


# -- one end -----------------------------------------------------------------------------------------------------------


def crossed(rank):
    """One of two that have dialled each other, with the answer on its own link; and that link."""
    other = 1 - rank
    table = Table(rank=rank, dialled=[other])
    table.established(other)
    table.hear(table.links[other], table.hello(other, reply=True))
    table.written(table.links[other])
    return table, table.links[other]


def test_the_link_of_the_lower_rank_stays():
    table, own = crossed(0)
    table.hear("from 1", table.hello(1))
    assert table.core.members[1].link == own
    assert table.kinds("from 1") == [], "the higher rank gives it up"
    assert not table.core.reports.counts


def test_the_higher_rank_gives_its_link_up_and_sends_again_on_the_other_one_what_went_there():
    table, own = crossed(1)
    table.runs(0)
    assert "body" in table.kinds(own)
    table.hear("from 0", table.hello(0))
    assert table.core.members[0].link == "from 0"
    assert table.closed == [own]
    assert [kind for kind in table.kinds("from 0") if kind != "chunk"] == ["hello", "body", "heartbeat"]


def test_what_is_under_way_on_the_other_link_is_read():
    """The answer on the lower rank's own link comes when the other one is in use."""
    table = Table(rank=0, dialled=[1])
    table.established(1)
    table.hear("from 1", table.hello(1))
    table.runs(0)
    own = table.links[1]
    table.hear(own, table.hello(1, reply=True))
    assert table.core.members[1].link == own
    table.hear("from 1", table.body(1, 0))
    assert table.inbox.has(1, 0)
    table.breaks("from 1")
    assert table.core.members[1].link == own


def test_a_link_that_is_not_established_yet_is_given_up_for_one_that_is():
    table = Table(rank=0, dialled=[1])
    own = table.links[1]
    table.hear("from 1", table.hello(1))
    assert table.closed == [own]


def test_a_link_that_is_not_heard_for_a_while_does_not_stay():
    """The neighbor has lost it, and dials by itself."""
    table, own = crossed(0)
    table.wait(4)
    table.hear("from 1", table.hello(1))
    assert table.core.members[1].link == own
    table.wait(1)
    table.hear("from 1", table.hello(1))
    assert table.core.members[1].link == "from 1"


def test_a_link_on_which_a_neighbor_that_is_heard_on_its_own_answers_no_hello_is_given_up():
    """What this peer says on it is lost on the way."""
    table = Table(rank=0, dialled=[1])
    table.established(1)
    table.hear("from 1", table.hello(1))
    for _ in range(4):
        table.wait(1)
        table.hear("from 1", table.beat(1, 0))
        assert not table.closed
    table.wait(1)
    assert table.closed == [table.links[1]]
    assert table.core.members[1].link == "from 1"


def test_a_rank_that_was_given_up_a_link_to_is_dialled_again_once_the_other_link_is_broken():
    table, own = crossed(1)
    table.hear("from 0", table.hello(0))
    table.wait(1)
    assert table.links[0] == own, "one link is enough"
    table.breaks("from 0")
    table.wait(1)
    assert table.links[0] != own


def test_of_two_links_that_one_end_has_dialled_the_later_one_lasts():
    table = Table()
    for link in ("from 2", "from 2 anew"):
        table.hear(link, table.hello(2))
    assert table.core.members[2].link == "from 2 anew"
