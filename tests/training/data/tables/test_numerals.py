"""Numbers of a whole column at once, held against those of its cells."""

from hypothesis import example, given
from hypothesis import strategies as st

from dpeer.training.data.tables.numerals import all_numbers, as_number, is_code

CELLS = st.from_regex(r"-?[0-9]{0,3}(\.[0-9]{0,3})?", fullmatch=True) | st.text("0123456789.-, e+", max_size=20)


@given(st.lists(CELLS, max_size=4), st.sampled_from([".", ",", ""]), st.booleans())
@example(["0.5", "-.5", "7.", "-0"], ".", False)
@example(["-007"], ".", False)
@example(["1" * 16], ".", False)
@example(["9" * 40], ".", True)
def test_numbers_at_once_are_those_of_the_cells(cells: list[str], decimal: str, codes: bool) -> None:
    found = all_numbers(cells, decimal, codes=codes)
    one_by_one = [None if not codes and is_code(cell, decimal) else as_number(cell, decimal) for cell in cells]
    if found is not None:
        assert found.tolist() == one_by_one
    elif decimal == "." and all(set(cell) <= set("0123456789.-") for cell in cells):
        assert None in one_by_one
