"""A difference between hashes of names is told by the names of one's own side."""

import pytest

from dpeer.peer.core.handshake import difference, mismatch
from dpeer.peer.core.wire import Hello

NAMES = {"h1": "age", "h2": "blood group", "h3": "weight"}
HERE = {"h1": "a", "h2": "b", "h3": "c"}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({**HERE, "h1": "x"}, "schema: 'age' is not defined alike here and at rank 1"),
        ({**HERE, "h1": "x", "h3": "y"}, "schema: 'age', 'weight' are not defined alike here and at rank 1"),
        ({"h1": "a", "h3": "c"}, "schema: 'blood group' is here and not at rank 1"),
        ({**HERE, "h4": "d"}, "schema: rank 1 has 1 that is not here"),
        (
            {"h1": "x", "h4": "d", "h5": "e"},
            "schema: 'age' is not defined alike here and at rank 1, 'blood group', 'weight' are here and not at rank "
            "1, rank 1 has 2 that are not here",
        ),
        (None, "schema: 3 of them here, not set at rank 1"),
        ("junk", "schema: 3 of them here, 'junk' at rank 1"),
        ({"h1": ["x"], "h2": "b", "h3": "c"}, "schema: 'age' is not defined alike here and at rank 1"),
    ],
)
def test_the_own_names_that_differ_are_named(there, said):
    assert difference("schema", HERE, there, "rank 1", NAMES) == said


def test_of_many_names_the_first_are_listed():
    names = {f"h{n}": f"column {n}" for n in range(1000)}
    said = difference("input columns", dict.fromkeys(names, ""), {}, "rank 1", names)
    assert said.startswith("input columns: 'column 0', 'column 1',")
    assert said.endswith("and 992 more are here and not at rank 1")


def test_a_handshake_says_it_and_what_to_do():
    def hello(rank, schema):
        return Hello(rank=rank, next_round=0, fingerprint={"size": 2, "schema": schema}, manifest={}, digest="")

    theirs = hello(1, {**HERE, "h1": "x"})
    said = mismatch(hello(0, HERE), theirs, 10, {"schema": NAMES})
    assert said == "schema: 'age' is not defined alike here and at rank 1: use the same schema.toml on both"
    assert mismatch(hello(0, HERE), hello(1, HERE), 10, {"schema": NAMES}) is None
    assert "schema: not set here, 3 of them at rank 1" in mismatch(hello(0, None), hello(1, HERE), 10, {"schema": {}})
