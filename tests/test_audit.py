"""`make audit` reports vulnerabilities and secrets, and says what it could not look up."""

import json

import pytest

from tests.audit import report, secrets

GOOD = {"name": "good", "version": "1.0", "vulns": []}
BAD = {"name": "bad", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "own", "skip_reason": "not found"}


@pytest.mark.parametrize("output", ["", "no network", "{}", "[]", json.dumps({"dependencies": [SKIPPED]})])
def test_without_an_answer_the_report_is_no_clean_bill(output):
    (line,), vulnerable = report(output)
    assert "not checked" in line
    assert not vulnerable


def test_a_vulnerability_is_named_with_what_mends_it_and_an_unknown_package_too():
    lines, vulnerable = report(json.dumps({"dependencies": [GOOD, BAD, SKIPPED]}))
    assert lines == [
        "vulnerability: bad 1.0: PYSEC-1, mended in 1.1",
        "vulnerabilities: 1 in 2 packages of constraints.txt",
        "vulnerabilities: not checked of 1, unknown to pypi.org: own",
    ]
    assert vulnerable


def test_secrets_are_found_where_they_are(tmp_path):
    pytest.importorskip("detect_secrets")
    key = "AKIA" + "QX7RM2ZL9KDW4TBV"
    (tmp_path / "a.py").write_text(f"x = 1\nkey = '{key}'\n")
    (tmp_path / "b.py").write_text(f"key = '{key}'  # pragma: allowlist secret\n")
    found = secrets([str(tmp_path / "a.py"), str(tmp_path / "b.py")])
    assert {line.partition(":")[2].partition(": ")[0] for line in found} == {f" {tmp_path / 'a.py'}, line 2"}
