"""Quantization against plain formulas over whole vectors, in pieces and in rounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from dpeer.training import Hyperparameters, TorchLearner, build_learner
from dpeer.training.codecs import quantized
from dpeer.training.codecs.quantized import BLOCK, Quantized, blocks, dequantize, packed, quantize
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import Gossip as Step
from tests.training.small import left_out, mix, small_task

Floats = NDArray[np.float32]
PIECE = 3 * BLOCK
"""Short pieces, so that few values are several."""

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # of what is not finite, in numpy


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantized, "PIECE", PIECE)


def plain(values: Floats, base: Floats, bits: int) -> tuple[bytes, bytes, Floats]:
    """Scales, codes and what they stand for, of all values at once."""
    most, change = 2 ** (bits - 1) - 1, np.zeros((blocks(len(values)), BLOCK), np.float32)
    change.reshape(-1)[: len(values)] = values - base
    scales = np.abs(change).max(axis=1, initial=0) / np.float32(most)
    steps = np.nan_to_num(np.rint(change / scales[:, None]), nan=0.0, posinf=0.0, neginf=0.0).clip(-most, most)
    steps = steps.astype(np.int16).reshape(-1)[: len(values)]
    codes = steps.astype(f"<i{max(bits // 8, 1)}").tobytes()
    if bits == 4:
        halves = [int(step) + 8 for step in steps] + [0] * (len(steps) % 2)
        codes = bytes(low | high << 4 for low, high in zip(halves[::2], halves[1::2], strict=True))
    return scales.tobytes(), codes, base + steps.astype(np.float32) * np.repeat(scales, BLOCK)[: len(values)]


def ours(values: Floats, base: Floats, bits: int) -> tuple[bytes, bytes, Floats]:
    scales, codes = bytearray(b"\xff" * 4 * blocks(len(values))), bytearray(b"\xff" * packed(len(values), bits))
    known = torch.from_numpy(base)
    released = quantize(torch.from_numpy(values), known, bits, memoryview(scales), memoryview(codes))
    found = dequantize(known, bits, memoryview(bytes(scales)), memoryview(bytes(codes)))
    assert released.numpy().tobytes() == found.numpy().tobytes(), "the own values are what receivers read, to the bit"
    return bytes(scales), bytes(codes), found.numpy()


def drawn(count: int) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(count)
    base = generator.standard_normal(count, dtype=np.float32)
    return base + np.float32(0.01) * generator.standard_normal(count, dtype=np.float32), base


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 1025, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 777])
def test_the_bytes_are_those_of_the_plain_formula(count: int, bits: int) -> None:
    values, base = drawn(count)
    expected = plain(values, base, bits)
    found = ours(values, base, bits)
    assert found[:2] == expected[:2]
    assert found[2].tobytes() == expected[2].tobytes()


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("place", [0, BLOCK + 5, PIECE + 1, 2 * PIECE + 3])
@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", "3e38", "1e-44", "block of zeros", "tiny block", "minus zero"])
def test_unusual_values_in_one_piece_change_no_other(odd: str, place: int, bits: int) -> None:
    values, base = drawn(2 * PIECE + 5)
    block = slice(place // BLOCK * BLOCK, place // BLOCK * BLOCK + BLOCK)
    if odd == "block of zeros":
        values[block] = base[block]
    elif odd == "tiny block":  # scales that are not exact, or none at all
        base[block] = 0
        values[block] = np.float32(1e-45) * np.arange(len(values[block]), dtype=np.float32)
    elif odd == "minus zero":  # a step of minus zero is an integer zero
        base[block], values[place] = -0.0, 1.0
        values[block][1:] = -1e-9
    else:
        values[place] = np.float32(odd)
    found, expected = ours(values, base, bits), plain(values, base, bits)
    assert found[:2] == expected[:2]
    np.testing.assert_array_equal(found[2].view(np.int32), expected[2].view(np.int32))


# Quantized changes in rounds (--compress int8).

SIZE = 4
COUNT = 6 * 150 + 150 + 150 * 3 + 3  # two blocks, the second short


def net() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 150), nn.Tanh(), nn.Linear(150, 3))


def peers(bits: int | None, size: int = SIZE) -> list[TorchLearner]:
    compress = {} if bits is None else {"compress": f"int{bits}"}
    h = Hyperparameters(body_lr=0.1, body_epochs=2, batch_size=16, lr_decay=0.9, **compress)
    tasks = [small_task(rank, model=net(), head=("2",)) for rank in range(size)]
    return [build_learner(task, "dfedavgm", h, rank=i, seed=0) for i, task in enumerate(tasks)]


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_rounds_are_those_of_a_computation_in_numpy(bits: int) -> None:
    learners = peers(bits)
    start = learners[0].body.numpy().copy()
    for number in range(4):
        for ours in learners:
            ours.train(number)
        z = [ours.body.numpy().copy() for ours in learners]
        sent = [ours.release(number) or [] for ours in learners]
        y = []
        for rank, ours in enumerate(learners):
            *payload, released = plain(z[rank], start, bits)
            assert [bytes(part) for part in sent[rank]] == payload
            y.append(released)
            # The release changes nothing of the own body, and no value is wrong by more than half a step.
            assert np.array_equal(ours.body.numpy(), z[rank])
            for first in (0, 1024):
                here = slice(first, first + 1024)
                step = np.abs(z[rank] - start)[here].max() / (2 ** (bits - 1) - 1)
                assert np.abs(z[rank] - released)[here].max() <= 0.5001 * step + 1e-7
        for rank, ours in enumerate(learners):
            row = {j % SIZE: 1 / 3 for j in (rank - 1, rank, rank + 1)}
            assert [left_out(ours, j, sent[j]) for j in row if j != rank] == [None, None]
            mix(ours, {j: sent[j] for j in row if j != rank}, row)
            # What rounding took from the own change stays at home.
            mixed = sum(w * y[j] for j, w in row.items()) + z[rank] - y[rank]
            np.testing.assert_allclose(ours.body.numpy(), mixed, rtol=0, atol=1e-6)


@pytest.mark.parametrize("bits", [4, 8])
def test_a_change_too_small_for_a_step_is_not_lost(bits: int) -> None:
    """One value swings by 1 and so decides about the steps; the other drifts by 0.4 of a step a round."""
    flats = [Flat("model", [("w", nn.Parameter(torch.zeros(2)))]) for _ in range(2)]
    steps = [Step(flat, rank, Quantized(flat.data, rank, bits)) for rank, flat in enumerate(flats)]
    drift = 0.4 / (2 ** (bits - 1) - 1)
    for number in range(40):
        for flat in flats:
            flat.data += torch.tensor([(-1.0) ** number, drift])
        sent = [step.release(number) for step in steps]
        for rank, step in enumerate(steps):
            step.mix({1 - rank: sent[1 - rank]}, lambda ranks: {0: 0.5, 1: 0.5})
    for flat in flats:
        assert flat.data[1].item() == pytest.approx(40 * drift, abs=2 * drift)
