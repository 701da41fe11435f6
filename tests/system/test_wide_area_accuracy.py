"""The minutes of `wide_area_accuracy.py` are those of a schedule that is drawn by hand."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MINUTE = 60


@pytest.fixture
def program(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("wide_area_accuracy")


@pytest.fixture
def shape(program):
    """A line that takes ten minutes for 100 bytes, and two for a round trip."""
    return program.Shape(bytes_per_second=10 / MINUTE, round_trip=2 * MINUTE)


LINE = {"bytes": [100, 100, 100], "accuracy": {"0": 0.5, "2": 0.7}, "parameters": 1}


def test_a_round_trains_and_then_exchanges(program, shape):
    assert program.ends(LINE, "int8", shape, train=5 * MINUTE) == pytest.approx([17, 34, 51])


def test_overlapped_rounds_last_as_long_as_the_longer_of_the_two(program, shape):
    row = "int8-overlap"
    assert program.ends(LINE, row, shape, train=5 * MINUTE) == pytest.approx([17, 29, 41])
    # Trained: until 20, 40, 60; the bodies of the last round travel after that.
    assert program.ends(LINE, row, shape, train=20 * MINUTE) == pytest.approx([40, 60, 72])


def test_accuracy_counts_once_its_round_has_ended(program, shape):
    at = [program.accuracy_at(LINE, "int8", shape, 5 * MINUTE, minutes) for minutes in (16, 18, 50, 52)]
    assert at == [0.0, 0.5, 0.5, 0.7]


def test_a_target_is_reached_by_the_mean_of_all_seeds(program, shape):
    other = {**LINE, "accuracy": {"0": 0.7, "2": 0.9}}
    rounds, mb, minutes = program.reaches([LINE, other], "int8", shape, 5 * MINUTE, 0.6)
    assert (rounds, mb, minutes) == (1, pytest.approx(100e-6), pytest.approx(17))
    assert program.reaches([LINE, other], "int8", shape, 5 * MINUTE, 0.75)[0] == 3
    with pytest.raises(LookupError):
        program.reaches([LINE, other], "int8", shape, 5 * MINUTE, 0.85)
