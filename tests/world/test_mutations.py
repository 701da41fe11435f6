"""Mutations of the protocol's base rules: drawn schedules of the family `faults`, or a fixed one, find each."""

import asyncio

from dpeer.peer import driver
from dpeer.peer.core.bodies import Inbox, Outbox
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.membership import Dialling, Membership, Status
from dpeer.peer.core.send_queue import SendQueue
from dpeer.peer.rounds import RoundLoop
from dpeer.results.records import RoundRecord
from dpeer.simulation.network import Conditions
from dpeer.topology import Row
from tests.world.checking import found_in
from tests.world.disk import Files
from tests.world.faults import Fault
from tests.world.learner import WorldLearner
from tests.world.scenario import Scenario


def wait_for_no_peer(patch):
    patch.setattr(Exchange, "awaited", lambda self, number, now: [])


def settle_too_early(patch):
    patch.setattr(Exchange, "unsettled", lambda self, number, now: [])


def leave_at_once(patch):
    patch.setattr(Exchange, "unfinished", lambda self, rounds, now: [])


def resend_nothing(patch):
    patch.setattr(Outbox, "ask", lambda self, rank, current_round: None)
    patch.setattr(Exchange, "parted", lambda self, rank, unfinished: None)


def resend_only_the_newest(patch):
    def ask(self, rank, current_round):
        number = max(self, default=-1)
        if number >= current_round and rank in self[number].receivers:
            self[number].unsent.add(rank)

    patch.setattr(Outbox, "ask", ask)


def send_too_early(patch):
    patch.setattr(Membership, "heard", _claiming(Membership.heard, 1))


def _claiming(heard, more):
    return lambda self, neighbor, number, now: heard(self, neighbor, number + more, now)


def beat_before_the_bodies(patch):
    choose = SendQueue._choose

    def hasty(self):
        if self._beat is not None:
            heartbeat, self._beat = self._beat, None
            return heartbeat()
        return choose(self)

    patch.setattr(SendQueue, "_choose", hasty)


def keep_stale_bodies(patch):
    def take(self, number, ranks):
        here = {**self._rounds.get(number - 1, {}), **self._rounds.get(number, {})}
        self.earliest = number + 1
        return {rank: here[rank] for rank in sorted(ranks) if rank in here}

    patch.setattr(Inbox, "take", take)
    patch.setattr(Inbox, "open", lambda self, number: setattr(self, "earliest", number))


def keep_every_body(patch):
    patch.setattr(Outbox, "reach", lambda self, number: None)


def mix_twice(patch):
    mix = WorldLearner.mix_sound

    def again(self, received, weigh):
        mix(self, received, weigh)
        return mix(self, received, weigh)

    patch.setattr(WorldLearner, "mix_sound", again)


def charge_late(patch):
    release = WorldLearner.release

    def late(self, number, receivers=()):
        payload = release(self, number)
        ledger = self._world.disks[self.rank].ledger
        line = ledger.pop()
        asyncio.get_running_loop().call_later(2, ledger.append, line)
        return payload

    patch.setattr(WorldLearner, "release", late)


def never_dial_again(patch):
    patch.setattr(Dialling, "overdue", lambda self, link, heard_at, now: False)


def never_take_a_peer_for_dead(patch):
    patch.setattr(Membership, "tick", lambda self, now: [])


def never_sit_out(patch):
    patch.setattr(driver.Driver, "behind", lambda self, number: False)


def never_come_back(patch):
    greet, heard = Membership.greet, Membership.heard

    def unforgiving_greet(self, rank, link, number, now):
        return False if self[rank].away else greet(self, rank, link, number, now)

    def unforgiving_heard(self, neighbor, number, now):
        return False if neighbor.away else heard(self, neighbor, number, now)

    patch.setattr(Membership, "greet", unforgiving_greet)
    patch.setattr(Membership, "heard", unforgiving_heard)


def show_no_grace(patch):
    waited_for = Membership.waited_for

    def hard(self, rank, number, now):
        return self[rank].status is not Status.GONE and waited_for(self, rank, number, now)

    patch.setattr(Membership, "waited_for", hard)


def forget_the_last_release(patch):
    take_up = Files.take_up

    def forgetful(self):
        if self._disk.saved is not None:
            self._disk.saved.released = None
        return take_up(self)

    patch.setattr(Files, "take_up", forgetful)


def go_on_before_it_is_saved(patch):
    patch.setattr(RoundLoop, "_once_saved", lambda self, call: call())


def mix_with_the_whole_row(patch):
    patch.setattr(Row, "restricted_to", lambda self, received: self)


def send_to_all_peers(patch):
    release = Exchange.release

    def generous(self, number, payload):
        release(self, number, payload)
        if payload is not None:
            every_rank = tuple(one.rank for one in self._members.all())
            self.outbox[number].receivers = every_rank
            self.outbox[number].unsent.update(set(every_rank) - self.outbox[number].sent)
            self.deliver()

    patch.setattr(Exchange, "release", generous)


def count_every_round_as_mixed(patch):
    """A round in which a peer mixed nothing looks like any other."""
    as_dict = RoundRecord.as_dict

    def proud(self):
        return as_dict(self) | {"heard": sorted({*self.heard, *self.missed}), "missed": []}

    patch.setattr(RoundRecord, "as_dict", proud)


_FULL = Conditions(latency=(0.001, 0.8), capacity=2, chunk_bytes=16)
"""Of links that take few messages, so that some wait."""

_STOPS = tuple(Fault("stop", (rank,), round(2 + 0.33 * rank, 2), 3.0) for rank in range(4))
"""A whole federation is stopped, one peer a while after the other."""

MUTATIONS = {
    wait_for_no_peer: 0,
    settle_too_early: 188,
    leave_at_once: Scenario(1, "one-way", 4, 6, disk=(0.0,), faults=(Fault("crash", (1,), 1.2, 2.0, round=5),)),
    resend_nothing: 35,
    resend_only_the_newest: Scenario(1, "ring", 4, 8, disk=(2.0,), faults=(Fault("crash", (1,), 1.6, 1.0, round=3),)),
    send_too_early: 0,
    beat_before_the_bodies: Scenario(1, "ring", 4, 8, conditions=_FULL, faults=(Fault("stall", (0, 1), 2.0, 4.0),)),
    keep_stale_bodies: 0,
    keep_every_body: 0,
    mix_twice: 0,
    charge_late: 0,
    never_dial_again: 6,
    never_take_a_peer_for_dead: 0,
    never_sit_out: 132,
    never_come_back: 6,
    show_no_grace: Scenario(0, "ring", 4, 12, pace=0.3, disk=(0.0,), faults=_STOPS),
    forget_the_last_release: 52,
    go_on_before_it_is_saved: Scenario(1, "ring", 4, 8, disk=(2.0,), faults=(Fault("crash", (1,), 3.0, 1.0),)),
    mix_with_the_whole_row: 1,
    send_to_all_peers: 0,
    count_every_round_as_mixed: 6,
}

test_a_mutation_is_found = found_in("faults", MUTATIONS)
