"""One error message of the table: its cause, its class and its whole text."""

import asyncio
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Message:
    """`cause(folder)` raises `error` with `text`.

    The folder is empty and the working directory. In `text`, `{folder}` is its path and `…` is any text within a line.
    """

    cause: Callable[[Path], Any]
    error: type[Exception]
    text: str

    def holds(self, folder: Path, message: str) -> bool:
        """Whether `message` is the text."""
        pattern = re.escape(self.text.replace("{folder}", str(folder))).replace("…", ".*")
        return re.fullmatch(pattern, message) is not None

    def run(self, folder: Path) -> None:
        """Run the cause, to its end where it is a coroutine."""
        found = self.cause(folder)
        if inspect.isawaitable(found):
            asyncio.run(_wait(found))


async def _wait(found: Any) -> None:
    await found


def file(name: str, content: str, use: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """A cause: `use(path)` of a file that holds `content`."""

    def cause(folder: Path) -> Any:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return use(path)

    return cause
