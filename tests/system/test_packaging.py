"""What is in the wheel and the sdist: every module once, under dpeer/ alone."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

PACKAGES = (
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


def setuptools_version() -> int:
    try:
        return int(metadata.version("setuptools").partition(".")[0])
    except metadata.PackageNotFoundError:
        return 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(setuptools_version() < 77, reason="builds with the setuptools of this environment (>= 77)"),
]


@pytest.fixture
def copy_of_the_project(tmp_path):
    """The project's files without what tools leave in a checkout."""
    root = Path(__file__).parents[2]
    skipped = shutil.ignore_patterns("__pycache__", "build", "dist", "*.egg-info", "tests", "benchmarks", "shared")
    target = tmp_path / "project"
    target.mkdir()
    for entry in root.iterdir():
        if entry.name.startswith(".") or entry.name in skipped(str(root), [entry.name]):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, target / entry.name, symlinks=True, ignore=skipped)
        else:
            shutil.copy2(entry, target / entry.name, follow_symlinks=False)
    return target


@pytest.fixture
def build(tmp_path):
    """Run a hook of the build backend in a project's folder; returns what it made."""

    def run(what: str, project: Path) -> Path:
        target = tmp_path / f"{what}-of-{project.name}"
        target.mkdir()
        code = f"import sys; from setuptools import build_meta; build_meta.build_{what}(sys.argv[1])"
        done = subprocess.run(
            [sys.executable, "-c", code, str(target)], cwd=project, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr
        (made,) = target.iterdir()
        return made

    return run


def files_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(name for name in archive.namelist() if ".dist-info/" not in name)


def test_the_wheel_holds_every_module_once_and_runs_and_the_sdist_makes_the_same(copy_of_the_project, build, tmp_path):
    project = copy_of_the_project
    expected = {f"dpeer/{path.name}" for path in (project / "dpeer").glob("*.py")} | {"dpeer/py.typed"}
    for package in PACKAGES:
        found = {f"dpeer/{path.relative_to(project)}" for path in (project / package).rglob("*.py")}
        assert found
        expected |= found
    folders = [project / "report/dashboard/page", project / "report/templates"]
    pages = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(pages) > 10
    expected |= {f"dpeer/{path.relative_to(project)}" for path in pages}

    wheel = build("wheel", project)
    assert files_in(wheel) == sorted(expected)
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "dpeer = dpeer.cli:main" in archive.read(entry_points).decode()

    with tarfile.open(build("sdist", project)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert files_in(build("wheel", unpacked)) == files_in(wheel)

    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import dpeer.cli, dpeer.peer\n"
        "assert dpeer.cli.__file__.startswith(sys.argv[1]), dpeer.cli.__file__\n"
        "dpeer.cli.main(['topology', 'show', '--size', '4'])"
    )
    words = [sys.executable, "-c", code, str(wheel)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "ring, 4 peers" in done.stdout
