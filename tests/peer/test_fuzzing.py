"""The cases that the fuzzer has kept, and those that it began with."""

from tests.peer.fuzzing import CORPUS, case, messages, tried


def test_a_case_has_its_messages():
    several = [[b"a", b"", b"bc" * 300], [], [b"x"]]
    assert list(messages(case(*several))) == several


def test_a_case_that_is_cut_off_has_what_is_there():
    whole = case([b"abc"], [b"defg", b"h"])
    for length in range(len(whole)):
        for frames in messages(whole[:length]):
            assert b"".join(frames) in whole


def test_the_corpus_goes_every_way_and_fails_on_none():
    files = sorted(CORPUS.iterdir())
    assert sum(path.stat().st_size for path in files) < 200_000
    found = {kind for path in files for kind in tried(path.read_bytes())}
    assert found == {
        "hello", "heartbeat", "goodbye", "unknown", "body", "announced", "chunk",
        "malformed", "oversized", "incomplete", "stray", "short-piece",
    }  # fmt: skip
