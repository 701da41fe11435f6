"""Print the lowest versions that pyproject.toml allows of what dpeer and its tests need, one `name==version` a line.

    python tests/lowest.py > lowest.txt

`make lowest` installs these and runs the fast tests with them. Only what pyproject.toml names is held down; what that
needs in turn is as new as pip finds it.
"""

import re
import tomllib
from pathlib import Path

EXTRAS = ("test", "plot", "images", "parquet")


def main() -> None:
    """Print them."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    for line in dict.fromkeys([*project["dependencies"], *extras]):
        found = re.fullmatch(r"([\w.-]+)>=([\w.]+)(,<[\w.]+)?", line)
        assert found, f"{line}: a lower bound, and maybe an upper one, is what can be installed here"
        print(f"{found[1]}=={found[2]}")


if __name__ == "__main__":
    main()
