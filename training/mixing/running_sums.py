"""Mixing by running sums: push-sum that keeps the mean of all bodies where messages are lost in one direction.

Hadjicostis, Vaidya and Dominguez-Garcia, "Robust Distributed Average Consensus via Exchange of Running Sums", IEEE
Transactions on Automatic Control 61(6), 2016, with the weights of the listed graph in place of 1 / (1 + out-degree).
Peer j has a value x_j and a mass y_j, which begins as one. In a round it sends the sum of all that it has pushed so
far, and a receiver takes what has been added since the last sum that has come, however many were lost in between:

    s_j <- s_j + x_j,    x_i <- (1 - sum_l W_li) x_i + sum_j W_ij (s_j - r_ij),    r_ij <- s_j

and so with y. The model is x / y. Training adds y times the model's change to x, so that the model moves by just that.
In stochastic gradient push (Assran, Loizou, Ballas and Rabbat, ICML 2019) x grows by the change itself. Without losses
y is one, and both are the same; with them a model of mass 0.05 would move twenty times as far as training did.

A receiver that is away is not served: what would be pushed to it is kept. When it is heard again, it names the last sum
that it has taken, and what was pushed after that comes back. It is served again once it has named a sum to count from.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from dpeer.exceptions import ConfigurationError
from dpeer.receivers import Receivers
from dpeer.training.codecs.base import Undecodable
from dpeer.training.codecs.sums import MOST_APART, Sums, SumsCodec
from dpeer.training.device import host
from dpeer.training.flat import Exchanged
from dpeer.training.mixing.gossip import Gossip, Weigh
from dpeer.training.payload import Payload

_START = -1
"""The service that begins with the run: all sums are zero before it, and all peers know them."""

_NONE, _BEGINS = -1, -2
"""Of a receiver: it is not served; its service begins with the next release."""

_MOST = 16
"""Of how many rounds the own sums are kept after the last one that every receiver has taken: two where all are heard.
A silent one that takes a later one, and is served no more, loses what it has not taken up to the newest."""

_LEAST = 1e-12
"""A smaller mass gives no model."""


class RunningSums(Gossip):
    """Sends running sums, and takes the differences of those that come.

    x and y are kept in float64. The sums travel in float32: what rounding a sum keeps back stays in the own x, so no
    mass is lost, and a push is exact to about the number of rounds times 6e-8 of a value.

    Args:
        body: The values that are sent and mixed: the model.
        rank: This peer.
    """

    linear = False
    pushes = True

    codec: SumsCodec

    def __init__(self, body: Exchanged, rank: int) -> None:
        super().__init__(body, rank, SumsCodec(body.data, rank))
        self._totals = torch.zeros(body.count)
        self._total_mass = 0.0
        self._pushed: tuple[Tensor, float, float] | None = None
        # Of receivers: their weights, who is away, who is served otherwise than from the start, what they have taken.
        self._column: Mapping[int, float] = {}
        self._away: Collection[int] = ()
        self._apart: dict[int, int] = {}
        self._confirmed: dict[int, int] = {}
        self._sent: dict[int, tuple[Tensor, float]] = {}
        self._closed: dict[int, tuple[int, Tensor, float]] = {}
        self._silent: set[int] = set()
        self._opening: dict[int, int] = {}
        # Of senders: the service and the sum of it that were taken last, and their round.
        self._known: dict[int, tuple[int, Tensor, float] | None] = {}
        self._taken: dict[int, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Count from the body as it is."""
        self._model = host(self._body.data).clone()
        self._values, self._mass = self._model.double(), 1.0

    def push_to(self, receivers: Receivers) -> None:
        """See `Gossip.push_to`: those that are away are not served, and a payload has all that an adopter needs.

        Raises:
            ConfigurationError: More than a message can name.
        """
        count = len(receivers.column)
        if count > MOST_APART:
            raise ConfigurationError(f"--mixing running-sums: {count} receivers, and at most {MOST_APART} can be")
        self._column, self._away = dict(receivers.column), frozenset(receivers.away)
        for rank, number in receivers.confirmed.items():
            if self._apart.get(rank, 0) >= 0:  # what a receiver mixes that is not served has nothing for it
                self._confirm(rank, number)

    def _confirm(self, rank: int, number: int) -> None:
        self._confirmed[rank] = max(number, self._confirmed.get(rank, number))

    def release(self, number: int) -> Payload | None:
        """See `Gossip.release`; `push_to` has named the receivers."""
        self._values += self._mass * (host(self._body.data).double() - self._model.double())
        for rank in self._column:
            if rank in self._away:
                self._close(rank)
            elif rank in self._opening or (self._apart.get(rank) in (_NONE, _BEGINS) and rank not in self._silent):
                self._open(rank, number)
        before, mass_before = self._totals.double(), self._total_mass
        self._totals, self._total_mass = (before + self._values).float(), self._total_mass + self._mass
        served = [weight for rank, weight in self._column.items() if self._serves(rank, number)]
        self._pushed = self._totals.double() - before, self._total_mass - mass_before, math.fsum(served)
        self._remember(number)
        last = {rank: self._taken.get(rank, _START) for rank in self._column}
        return self.codec.pack(
            Sums(
                number, self._values.float(), self._mass, self._totals, self._total_mass,
                {rank: since for rank, since in self._apart.items() if rank in self._column},
                {rank: taken for rank, taken in last.items() if taken != number - 1},
            )
        )  # fmt: skip

    # -- receivers ---------------------------------------------------------------------------------------------

    def _serves(self, rank: int, number: int) -> bool:
        since = self._apart.get(rank)
        return since is None or 0 <= since < number

    def _open(self, rank: int, number: int) -> None:
        """Begin to serve a receiver once it has named a sum to count from; until then every one is such a sum."""
        if rank not in self._opening:
            self._recall(rank)
            self._opening[rank] = number
        if self._confirmed.get(rank, _START) >= self._opening[rank]:
            del self._opening[rank]  # pushes count from the last sum on
        else:
            self._apart[rank] = number

    def _close(self, rank: int) -> None:
        """Serve a receiver no longer."""
        since = self._apart.get(rank)
        if since is None or since >= 0:
            self._closed[rank] = _START if since is None else since, self._totals, self._total_mass
            if rank in self._known:  # it will name what it has taken
                self._silent.add(rank)
        self._apart[rank] = _NONE
        self._opening.pop(rank, None)

    def _recall(self, rank: int) -> None:
        """Take back what was pushed to a receiver and has not been taken."""
        if (closed := self._closed.pop(rank, None)) is None:
            return
        last = max(self._confirmed.get(rank, _START), closed[0])
        taken: tuple[Tensor, float] = torch.zeros(self._body.count), 0.0
        if last > _START:
            taken = next((sums for number, sums in sorted(self._sent.items()) if number >= last), closed[1:])
        weight = self._column.get(rank, 0.0)
        self._values += weight * (closed[1].double() - taken[0].double())
        self._mass += weight * (closed[2] - taken[1])

    def _remember(self, number: int) -> None:
        """Keep the sums that receivers may have taken last."""
        self._sent[number] = self._totals, self._total_mass
        since = {rank: self._closed[rank][0] if rank in self._closed else self._apart.get(rank, _START)
                 for rank in self._column}  # fmt: skip
        first = min((max(self._confirmed.get(rank, _START), one) for rank, one in since.items()), default=number)
        wanted = [one for one in sorted(self._sent) if one >= first]
        self._sent = {one: self._sent[one] for one in {*wanted[:_MOST], number}}

    # -- senders -----------------------------------------------------------------------------------------------

    def mix(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """See `Gossip.mix`. What does not come is taken with a later sum."""
        found: dict[int, Sums] = {}
        refused: dict[int, str] = {}
        for rank, payload in received.items():
            try:
                found[rank] = self.codec.unpack(payload)
            except Undecodable as error:
                refused[rank] = error.reason
        row = weigh(found)
        if self._pushed is not None:
            pushed, mass, share = self._pushed
            self._values -= share * pushed
            self._mass -= share * mass
        for rank in sorted(found):
            self._take(rank, found[rank], row[rank])
        self._pushed = None
        if self._mass > _LEAST:
            self._model = (self._values / self._mass).float()
            with torch.no_grad():
                self._body.data.copy_(self._model)
        return refused

    def _take(self, rank: int, sums: Sums, weight: float) -> None:
        """Take what a neighbor has pushed since its last sum that came, and what it says that it has taken."""
        self._silent.discard(rank)
        self._confirm(rank, min(sums.taken.get(self._rank, sums.number - 1), sums.number))
        since = sums.apart.get(self._rank)
        if since == _NONE:
            self._known[rank] = None
            return
        service = _START if since is None else since
        known = self._known.get(rank, (_START, torch.zeros(self._body.count), 0.0))
        if known is not None and known[0] == service and sums.total_mass >= known[2]:  # a sum never falls
            self._values += weight * (sums.totals.double() - known[1].double())
            self._mass += weight * (sums.total_mass - known[2])
        self._known[rank], self._taken[rank] = (service, sums.totals, sums.total_mass), sums.number

    def adopt(self, received: Mapping[int, Payload], weigh: Weigh, keep: Sequence[slice] = ()) -> dict[int, str]:
        """See `Gossip.adopt`. Sums and mass are not taken: the mass is one again."""
        refused = super().adopt(received, weigh, keep)
        if len(refused) < len(received):
            self._begin()
        return refused

    def forget(self, ranks: Collection[int]) -> None:
        """See `Gossip.forget`: what was on its way to them comes back, and both count anew."""
        for rank in ranks:
            self._close(rank)
            self._recall(rank)
            self._silent.discard(rank)
            self._known[rank], self._apart[rank] = None, _BEGINS

    def state(self) -> Mapping[str, Tensor]:
        """x, y and the sums, and by neighbor what it was served and what has come of it."""
        masses = torch.tensor([self._mass, self._total_mass], dtype=torch.float64)
        found = {
            "values": self._values, "masses": masses, "totals": self._totals, "model": self._model,
            "apart": _pairs(self._apart), "confirmed": _pairs(self._confirmed), "column": _pairs(self._column),
            "taken": _pairs(self._taken), "opening": _pairs(self._opening),
            "silent": _pairs(dict.fromkeys(self._silent, 1)),
        }  # fmt: skip
        kept = {f"sent/{number}": (_START, *sums) for number, sums in self._sent.items()}
        kept |= {f"closed/{rank}": sums for rank, sums in self._closed.items()}
        kept |= {f"known/{rank}": known or (_NONE, torch.zeros(0), 0.0) for rank, known in self._known.items()}
        for name, (since, totals, mass) in kept.items():
            found |= {f"{name}/totals": totals, f"{name}/mass": torch.tensor([since, mass], dtype=torch.float64)}
        return found

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Codec.restore`."""
        kept = {name: host(values).clone() for name, values in state.items()}
        sizes = {kept[name].shape for name in ("values", "totals", "model")}
        if sizes != {(self._body.count,)}:
            raise ValueError(f"running sums of {sizes}")
        self._values, self._totals, self._model = kept["values"], kept["totals"], kept["model"]
        self._mass, self._total_mass = (float(one) for one in kept["masses"])
        self._apart, self._confirmed, self._taken = (_table(kept[one]) for one in ("apart", "confirmed", "taken"))
        self._opening = _table(kept["opening"])
        self._silent = {*_table(kept["silent"])}
        self._column = {int(rank): float(weight) for rank, weight in kept["column"]}
        self._known, self._sent, self._closed = {}, {}, {}
        for name in (one.removesuffix("/totals") for one in kept if one.endswith("/totals")):
            kind, _, number = name.partition("/")
            totals, (since, mass) = kept[f"{name}/totals"], kept[f"{name}/mass"].tolist()
            if kind == "sent":
                self._sent[int(number)] = totals, mass
            elif kind == "closed":
                self._closed[int(number)] = int(since), totals, mass
            else:
                self._known[int(number)] = (int(since), totals, mass) if totals.numel() else None
        self._pushed = None


def _table(pairs: Tensor) -> dict[int, int]:
    """What `_pairs` was given, of whole numbers."""
    return {int(key): int(value) for key, value in pairs}


def _pairs(table: Mapping[int, float]) -> Tensor:
    """A table as rows of two numbers, shape (entries, 2), float64."""
    return torch.tensor(sorted(table.items()), dtype=torch.float64).reshape(-1, 2)
