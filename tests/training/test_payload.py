"""Bodies as bytes, and sums of them, against numpy's and torch's own conversions."""

import itertools

import numpy as np
import pytest
import torch

from dpeer.training.payload import encode, views, width, write
from dpeer.training.settings import WireDtype
from tests.training.small import DTYPES, normal

SPECIAL = [0.0, -0.0, 1.0, 1 / 3, -65504.0, 65519.0, 65520.0, 1e-8, 1e-40, 3e38, -3.4e38, 1.00390625, 1.01171875]

every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def bits_of(vector: np.ndarray, dtype: WireDtype) -> bytes:
    """Rounded to nearest, ties to even, by numpy."""
    if dtype == "float32":
        return vector.astype("<f4").tobytes()
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return vector.astype("<f2").tobytes()
    bits = vector.astype("<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


@every_dtype
def test_what_is_encoded_is_what_numpy_rounds_to(dtype: WireDtype) -> None:
    for vector in (torch.tensor(SPECIAL), normal(10_000), normal(10_000) * 1e-6, torch.tensor([np.inf, -np.inf])):
        expected = bits_of(vector.numpy(), dtype)
        encoded = encode(vector, dtype)
        assert bytes(encoded) == expected
        assert (encoded.readonly, encoded.format) == (True, "B")
        room = memoryview(bytearray(len(expected)))
        write(vector, dtype, room)
        assert bytes(room) == expected
        assert width(dtype) * vector.numel() == len(expected)


@every_dtype
def test_nan_stays_nan(dtype: WireDtype) -> None:
    (vector,) = views([encode(torch.tensor([np.nan, 1.0]), dtype)], 2, dtype)
    assert vector.isnan().tolist() == [True, False]


@every_dtype
def test_views_are_the_values_however_they_are_cut(dtype: WireDtype) -> None:
    vector = normal(1000)
    whole = encode(vector, dtype)
    expected = vector.to(DTYPES[dtype])
    for cuts in ([], [4], [4, 8, 1200], [0, 1996], [12, 12]):
        parts = [whole[a:b] for a, b in itertools.pairwise([0, *cuts, whole.nbytes])]
        found = views(parts, 1000, dtype)
        assert torch.equal(torch.cat(found), expected)
        assert {one.dtype for one in found} == {DTYPES[dtype]}
