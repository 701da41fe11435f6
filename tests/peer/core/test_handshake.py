import pytest

from dpeer.peer.core.handshake import in_short, mismatch
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
def test_who_is_rounds_apart_may_catch_up(theirs):
    assert mismatch(hello(), hello(1, next_round=theirs), ROUNDS) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": 1}, ["protocol version", "4 here", "1 at rank 1"]),
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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"protocol": 1, "fingerprint": {}}, "protocol version differs"),
        ({"fingerprint": {"size": 8, "body_lr": 0.1234}}, "body_lr differs"),
        ({"fingerprint": {"size": 8}}, "body_lr differs"),
        (
            {"fingerprint": {"size": 8, "body_lr": 0.05, "secret \x1b[2J": 1}},
            "a setting differs that is not known here",
        ),
        ({"manifest": {"secret": 1}}, "the parameters of the body differ"),
        ({"digest": "secret"}, "the initial body differs"),
        ({"next_round": 11}, "it has run more rounds than there are"),
    ],
)
def test_others_are_told_what_differs_and_nothing_that_came_from_the_other_side(changes, said):
    assert in_short(hello(), hello(1, **changes)) == said
