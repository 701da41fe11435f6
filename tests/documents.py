"""Commands that README, CONTRIBUTING and the pages of docs/ print, and what else of a page can be looked up."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"(dpeer|make|pip|pipx|uv|(\S*/)?python3?) [\w-]")
OTHER_LANGUAGES = ("python", "toml", "json")
Printed = list[str] | None


def found_in(page: Path) -> Iterator[tuple[str, int, Printed]]:
    """Commands, the number of their line, and what the page shows that they print."""
    language: str | None = None
    printed: Printed = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines()):
        if line.startswith("```"):
            language, printed = (None if language is not None else line.removeprefix("```").strip()), None
            continue
        block = language is not None or line.startswith("    ")
        if block and language not in OTHER_LANGUAGES:
            typed = line.strip().startswith("$ ")
            if typed:
                printed = []
            elif printed is not None:
                printed.append(line)
            command = line.strip().removeprefix("$ ").partition("  # ")[0].strip()
            if COMMAND.match(command):
                yield command, number, printed if typed else None
        elif not block:
            printed = None
            for code in re.findall(r"`([^`]+)`", line):
                if COMMAND.match(code):
                    yield code, number, None


@dataclass
class Place:
    page: Path
    number: int
    printed: Printed

    @property
    def around(self) -> str:
        """The text beside it: what stands up to four lines before or after."""
        lines = self.page.read_text(encoding="utf-8").splitlines()
        return " ".join(" ".join(lines[max(0, self.number - 4) : self.number + 5]).split())


PLACES: dict[str, list[Place]] = {}
for _page in PAGES:
    for _command, *_rest in found_in(_page):
        PLACES.setdefault(_command, []).append(Place(_page, *_rest))


def printed_in_readme(language: str) -> list[str]:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)
