"""The arrows between the packages, and what each may import from outside."""

import ast
from graphlib import TopologicalSorter
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from tests.syntax_trees import parsed

ROOT = Path(__file__).parent.parent
ROOMS = (
    "cli",
    "experiments",
    "federation",
    "peer",
    "privacy",
    "report",
    "results",
    "simulation",
    "topology",
    "training",
)

MAY_IMPORT = {
    "cli": {*ROOMS},
    "report": {"federation", "results", "topology"},
    "experiments": {"federation", "results", "simulation", "topology", "training"},
    "simulation": {"federation", "peer", "results", "topology", "training"},
    "federation": {"peer", "privacy", "results", "topology", "training"},
    "peer": {"results", "topology"},
    "training": {"privacy"},
    "privacy": set(),
    "results": set(),
    "topology": set(),
}
MUST_NOT_IMPORT = {
    "cli": set(),
    "report": {"torch", "click", "rich", "zmq", "prometheus_client", "http"},
    "experiments": {"click", "zmq"},
    "federation": {"click", "rich", "networkx"},
    "simulation": {"click", "rich", "zmq", "networkx"},
    "peer": {"torch", "click", "rich", "sklearn", "networkx", "prometheus_client", "http"},
    "privacy": {"torch", "zmq", "click", "rich"},
    "results": {"torch", "zmq", "click", "rich", "networkx"},
    "topology": {"torch", "zmq", "click", "rich", "msgpack"},
    "training": {"zmq", "click", "rich", "networkx", "msgpack"},
}
NEVER_CLI = ("benchmarks", "examples")
"""Folders of programs that use dpeer as a script would."""


def imported(source):
    """Every module that a file imports, wherever in the file."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            if node.module == "dpeer":
                yield from (f"dpeer.{alias.name}" for alias in node.names)


def violations(root):
    """What breaks an arrow below a folder that has the rooms."""
    found = []
    for package in ROOMS:
        for path in sorted((root / package).rglob("*.py")):
            for name in imported(path.read_text()):
                top, _, rest = name.partition(".")
                target = rest.partition(".")[0]
                wrong = (
                    name.startswith(".")
                    or top in ROOMS
                    or top in MUST_NOT_IMPORT[package]
                    or (top == "dpeer" and target == "api")
                    or (top == "dpeer" and target in ROOMS and target not in MAY_IMPORT[package] | {package})
                )
                if wrong:
                    found.append(f"{path.relative_to(root)} imports {name}")
    return found


@pytest.mark.slow
def test_the_arrows_hold():
    assert violations(ROOT) == []


def test_programs_use_dpeer_as_a_script_would():
    files = [path for folder in NEVER_CLI for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 10
    assert [path.name for path in files for name in imported(path.read_text()) if name.startswith("dpeer.cli")] == []


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("peer", "def late():\n    from torch import nn"),
        ("peer", "from dpeer import training"),
        ("training", "import dpeer.peer"),
        ("cli", "import topology"),
        ("cli", "from . import main"),
        ("report", "from dpeer.api import Run"),
    ],
)
def test_a_wrong_import_is_found(tmp_path, package, line):
    for name in ROOMS:
        (tmp_path / name).mkdir()
    (tmp_path / package / "module.py").write_text(line + "\n")
    assert len(violations(tmp_path)) == 1


def test_packages_are_only_known_as_dpeers():
    for package in ROOMS:
        link = ROOT / "dpeer" / package
        assert link.resolve() == (ROOT / package).resolve()


def test_a_checkout_that_lost_its_links_still_works(tmp_path):
    (tmp_path / "dpeer").mkdir()
    for path in (ROOT / "dpeer").glob("*.py"):
        (tmp_path / "dpeer" / path.name).write_text(path.read_text())
    for package in ROOMS:
        (tmp_path / package).symlink_to(ROOT / package)
    folder = tmp_path / "dpeer"
    spec = spec_from_file_location("lost", folder / "__init__.py", submodule_search_locations=[str(folder)])
    lost = module_from_spec(spec)
    spec.loader.exec_module(lost)
    assert PathFinder.find_spec("topology", lost.__path__).origin == str(tmp_path / "topology" / "__init__.py")


def test_the_core_of_a_peer_knows_no_sockets():
    files = [*(ROOT / "peer" / "core").glob("*.py"), ROOT / "peer" / "transport.py"]
    names = {name for path in files for name in imported(path.read_text())}
    assert not {name for name in names if name.startswith(("zmq", "asyncio", "socket", "dpeer.peer.transports"))}


@pytest.mark.parametrize("room", ["peer", "training"])
def test_no_two_files_of_a_room_import_each_other_in_a_circle(room):
    modules = {}
    for path in (ROOT / room).rglob("[!_]*.py"):
        modules["dpeer." + ".".join(path.relative_to(ROOT).with_suffix("").parts)] = path
    imports = {}
    for module, path in modules.items():
        froms = [node for node in ast.walk(parsed(path.read_text())) if isinstance(node, ast.ImportFrom)]
        names = {node.module for node in froms} | {f"{node.module}.{one.name}" for node in froms for one in node.names}
        imports[module] = names & modules.keys()
    assert tuple(TopologicalSorter(imports).static_order())


def test_no_file_of_the_sources_is_longer_than_one_idea():
    """500 lines: what is longer holds two ideas."""
    files = [path for room in ("dpeer", *ROOMS) for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 200
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > 500} == {}
