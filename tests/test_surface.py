"""No name that users and programs rely on comes or goes without a line of tests/surface.txt."""

import pytest

from tests.surface import FILE, surface


@pytest.mark.slow
def test_every_name_stands_in_the_file() -> None:
    stated, found = FILE.read_text(encoding="utf-8").splitlines(), surface()
    assert sorted({*stated} - {*found}) == [], "gone: if on purpose, `python -m tests.surface` writes the file anew"
    assert sorted({*found} - {*stated}) == [], "new: `python -m tests.surface` writes the file anew"
