"""What `make audit` makes of the answers that it gets."""

import json

import pytest

from tests.audit import report


def package(name, *vulnerabilities, **fields):
    return {"name": name, "version": "1.0", "vulns": [*vulnerabilities], **fields}


BAD = {"id": "PYSEC-1", "fix_versions": ["1.1"]}
SKIPPED = {"name": "own", "skip_reason": "not found"}


def message(*packages):
    return report(json.dumps({"dependencies": packages}))


@pytest.mark.parametrize("output", ["", "no network", "{}", "[]", json.dumps({"dependencies": [SKIPPED]})])
def test_what_could_not_be_looked_up_is_no_clean_bill(output):
    (line,), vulnerable = report(output)
    assert "not checked" in line
    assert not vulnerable


def test_a_vulnerability_is_named_with_what_mends_it():
    lines, vulnerable = message(package("good"), package("bad", BAD))
    named, total = lines
    assert named == "vulnerability: bad 1.0: PYSEC-1, mended in 1.1"
    assert total == "vulnerabilities: 1 in 2 packages of constraints.txt"
    assert vulnerable


def test_packages_that_the_service_does_not_know_are_named():
    lines, vulnerable = message(package("good"), SKIPPED)
    assert "own" in lines[-1]
    assert not vulnerable


def test_secrets_are_found_where_they_are(tmp_path):
    pytest.importorskip("detect_secrets")
    from tests.audit import secrets

    key = "AKIA" + "QX7RM2ZL9KDW4TBV"
    (tmp_path / "a.py").write_text(f"x = 1\nkey = '{key}'\n")
    (tmp_path / "b.py").write_text(f"key = '{key}'  # pragma: allowlist secret\n")
    found = secrets([str(tmp_path / "a.py"), str(tmp_path / "b.py")])
    assert found
    assert {line.partition(":")[2].partition(": ")[0] for line in found} == {f" {tmp_path / 'a.py'}, line 2"}
