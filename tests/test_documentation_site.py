"""The documentation site, built strictly and without anything from elsewhere, and the wire page by its models."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.limits import CHUNK, HEADER_DEPTH, LEAST_CHUNK

ROOT = Path(__file__).parents[1]
WIRE = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_it_is_built_without_a_warning_and_takes_nothing_from_elsewhere(tmp_path, monkeypatch):
    pytest.importorskip("mkdocs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    monkeypatch.chdir(ROOT)
    config = load_config("mkdocs.yml", site_dir=str(tmp_path), strict=True)
    build(config)  # which raises at the first warning
    pages = {path.stem for path in tmp_path.glob("*.html")}
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= pages
    assert {"index", "contributing", "changelog", "deploy", "security-policy"} <= pages
    for path in tmp_path.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="?(?:https?:)?//[^">]*', text) == [], path.name
    linked = tmp_path / "source" / "examples" / "own_codec.py"
    assert linked.read_bytes() == (ROOT / "examples" / "own_codec.py").read_bytes()
    assert "dpeer.api.run" in (tmp_path / "python.html").read_text(encoding="utf-8")


def test_the_quickest_way_to_a_model_begins_with_the_file_of_the_readme():
    """Which the commands after it are run with, in the tests of documented commands."""
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/ten-minutes.md")]
    first, second = (re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1] for page in pages)
    assert [line.strip() for line in second.splitlines() if line.strip()] == first.splitlines()


# -- the wire ----------------------------------------------------------------------------------------------------------


def documented():
    """The fields that the page names, by kind; those of several kinds at each."""
    found, kind = {}, ""
    for first, fields, meaning in re.findall(r"^\| ?([a-z]*) \| ?((?:`\w+`(?:, )?)*) ?\| (.*) \|$", WIRE, re.MULTILINE):
        kind = first or kind
        kinds = [kind]
        if kind == "several":
            kinds = [one.strip() for one in meaning.partition(":")[0].split(",")]
        for one in kinds:
            found.setdefault(one, set()).update(re.findall(r"`(\w+)`", fields))
    return found


def test_the_page_has_every_field_of_every_kind_and_no_other():
    fields = {
        one.model_fields["kind"].default: {
            name for name, field in one.model_fields.items() if name not in ("kind", "rank") and not field.exclude
        }
        for one in get_args(wire.Message)
    }
    assert documented() == fields


def test_the_page_has_every_message_and_field_of_a_private_peer():
    (section,) = re.findall(r"^## Messages of a private peer$(.*?)^## ", WIRE, flags=re.DOTALL | re.MULTILINE)
    named, kind = {}, ""
    for first, rest in re.findall(r"^\| ([^|]*)\|(.*)$", section, flags=re.MULTILINE)[1:]:
        kind = first.split(",")[0].strip() or kind
        named[kind] = named.get(kind, "") + rest
    # What a field is called there, where that is another word.
    words = {
        "next_round": "next round", "fingerprint": "settings", "manifest": "shapes",
        "digest": {"hello": "SHA-256 of the first body", "body": "their `digest`"},
        "reason": {"goodbye": "done, stopped, failed, isolated or left", "refusal": "another process"},
        "federation": "federation id", "sizes": "sizes",
    }  # fmt: skip
    for message in get_args(wire.Message):
        kind = message.model_fields["kind"].default
        for name, field in message.model_fields.items():
            if name in ("kind", "reply") or field.exclude:
                continue
            word = words.get(name, name)
            assert (word if isinstance(word, str) else word[kind]) in named[kind], (kind, name)
    assert set(named) == {message.model_fields["kind"].default for message in get_args(wire.Message)}


def test_the_vector_on_the_page_is_the_message_that_it_describes():
    frame = bytes.fromhex("".join(re.findall(r"^[0-9a-f]{20,}$", WIRE, re.MULTILINE)))
    message = wire.decode([frame], wire.Limits())
    assert (message.kind, message.rank, message.round) == ("heartbeat", 1, 4)
    assert message.federation == wire.federation_id({"body_lr": 0.05, "size": 3})
    assert [int.from_bytes(message.presence[4 * rank : 4 * rank + 4], "little") for rank in range(3)] == [4, 5, 3]
    assert bytes(wire.encode(message)[0]) == frame


def test_the_digest_on_the_page_is_that_of_the_protocol():
    (digest,) = re.findall(r"^digest ([0-9a-f]{32})$", WIRE, re.MULTILINE)
    assert wire.digest_of([b"12345678", b"abc"]).hex() == digest


def test_the_limits_and_names_on_the_page_are_those_of_the_protocol():
    limits = wire.Limits()
    assert f"more than {limits.buffers:,} buffers" in WIRE
    assert f"more than {HEADER_DEPTH} deep" in WIRE
    assert (limits.small_header_bytes, LEAST_CHUNK) == (64 * 1024, 64 * 1024)
    assert f"At most {CHUNK // 1024} KiB" in WIRE
    assert f"This is protocol {wire.PROTOCOL}." in WIRE
    recorded = json.loads((ROOT / f"tests/peer/recorded/protocol-{wire.PROTOCOL}.json").read_text())
    assert [one["kind"] for one in recorded] == ["hello", "body"]
