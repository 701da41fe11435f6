"""README, CONTRIBUTING and docs/ name what is there: files, headings, extras, targets of make."""

import re
import tomllib

import pytest

from tests.documents import PAGES, PLACES, ROOT, printed_in_readme


def test_what_the_documents_install_are_extras_of_this_project():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = [command for command in PLACES if re.match("(pip|pipx|uv tool) install ", command)]
    assert {command.split()[0] for command in installed} == {"pip", "pipx", "uv"}
    for command in installed:
        (extra,) = re.findall(r" install '(?:dpeer|\.)\[(\w+)\]'$", command)
        assert extra in extras


def test_the_demo_installs_what_a_report_needs_and_says_how_to_find_the_command():
    makefile = (ROOT / "Makefile").read_text()
    assert "$(VENV)/installed: $(VENV)/created pyproject.toml constraints.txt" in makefile
    assert "\t$(PIP) -e '.[plot]'\n" in makefile
    assert ". $(BIN)/activate" in makefile.partition("\ndemo:")[2].partition("\n\n")[0]
    assert ". .venv/bin/activate " in (ROOT / "README.md").read_text(encoding="utf-8")


def test_no_row_of_readmes_tables_is_in_two_of_them_or_twice_in_one():
    """A gain would be measured on rows that a neighbor has trained on."""
    (content,) = (tomllib.loads(text) for text in printed_in_readme("toml") if "task_options" in text)
    paths = [ROOT / content["task_options"]["path"].replace("{rank}", str(rank)) for rank in range(content["size"])]
    inputs = [line.rpartition(",")[0] for path in paths for line in path.read_text().splitlines()[1:]]
    assert len({path.resolve() for path in paths}) == 3
    assert len(inputs) == len(set(inputs)) == 720


def test_targets_of_make_are_there():
    makefile = (ROOT / "Makefile").read_text()
    for command in PLACES:
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", makefile, flags=re.MULTILINE), command


ROOMS = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and path.name.isidentifier())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_and_files_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}

    for name in re.findall(rf"`((?:{ROOMS})/(?:[\w/-]*(?:\.py|\.toml|/))?)`", text):
        assert (ROOT / name).exists(), name
