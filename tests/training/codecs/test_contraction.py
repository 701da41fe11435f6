"""Codecs that send a part of each change (topk, powersgd): CHOCO-SGD in numpy, losses, and hostile bytes."""

import math

import numpy as np
import pytest
import torch

from dpeer.receivers import Receivers
from dpeer.training.codecs import Undecodable, compressed_bytes, new_codec
from dpeer.training.codecs.powersgd import add_products
from dpeer.training.codecs.sizes import HEADER, blocks
from dpeer.training.codecs.topk import largest
from dpeer.training.compress_setting import Compression
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.overlapped import THETA, Overlapped

SHAPES = ((24, 3, 5), (24,), (), (7, 30), (2, 2))
COUNT = sum(math.prod(shape) for shape in SHAPES)
KINDS = ["topk:0.1:0.3", "powersgd:2:0.3"]
SIZE = 4
RING = {rank: {other % SIZE: 1 / 3 for other in (rank - 1, rank, rank + 1)} for rank in range(SIZE)}

both = pytest.mark.parametrize("name", KINDS)


def values(seed):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(COUNT, dtype=np.float32))


def made(name, rank=0, start=None, seed=5):
    start = torch.zeros(COUNT) if start is None else start
    return new_codec(name, start, rank, steady=True, shapes=SHAPES, seed=seed)


def peers(name, kind=Gossip, size=SIZE):
    found = []
    for rank in range(size):
        body = Flat("body", [("w", torch.nn.Parameter(torch.zeros(COUNT)))])
        found.append((kind(body, rank, made(name, rank)), body))
    return found


def bytes_of(payload):
    return [bytes(one) for one in payload]


def size_of(payload):
    return sum(map(len, bytes_of(payload)))


class Play:
    """Rounds of peers on a ring, by hand: who hears whom, and what each has named as mixed."""

    def __init__(self, name, kind=Gossip):
        self.steps = peers(name, kind)
        self.confirmed = {rank: {} for rank in range(SIZE)}
        self.news = {rank: {} for rank in range(SIZE)}
        self.left = []

    def round(self, number, drift=0.1, lost=()):
        """A round in which the messages (sender, receiver) of `lost` do not come; gives the payloads."""
        payloads = {}
        for rank, (step, body) in enumerate(self.steps):
            body.data += drift * values(1000 * number + rank)
            neighbors = [other for other in RING[rank] if other != rank]
            step.push_to(Receivers(dict.fromkeys(neighbors, 1 / 3), (), dict(self.confirmed[rank])))
            self.confirmed[rank] |= self.news[rank]  # what a body of this round names comes after the release
            self.news[rank] = {}
            payloads[rank] = bytes_of(step.release(number))
        for rank, (step, _) in enumerate(self.steps):
            heard = {other: payloads[other] for other in RING[rank] if other != rank and (other, rank) not in lost}

            def weigh(ranks, rank=rank):
                row = {other: RING[rank][other] for other in ranks}
                return row | {rank: 1 - sum(row.values())}

            refused = step.mix(heard, weigh)
            assert {*refused.values()} <= {"stale"}
            for other in heard.keys() - refused.keys():
                self.news[other][rank] = number
            self.left.append((number, rank, sorted(refused)))
        return payloads

    @property
    def bodies(self):
        return np.stack([body.data.numpy().astype(float) for _, body in self.steps])


# -- against numpy ---------------------------------------------------------------------------------------------


def as_bfloat16(array):
    """To the nearest of the numbers whose lower 16 bits are zero, ties to even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


def largest_values(change, share):
    kept = np.zeros_like(change)
    chosen = np.lexsort((np.arange(COUNT), -np.abs(change)))[: math.ceil(share * COUNT)]
    kept[chosen] = as_bfloat16(change[chosen])
    return kept


def thin(payload):
    """What a payload of powersgd says, taken to pieces by hand."""
    sent = (np.frombuffer(payload[1], "<u2").astype(np.uint32) << 16).view(np.float32)
    found, first = [], 0
    for shape in SHAPES:
        rows, columns = (shape[0], math.prod(shape[1:])) if shape else (1, 1)
        if 2 * (rows + columns) < rows * columns:
            p = sent[first : first + 2 * rows].reshape(rows, 2)
            q = sent[first + 2 * rows : first + 2 * (rows + columns)].reshape(columns, 2)
            found.append((p @ q.T).reshape(-1))
            first += 2 * (rows + columns)
        else:
            found.append(sent[first : first + rows * columns])
            first += rows * columns
    assert first == len(sent)
    return np.concatenate(found)


@both
def test_rounds_are_those_of_choco_sgd_in_numpy(name):
    play = Play(name)
    x = np.zeros((SIZE, COUNT))
    y = np.zeros((SIZE, COUNT), np.float32)
    w = np.array([[RING[i].get(j, 0.0) for j in range(SIZE)] for i in range(SIZE)])
    for number in range(8):
        z = (x + [0.1 * values(1000 * number + rank).numpy() for rank in range(SIZE)]).astype(np.float32)
        payloads = play.round(number)
        for rank in range(SIZE):
            change = z[rank] - y[rank]
            kept = largest_values(change, 0.1) if name.startswith("topk") else thin(payloads[rank])
            y[rank] += kept
            assert size_of(payloads[rank]) == compressed_bytes(name, SHAPES)
        x = z + 0.3 * (w @ y - y)
        np.testing.assert_allclose(play.bodies, x, rtol=1e-4, atol=2e-5)


def test_low_rank_parts_are_projections_on_what_is_large():
    """A change of that rank travels as it is, and any other never grows."""
    codec, other = made(KINDS[1]), made(KINDS[1], 1)
    random = np.random.default_rng(0)
    parts = [random.standard_normal((shape[0], 2)) @ random.standard_normal((2, math.prod(shape[1:])))
             if len(shape) > 1 else random.standard_normal(shape) for shape in SHAPES]  # fmt: skip
    low = torch.from_numpy(np.concatenate([part.reshape(-1) for part in parts]).astype(np.float32))
    found = other.decode(0, bytes_of(codec.encode(low, 0)))[0]
    assert (found - low).norm() < 0.01 * low.norm()
    first = 0
    for number in range(5):
        x = values(number)
        rest = x - other.decode(0, bytes_of(made(KINDS[1], seed=number).encode(x, 0)))[0]
        for shape in SHAPES:
            here = slice(first, first := first + math.prod(shape))
            assert rest[here].norm() <= 1.01 * x[here].norm()
        first = 0
        assert rest.norm() < 0.95 * x.norm()


@pytest.mark.parametrize(("rows", "columns", "rank"), [(300, 257, 5), (3, 40_000, 2), (64, 1, 1), (1, 9, 3)])
def test_sums_of_low_rank_parts_are_the_same_bits_on_every_host(rows, columns, rank):
    """As float32 of numpy adds one product after the other, which takes no library for matrices."""
    generator = np.random.default_rng(rows)
    matrix, p, q = (
        generator.standard_normal(shape, np.float32) for shape in ((rows, columns), (rows, rank), (columns, rank))
    )
    p, q = (torch.from_numpy(one).bfloat16().float() for one in (p, q))
    found, expected = torch.from_numpy(matrix.copy()), matrix
    add_products(found, p, q)
    for one in range(rank):
        expected += p.numpy()[:, one, None] * q.numpy()[None, :, one]
    assert found.numpy().tobytes() == expected.tobytes()


def test_the_largest_values_are_chosen_and_of_equal_ones_the_first():
    random = np.random.default_rng(1)
    for size in (1, 2, 17, 100, 65535, 65536):
        for chosen in {1, max(1, size // 20), max(1, size // 2), size}:
            for array in (random.standard_normal(size), np.zeros(size), random.integers(-2, 3, size)):
                bits = array.astype(np.float32).view(np.int32) & 0x7FFFFFFF
                expected = np.sort(np.lexsort((np.arange(size), -np.abs(array)))[:chosen])
                assert np.array_equal(largest(bits, chosen), expected)


def test_several_blocks_and_a_short_last_one():
    count = 2 * 65536 + 3
    assert blocks(count, 0.01) == [(65536, 656), (65536, 656), (3, 1)]
    x = torch.from_numpy(np.random.default_rng(0).standard_normal(count, dtype=np.float32))
    codec = new_codec("topk:0.01", torch.zeros(count), 0, steady=True)
    payload = bytes_of(codec.encode(x, 0))
    found = codec.decode(1, payload)[0]
    assert size_of(payload) == compressed_bytes("topk:0.01", [(count,)]) == HEADER + 4 * 1313
    assert np.count_nonzero(found.numpy()) == 1313
    kept = found != 0
    np.testing.assert_allclose(found[kept], x[kept], rtol=2**-8)
    for first, last, least in ((0, 65536, 656), (65536, 131072, 656), (131072, count, 1)):
        inside = x[first:last].abs()
        assert kept[first:last].sum() == least
        assert inside[kept[first:last]].min() >= inside[~kept[first:last]].max()


# -- the mean, and consensus -----------------------------------------------------------------------------------


@both
def test_the_mean_is_kept(name):
    play, drifts = Play(name), np.zeros(COUNT)
    for number in range(12):
        drifts += 0.1 * np.mean([values(1000 * number + rank).numpy() for rank in range(SIZE)], axis=0)
        play.round(number)
        np.testing.assert_allclose(play.bodies.mean(axis=0), drifts, atol=1e-5)


def spreads(name, rounds=150):
    """How far random bodies are from their mean, round by round, where nothing is trained."""
    play, found = Play(name), []
    for rank, (_, body) in enumerate(play.steps):
        body.data.copy_(values(rank))
    mean = play.bodies.mean(axis=0)
    for number in range(rounds):
        play.round(number, drift=0.0)
        found.append(np.linalg.norm(play.bodies - mean))
    return found


@pytest.mark.parametrize("name", ["topk:0.1", "topk:0.3", "powersgd:2", "powersgd:4"])
def test_bodies_that_differ_come_together_with_the_steps_that_are_the_defaults(name):
    found = spreads(name)
    assert found[-1] < 0.5 * found[0]


@pytest.mark.parametrize("name", ["topk:0.05:1", "powersgd:1:0.9"])
def test_with_the_whole_step_they_do_not(name):
    found = spreads(name)
    assert found[-1] > found[0]


# -- losses ----------------------------------------------------------------------------------------------------


@both
def test_without_losses_all_values_never_travel(name):
    play = Play(name)
    sizes = {size_of(payload) for number in range(12) for payload in play.round(number).values()}
    assert sizes == {compressed_bytes(name, SHAPES)}
    assert [one for one in play.left if one[2]] == []


@both
def test_after_a_loss_changes_are_stale_until_all_values_have_come(name):
    play, whole = Play(name), []
    for number in range(12):
        payloads = play.round(number, lost={(0, 1)} if number == 3 else ())
        whole += [(number, rank) for rank, payload in payloads.items() if size_of(payload) == HEADER + 4 * COUNT]
    assert whole == [(6, 0)], "three rounds later the sender knows"
    assert [one for one in play.left if one[2]] == [(4, 1, [0]), (5, 1, [0])]


@both
def test_all_values_that_are_lost_come_again(name):
    play, whole = Play(name), []
    for number in range(16):
        payloads = play.round(number, lost={(0, 1)} if number in (3, 6) else ())
        whole += [number for payload in payloads.values() if size_of(payload) == HEADER + 4 * COUNT]
    assert whole == [6, 9]
    assert [one for one in play.left if one[2]][-1] == (8, 1, [0])


@both
def test_who_is_away_costs_nothing_and_who_will_adopt_gets_all_values(name):
    (step, body), *_ = peers(name)
    sizes = []
    for number in range(12):
        body.data += 0.1 * values(number)
        there = {1: number - 2, 2: min(number - 2, 2)}
        step.push_to(Receivers({1: 0.3, 2: 0.3}, [2], there, [2] if number in (8, 9) else []))
        sizes.append(size_of(step.release(number)))
        step.mix({}, lambda ranks: {0: 1.0})
    assert [number for number, size in enumerate(sizes) if size == HEADER + 4 * COUNT] == [8, 9]


@both
def test_after_a_return_all_values_travel_and_who_had_others_notices(name):
    """Two payloads of a round that differ, as of a peer that began the round again, are never taken for the same."""
    one, again, reader = made(name), made(name), made(name, 1)
    for number in range(2):
        first, second = one.encode(values(number), number), again.encode(values(number), number)
        assert bytes_of(first) == bytes_of(second)
        for codec in (one, again, reader):
            codec.decode(0, bytes_of(first))
            codec.mixed([0])
    again.forget([1])
    first, second = one.encode(values(2), 2), again.encode(values(2), 2)
    assert torch.equal(again.decode(0, second)[0], values(2))
    one.decode(0, first)
    reader.decode(0, bytes_of(first))
    for codec in (one, again, reader):
        codec.mixed([0])
    with pytest.raises(Undecodable, match="stale"):
        reader.decode(0, bytes_of(again.encode(values(3), 3)))
    reader.decode(0, bytes_of(one.encode(values(3), 3)))


@both
@pytest.mark.parametrize("rounds", [2, 4, 6])
def test_a_run_that_goes_on_from_its_state_has_the_same_bits(name, rounds):
    """Also in mid-loss: after round 3 a message has been lost, before round 6 it is not yet known."""

    def lost(number):
        return {(0, 1)} if number == 3 else ()

    whole, first, second = Play(name), Play(name), Play(name)
    for number in range(rounds):
        whole.round(number, lost=lost(number))
        first.round(number, lost=lost(number))
    for (before, body), (after, empty) in zip(first.steps, second.steps, strict=True):
        empty.data.copy_(body.data)
        after.restore({key: value.clone() for key, value in before.state().items()})
    second.confirmed, second.news = first.confirmed, first.news
    for number in range(rounds, 12):
        ours = whole.round(number, lost=lost(number))
        assert ours == second.round(number, lost=lost(number))
    assert np.array_equal(whole.bodies, second.bodies)


@both
def test_a_resumed_peer_that_has_heard_nobody_yet_sends_what_it_would_have_sent(name):
    play = Play(name)
    for number in range(6):
        play.round(number)
    (step, body), again = play.steps[0], peers(name)[0]
    again[1].data.copy_(body.data)
    again[0].restore({key: value.clone() for key, value in step.state().items()})
    again[0].push_to(Receivers({1: 1 / 3, 3: 1 / 3}))
    step.push_to(Receivers({1: 1 / 3, 3: 1 / 3}, (), dict(play.confirmed[0])))
    assert bytes_of(again[0].release(6)) == bytes_of(step.release(6))


def test_state_of_another_body_is_refused():
    play = Play(KINDS[0])
    play.round(0)
    state = play.steps[0][0].state()
    with pytest.raises(ValueError, match="parameters"):
        new_codec(KINDS[0], torch.zeros(7), 0, steady=True).restore(state)


# -- hostile and broken ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_body_that_was_not_finite_costs_one_payload_of_all_values(name, bad):
    codec, reader = made(name), made(name, 1)
    broken = values(0)
    broken[17] = bad
    sizes = []
    for number, x in enumerate([values(1), broken, values(2), values(3)]):
        payload = bytes_of(codec.encode(x, number))
        sizes.append(size_of(payload) > 4 * COUNT)
        found = codec.decode(0, payload)[0]
        codec.mixed([])
        assert bool(found.isfinite().all()) == (number != 1)
        if number != 1:
            assert torch.equal(reader.decode(0, payload)[0], found)
            reader.mixed([0])
    assert sizes == [False, True, True, False]


def test_places_that_are_impossible_are_refused():
    codec = made(KINDS[0], 1)
    header, places, kept = bytes_of(made(KINDS[0]).encode(values(0), 0))
    there = np.frombuffer(places, "<u2")
    codec.decode(0, [header, places, kept])
    twice, backwards, beyond = there.copy(), there[::-1].copy(), there.copy()
    twice[1], beyond[-1] = twice[0], COUNT
    for wrong in (twice, backwards, beyond):
        with pytest.raises(Undecodable, match="wrong-size"):
            codec.decode(0, [header, wrong.tobytes(), kept])
    for buffers in ([header, places], [header, places[:-2], kept], [header, places, kept[:-2]], [header, kept]):
        with pytest.raises((Undecodable, ValueError)):
            codec.decode(0, buffers)
    codec.mixed([0])


def test_a_base_that_was_never_sent_is_stale():
    codec = made(KINDS[0], 1)
    _, places, kept = bytes_of(made(KINDS[0]).encode(values(0), 0))
    with pytest.raises(Undecodable, match="stale"):
        codec.decode(0, [b"12345678", places, kept])


# -- settings, sizes, overlap ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int16", "int8", "int4", *KINDS])
def test_the_bytes_are_known_beforehand(name):
    codec = made(name)
    assert compressed_bytes(name, SHAPES) == size_of(codec.encode(values(0), 0)) <= codec.payload_bytes


def test_overlapped_rounds_mix_a_share_of_the_share_and_hear_of_losses_a_round_later():
    (step, _), *_ = peers(KINDS[0], Overlapped)
    assert step.mix_share == THETA * 0.3
    assert step.pushes
    for number, known in ((8, 4), (9, 4)):
        step.push_to(Receivers({1: 0.5}, (), {1: known}))
        step.release(number)
    assert step.codec.state()["whole"].tolist() == [0, 9], "in round 8 that was all that could be known"


def test_steps_are_read_and_have_defaults():
    assert made("topk:0.1:0.25").consensus_step == 0.25
    assert 0 < made("topk:0.01").consensus_step < made("topk:0.1").consensus_step <= 1
    assert 0 < made("powersgd:1").consensus_step <= made("powersgd:4").consensus_step < 1
    assert Compression.parse("powersgd:2:0.50").text == "powersgd:2:0.5"
