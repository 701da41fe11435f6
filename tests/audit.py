"""Look for known vulnerabilities in what constraints.txt pins, and for secrets in the tracked files: `make audit`.

Ends with 1 if something is found. That the vulnerabilities could not be looked up is said, and is no failure: the
service is on the internet.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ASK = (
    sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off",
    "--timeout", "15",
)  # fmt: skip


def report(output: str) -> tuple[list[str], bool]:
    """What pip-audit has found, as lines; and whether there is a vulnerability. `output` is its JSON, or none."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        packages = []
    known = [one for one in packages if "skip_reason" not in one]
    unknown = [one["name"] for one in packages if "skip_reason" in one]
    if not known:
        return ["vulnerabilities: not checked, because pypi.org cannot be asked from here; try where it can"], False
    found = [
        f"vulnerability: {one['name']} {one['version']}: {what['id']}, mended in {_listed(what['fix_versions'])}"
        for one in known
        for what in one["vulns"]
    ]
    lines = [*found, f"vulnerabilities: {len(found)} in {len(known)} packages of constraints.txt"]
    if unknown:
        lines.append(f"vulnerabilities: not checked of {len(unknown)}, unknown to pypi.org: {_listed(unknown)}")
    return lines, bool(found)


def _listed(words: list[str]) -> str:
    return ", ".join(words) or "none"


def vulnerabilities() -> tuple[list[str], bool]:
    """Those of the pinned packages, as `report` says them."""
    asked = subprocess.run(
        [*ASK, "-r", ROOT / "constraints.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return report(asked.stdout)


def secrets(files: list[str]) -> list[str]:
    """What looks like a secret in the files, as lines. (`pragma: allowlist secret` on a line says that it is none.)"""
    from detect_secrets import SecretsCollection
    from detect_secrets.settings import default_settings

    found = SecretsCollection()
    with default_settings():
        for file in files:
            found.scan_file(file)
    return [f"secret: {file}, line {one.line_number}: {one.type}" for file, one in found]


def main() -> int:
    """Print both; returns the exit code."""
    lines, vulnerable = vulnerabilities()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [str(ROOT / name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    found = secrets(files)
    print(*lines, *found, f"secrets: {len(found)} in {len(files)} files", sep="\n")
    return int(vulnerable or bool(found))


if __name__ == "__main__":
    sys.exit(main())
