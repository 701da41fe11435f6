"""Gossip step of one peer: release the body, and replace it by the mix with what the neighbors released.

    x_i <- sum over j of W_ij z_j

in float32 and in rank order, for floating point addition does not commute to the bit. z_j is what rank j's payload
decodes to, the own one included, so that rounding on the wire hits all alike. A guard may leave bodies out or mix them
by a robust rule. With error feedback, what encoding lost of the own body is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dpeer.exceptions import ConfigurationError
from dpeer.training.codecs.base import Codec, Masked, Undecodable, check_size
from dpeer.training.device import host
from dpeer.training.errors import blame
from dpeer.training.flat import Exchanged, new_vector
from dpeer.training.mixing.guard import Guard, Vectors, distance
from dpeer.training.mixing.weighted_sum import all_finite
from dpeer.training.payload import Payload
from dpeer.training.setting_texts import Robust

Weigh = Callable[[Collection[int]], Mapping[int, float]]
"""Gives the weights of these ranks and the own."""


class Gossip:
    """Releases a peer's body, and mixes it with its neighbors' payloads.

    Args:
        body: The values that are sent and mixed.
        rank: This peer.
        codec: Makes payloads of values, and values of payloads.
        guard: Which bodies are left out, and how the others are mixed; None mixes all by their weights.

    Attributes:
        codec: The codec.
        state: The tensors that a resumed run needs besides the body, between two rounds; by name.
        disagreement: Of the last mix (`dpeer.training.mixing.gossip`); None where the release was no body, none
            was released, or no other body was mixed.
    """

    compares = True
    """Whether the release is compared with the mix."""

    adopts = True
    """Whether a mean of others' bodies can take the place of the own one."""

    def __init__(self, body: Exchanged, rank: int, codec: Codec, guard: Guard | None = None) -> None:
        self.codec = codec
        self._body, self._rank, self._guard = body, rank, guard or Guard(rank, Robust(), None)
        self._released: Vectors | None = None
        self.disagreement: float | None = None
        self.state: dict[str, Tensor] = {}

    @property
    def spent(self) -> dict[str, Any] | None:
        """The cost of privacy so far, JSON values; None where releases cost nothing."""
        return None

    def release(self, number: int, receivers: Sequence[int] = ()) -> Payload | None:
        """Round `number`'s body for all neighbors, in read-only buffers that never change again; None: say nothing."""
        with blame(f"codec {type(self.codec).__name__} failed in round {number}", kind=ConfigurationError):
            payload = self.codec.encode(self._body.data, number)
            self._released = self.codec.decode(payload)
            check_size(self.codec, payload)
        return payload

    def mix(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """Replace the body by the mix of the payloads and this peer's own release.

        A value that is not finite shows in the sum. Only if it does, payloads are looked into and the sum is made
        again: looking beforehand would read every payload once more.

        Returns:
            The ranks whose payload was not mixed, and why.
        """
        bodies, refused = self._all_decoded(received)
        distances: dict[int, float] = {}
        self.disagreement = None
        own, lost = self._released, self._lost()
        if self._guard.plain:
            if not self._add(bodies, weigh(bodies), distances):
                infinite = {rank: "not-finite" for rank, body in bodies.items() if not all_finite(body)}
                if infinite:
                    bodies = {rank: body for rank, body in bodies.items() if rank not in infinite}
                    self._add(bodies, weigh(bodies), distances)
                    refused |= infinite
        else:
            self._released, bodies = _on_host(self._own()), {rank: _on_host(body) for rank, body in bodies.items()}
            judged, distances = self._guard.judge(bodies, self._released)
            bodies = {rank: body for rank, body in bodies.items() if rank not in judged}
            self._add(bodies, weigh(bodies), distances)
            refused |= judged
        if self.compares and own is not None and bodies:
            first = sum(self._body.manifest.get("extras", {}).values())
            self.disagreement = disagreement(own, self._body.data, first)
        if lost is not None:
            with torch.no_grad():
                self._body.data.add_(lost)
        self._released = None
        return refused

    def adopt(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """Replace the body by the mix of the payloads alone. This peer's own values are out of date, and left out.

        Under a guard it is their weighted median in each coordinate: the own body is no measure of them any more. Where
        none of them is within `max_norm` of it, the body stays. Trackers stay as they are. The weights' sum is one.

        Returns:
            The ranks whose payload was not mixed, and why. With none left the body stays.
        """
        self._released = self.disagreement = None
        bodies, refused = self._all_decoded(received)
        refused |= {rank: "not-finite" for rank, body in bodies.items() if not all_finite(body)}
        bodies = {rank: body for rank, body in bodies.items() if rank not in refused}
        if bodies and not self._guard.plain:
            bodies = {rank: _on_host(body) for rank, body in bodies.items()}
            self._released = [new_vector(self._body.count)]
            replace(self._guard, robust=Robust("median")).mix(self._released[0], bodies, [], weigh(bodies), {})
            limit = math.inf if self._guard.max_norm is None else self._guard.max_norm
            far = [rank for rank, body in bodies.items() if distance(body, self._released) > limit]
            refused |= dict.fromkeys(far, "too-far")
        if len(refused) < len(received):
            trackers = [(part, self._body.data[part].clone()) for part in self._body.trackers]
            if self._released is None:
                self._add(bodies, weigh(bodies), {})
            else:
                self._add({}, {self._rank: 1.0}, {})
            with torch.no_grad():
                for part, values in trackers:
                    self._body.data[part].copy_(values)
        self._released = None
        return refused

    def rebase(self) -> None:
        """Count the next update from the body as it is now, where updates are counted from what mixing gave.

        Every change of the body since must be a function of what peers have released.
        """

    def _all_decoded(self, received: Mapping[int, Payload]) -> tuple[dict[int, Vectors], dict[int, str]]:
        """The bodies that can be decoded, and why the others cannot, by rank."""
        found = {rank: self._decoded(rank, payload) for rank, payload in received.items()}
        refused = {rank: body for rank, body in found.items() if isinstance(body, str)}
        return {rank: body for rank, body in found.items() if not isinstance(body, str)}, refused

    def _decoded(self, rank: int, payload: Payload) -> Vectors | str:
        """A body, or the reason to leave it out."""
        try:
            body = self.codec.decode(payload)
            return body if self._fits(body) else "wrong-size"
        except Undecodable as error:
            return error.reason
        except Exception:  # a hostile neighbor chooses the bytes, and a codec may be a user's own
            return "wrong-size"

    def _fits(self, body: Vectors) -> bool:
        return sum([vector.numel() for vector in body]) == self._body.count

    def _own(self) -> Vectors:
        """The released values, or a copy of the body where nothing was released."""
        if self._released is None:
            self._released = [host(self._body.data)]
        return self._released

    def _lost(self) -> Tensor | None:
        """The rest of the body that encoding lost, if it is to travel with a later release."""
        if self._released is None or not self.codec.error_feedback:
            return None
        lost = self._body.data.clone()
        for part, released in zip(
            torch.split(lost, [one.numel() for one in self._released]), self._released, strict=True
        ):
            part.sub_(released.to(part.device))
        return lost

    def _add(self, bodies: Mapping[int, Vectors], row: Mapping[int, float], distances: Mapping[int, float]) -> bool:
        """Replace the body by the sum, which may be repeated; returns whether all terms are known to be finite."""
        return self._sum(self._body.data, bodies, row, distances)

    def _sum(
        self, into: Tensor, bodies: Mapping[int, Vectors], row: Mapping[int, float], distances: Mapping[int, float]
    ) -> bool:
        """Write the mix into a vector like the body; returns whether all terms are known to be finite."""
        with torch.no_grad():
            return self._guard.mix(into, bodies, self._own(), row, distances)


def _on_host(body: Vectors) -> Vectors:
    """A body on the device of the comparison; one that is on it already is not copied."""
    return [vector.cpu() for vector in body]


COMPARED = 2**18
"""Values of a body that are compared, about: of a larger one runs of `_RUN` values, at equal distances."""

_RUN = 512
"""Enough for whole lines of the cache, few enough that each larger layer has some."""


def disagreement(own: Sequence[Tensor], mix: Tensor, first: int = 0) -> float | None:
    """||own - mix|| / ||mix||, in the Euclidean norm.

    Both are read only where they are compared, so the time has a bound whatever the body. The places depend on its size
    alone: the bits are the same however messages were cut. What an algorithm sends before the body, up to `first`, is
    left out.

    Returns:
        None where it is not finite, or the mix is zero.
    """
    apart = length = 0.0
    with torch.no_grad():
        for here, there in _compared(own, mix, first):
            values = there.cpu().reshape(-1)
            between = here.cpu().float().reshape(-1) - values
            apart += float(between.dot(between))
            length += float(values.dot(values))
    if not (math.isfinite(apart) and math.isfinite(length)) or length == 0.0:
        return None
    return math.sqrt(apart / length)


def _compared(own: Sequence[Tensor], mix: Tensor, first: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Views of the values that are compared, side by side."""
    step = -(-(mix.numel() - first) // COMPARED) * _RUN
    end = 0
    for vector in own:
        begin, end = end, end + vector.numel()
        start = max(begin, first)
        if step <= _RUN and start < end:
            yield vector[start - begin :], mix[start:end]
            continue
        start = first - (first - start) // step * step  # the next run
        if start + _RUN <= end:
            yield vector[start - begin :].unfold(0, _RUN, step), mix[start:end].unfold(0, _RUN, step)


class SparseGossip(Gossip):
    """A coordinate becomes the mean over the peers that hold it, weighted by the row.

    The weights of a coordinate are therefore not doubly stochastic. A mean of what others hold is no model: a peer that
    comes back adopts none, and goes on with its own.
    """

    codec: Masked
    compares = False  # masks differ: most coordinates would
    adopts = False

    def _fits(self, body: Vectors) -> bool:
        return True  # the codec has compared the values with their mask

    def _own(self) -> Vectors:
        if self._released is None:
            self._released = [self._body.data[self.codec.mask], self.codec.mask]
        return self._released

    def _sum(self, into: Tensor, bodies: Mapping[int, Vectors], row: Mapping[int, float], distances: Any) -> bool:
        own, device = self._own(), into.device
        total, weight = torch.zeros_like(into), torch.zeros_like(into)
        for rank in sorted(row):
            values, mask = (vector.to(device) for vector in (own if rank == self._rank else bodies[rank]))
            total[mask] += values * row[rank]
            weight[mask] += row[rank]
        into.copy_(torch.where(weight > 0, total / weight, 0.0))
        return bool(torch.isfinite(into).all())
