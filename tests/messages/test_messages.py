"""Every error message, from one table per package or part of it: exception class, whole text, one line."""

import importlib
from pathlib import Path

import pytest

from tests.messages.message import Message

HERE = Path(__file__).parent
TABLES = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith(("test_", "message")))
LONGEST = 700


def messages() -> list[object]:
    """The tables' rows, each a test of its own."""
    rows: list[object] = []
    for room in TABLES:
        table: dict[str, Message] = importlib.import_module(f"tests.messages.{room}").MESSAGES
        rows += [pytest.param(message, id=f"{room}: {name}") for name, message in table.items()]
    return rows


@pytest.mark.parametrize("message", messages())
def test_an_error_names_the_value_and_what_is_right_in_one_line(message: Message, in_tmp_path: Path) -> None:
    with pytest.raises(message.error) as raised:
        message.run(in_tmp_path)
    text = str(raised.value)
    assert message.holds(in_tmp_path, text), text
    assert "\n" not in text
    assert len(text) <= LONGEST
