"""docs/design.md has the core's tables as they are."""

from dpeer.peer.core.membership import TRANSITIONS, Status
from tests.peer.core.drawn import PAGE, redrawn


def test_the_tables_of_the_design_are_those_of_the_core():
    page = PAGE.read_text()
    assert redrawn(page) == page, "python -m tests.peer.core.drawn"


def test_each_state_is_left_by_a_sign_and_reached_by_one():
    turns = {(before, after) for by_state in TRANSITIONS.values() for before, after in by_state.items()}
    changes = {(before, after) for before, after in turns if before is not after}
    assert {before for before, _ in changes} == {*Status}
    assert {after for _, after in changes} == {*Status} - {Status.UNSEEN}
