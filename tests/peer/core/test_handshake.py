"""Handshakes: which peers fit, and how a difference is named."""

import pytest

from dpeer.peer.core.handshake import difference, mismatch
from dpeer.peer.core.wire import Hello

MANIFEST = {
    "dtype": "float32",
    "count": 6,
    "parameters": [{"name": "conv.weight", "shape": [2, 3], "offset": 0}],
}

ROUNDS = 10


def hello(rank=0, **changes):
    fields = {"next_round": 4, "fingerprint": {"size": 8, "body_lr": 0.05}, "manifest": MANIFEST, "digest": "abc"}
    return Hello(rank=rank, **fields | changes)


def test_equal_peers_match():
    assert mismatch(hello(), hello(1), ROUNDS) is None


@pytest.mark.parametrize("theirs", [0, 3, 4, 5, 10])
def test_a_peer_that_is_rounds_apart_may_catch_up(theirs):
    assert mismatch(hello(), hello(1, next_round=theirs), ROUNDS) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": 7}, ["protocol: 8 here, 7 at rank 1: install a later dpeer at rank 1"]),
        ({"protocol": 9}, ["protocol: 8 here, 9 at rank 1: install a later dpeer here"]),
        ({"fingerprint": {"size": 8, "body_lr": 0.1}}, ["body_lr", "0.05 here", "0.1 at rank 1"]),
        ({"fingerprint": {"size": 8}}, ["body_lr", "0.05 here", "not set"]),
        ({"fingerprint": {"size": 8, "body_lr": 0.05, "noise": 1}}, ["noise", "not set", "1 at rank 1"]),
        (
            {"manifest": {**MANIFEST, "parameters": [{"name": "conv.weight", "shape": [2, 4], "offset": 0}]}},
            ["conv.weight", "[2, 3] here", "[2, 4] at rank 1"],
        ),
        ({"manifest": {**MANIFEST, "dtype": "float16"}}, ["dtype", "float32", "float16"]),
        ({"manifest": {}}, ["conv.weight", "not set"]),
        ({"manifest": {**MANIFEST, "count": 9, "extras": {"c": 3}}}, ["values beside the body", "{'c': 3}", "not set"]),
        ({"manifest": {**MANIFEST, "parameters": "junk"}}, ["conv.weight"]),
        ({"digest": "xyz"}, ["initial body", "abc", "xyz", "frozen parameters included", "before touching data"]),
        ({"next_round": 11}, ["rank 1 has completed 11 rounds", "10", "--rounds"]),
        ({"next_round": 2**52}, ["rank 1 has completed 4503599627370496 rounds"]),
    ],
)
def test_a_difference_is_named_with_both_values(changes, words):
    problem = mismatch(hello(), hello(1, **changes), ROUNDS)
    assert problem is not None
    assert "\n" not in problem
    for word in words:
        assert word in problem


# -- hashes that stand for names ---------------------------------------------------------------------------------------

NAMES = {"h1": "age", "h2": "blood group", "h3": "weight"}
HERE = {"h1": "a", "h2": "b", "h3": "c"}


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ({**HERE, "h1": "x"}, "schema: 'age' missing or different at rank 1"),
        ({"h1": ["x"], "h3": "c", "h4": "d"}, "schema: 'age', 'blood group' missing or different at rank 1"),
        ({**HERE, "h4": "d"}, "schema: 1 more at rank 1"),
        ("junk", "schema: {'h1': 'a', 'h2': 'b', 'h3': 'c'} here, 'junk' at rank 1"),
    ],
)
def test_the_own_names_that_differ_are_named(there, message):
    assert difference("schema", HERE, there, "rank 1", NAMES) == message


def test_of_many_names_the_first_are_listed():
    names = {f"h{n}": f"column {n}" for n in range(1000)}
    message = difference("input columns", dict.fromkeys(names, ""), {}, "rank 1", names)
    assert message.startswith("input columns: 'column 0', 'column 1',")
    assert message.endswith("and 992 more missing or different at rank 1")


def test_a_handshake_says_it_and_what_to_do():
    def of(rank, schema):
        return hello(rank, fingerprint={"size": 2, "schema": schema})

    message = mismatch(of(0, HERE), of(1, {**HERE, "h1": "x"}), 10, {"schema": NAMES})
    assert message == "schema: 'age' missing or different at rank 1: use the same schema.toml on both"
    assert mismatch(of(0, HERE), of(1, HERE), 10, {"schema": NAMES}) is None
    assert "schema: None here, {'h1': 'a', " in mismatch(of(0, None), of(1, HERE), 10, {"schema": {}})
