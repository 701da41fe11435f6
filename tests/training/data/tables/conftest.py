"""A small hospital: its table as people have it, and the schema of its federation."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")

SCHEMA = """
format = 1
missing = ["NA", "?"]

[target]
column = "outcome"
classes = ["well", "ill"]

[columns.age]
kind = "number"
unit = "years"
range = [0, 120]

[columns."weight kg"]
kind = "number"
unit = "kg"
range = [1, 301]
filling = 70

[columns.blood]
kind = "category"
values = ["B", "A", "AB", 0]

[columns.smoker]
kind = "yes-no"
yes = ["yes", "ja", 1]
no = ["no", "nein", 0]

[columns.admitted]
kind = "date"
format = ["%Y-%m-%d", "%d.%m.%Y"]
since = 2020-01-01
range = [2015-01-01, 2030-12-31]

[columns.complaint]
kind = "text"
size = 16

[columns.patient]
kind = "group"

[columns.note]
kind = "ignore"
"""

HEADER = ("age", "weight kg", "blood", "smoker", "admitted", "complaint", "patient", "note", "outcome")


def rows(count: int = 60, seed: int = 0) -> list[dict[str, str]]:
    """Rows with gaps, words not in the schema, and a patient for each three."""
    draw = random.Random(seed)
    return [
        {
            "age": draw.choice(["", str(draw.randint(18, 90)), str(draw.randint(18, 90))]),
            "weight kg": draw.choice(["NA", f"{draw.gauss(75, 12):.1f}", f"{draw.gauss(75, 12):.1f}"]),
            "blood": draw.choice(["A", "B", "AB", "0", "0.0", "XX", "?"]),
            "smoker": draw.choice(["Yes", "NEIN", "1", "0", ""]),
            "admitted": draw.choice([f"2024-03-{draw.randint(1, 28):02d}", "07.11.2021", ""]),
            "complaint": draw.choice(["chest pain", "pain in the chest", "cough, dry", ""]),
            "patient": f"p{number // 3}",
            "note": draw.choice(["", "whatever"]),
            "outcome": draw.choice(["well", "ill"]),
        }
        for number in range(count)
    ]


def as_csv(content: list[dict[str, str]], header: tuple[str, ...] = HEADER) -> str:
    lines = [",".join(header), *(",".join(f'"{row[column]}"' for column in header) for row in content)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write rows as a csv file with these columns."""

    def run(name: str, content: list[dict[str, str]], header: tuple[str, ...] = HEADER) -> Path:
        path = tmp_path / name
        path.write_text(as_csv(content, header))
        return path

    return run


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA)
    return path


@pytest.fixture
def site(write: Callable[..., Path]) -> dict[str, Any]:
    """A site's rows and its file."""
    content = rows()
    return {"rows": content, "path": write("site.csv", content)}
