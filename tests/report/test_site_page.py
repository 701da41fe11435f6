"""`dpeer report --site`: what the page says of a peer's records, of missing ones, and of folders that are no peer's."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.api import run
from dpeer.exceptions import ConfigurationError
from dpeer.federation.settings import Settings
from dpeer.federation.site_records import read
from dpeer.peer.core.member_list import Member, MemberList
from dpeer.peer.core.wire import federation_id
from dpeer.peer.member_files import write_lists
from tests.error_texts import refused

Command = Callable[..., Any]
DOCUMENTS = Path(__file__).parents[2] / "docs"


def _run(out: Path, **settings: Any) -> Path:
    """Rank 0's folder of a run of three peers, which was simulated and lies here as a peer leaves it."""
    run(Settings(**{"size": 3, "rounds": 2, "local_steps": 2, "alone": "never", "out": out} | settings))
    (out / "disagreement.jsonl").unlink(missing_ok=True)
    return out / "rank-0"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a run with these settings, made once."""
    made: dict[str, Path] = {}

    def of(**settings: Any) -> Path:
        key = repr(settings)
        if key not in made:
            made[key] = _run(tmp_path_factory.mktemp("left") / "run", **settings)
        return made[key]

    return of


@pytest.fixture
def folder(left: Callable[..., Path], in_tmp_path: Path) -> Callable[..., Path]:
    """A copy of such a folder, `run/rank-0`, to be changed."""

    def copy(**settings: Any) -> Path:
        return Path(shutil.copytree(left(**settings), in_tmp_path / "run" / "rank-0"))

    return copy


@pytest.fixture
def page_of(dpeer: Command, read_page: Any) -> Callable[[Path], Any]:
    def made(folder: Path) -> Any:
        ended = dpeer("report", "--site", folder)
        assert (ended.code, ended.err) == (0, "")
        return read_page("dpeer-site")

    return made


def change(path: Path, **values: Any) -> None:
    """Write other values into a JSON file; None takes a key out."""
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def settings_of(folder: Path, **values: Any) -> None:
    path = folder / "summary.json"
    change(path, settings=json.loads(path.read_text())["settings"] | values)


def rows(page: Any, number: int) -> dict[str, list[str]]:
    """A table's rows by their first cell."""
    return {first: rest for first, *rest in page.tables[number]}


def test_a_plain_run_is_shown_with_what_left_and_what_stayed(folder: Any, page_of: Any) -> None:
    rank = folder()
    page = page_of(rank)
    summary = json.loads((rank / "summary.json").read_text())
    assert page.headings == [
        "In short", "What was trained", "What left, and to whom", "What stayed", "Under which guarantee",
        "Settings and programs", "What this page cannot show",
    ]  # fmt: skip
    sent = summary["bytes_sent"]
    assert f"(14,208 trained numbers, its body) to 2 other peers: {sent:,} bytes (227.8 kB) in 2 rounds." in page.text
    assert "Nothing bounds what the sent values tell about the data" in page.text
    assert "Bodies were for ranks 1 and 2." in page.text
    trained, counts, body, head, files, hashes = range(6)
    assert rows(page, trained)["rounds"] == ["2 of 2"]
    assert rows(page, counts)["rounds in which a body was sent"] == ["2"]
    assert rows(page, counts)["bytes of one copy of the last body"] == [f"{sent // 4:,}"]
    assert rows(page, body)["features.3.weight"] == ["32 x 16 x 3 x 3", "4,608"]
    assert sum(int(row[2].replace(",", "")) for row in page.tables[body][1:]) == summary["body_parameters"]
    assert rows(page, head) == {
        "tensor": ["shape", "values"], "head.weight": ["10 x 128", "1,280"], "head.bias": ["10", "10"],
    }  # fmt: skip
    assert {"test-rows.json", "partition.json", "checkpoint"} <= rows(page, files).keys()
    assert "privacy" not in rows(page, files)
    (state,) = rank.glob("checkpoint/*/state.json")
    fingerprint = json.loads(state.read_text())["fingerprint"]
    assert rows(page, hashes)["hash of the compared settings"] == [federation_id(fingerprint).hex()]
    assert "dpeer 0." in rows(page, hashes)["programs"][0]
    assert not {"script", "link", "img"} & page.tags
    assert "http" not in page.source


@pytest.mark.parametrize("level", ["none", "sample"])
def test_no_figure_of_the_data_is_on_the_page(folder: Any, page_of: Any, level: str) -> None:
    private = {"privacy": "sample", "noise_multiplier": 1.0, "records": 400} if level == "sample" else {}
    rank = folder(**private)
    page = page_of(rank)
    summary = json.loads((rank / "summary.json").read_text())
    hidden = [summary["training_samples"], summary["evaluated_samples"], *summary["class_counts"]]
    words = page.text.replace(",", "").split()
    assert not {str(count) for count in hidden if count > 32} & {*words}
    for name in ("accuracy", "test_loss", "train_loss"):
        assert f"{summary[name]:.4f}"[:5] not in page.text
    for line in (rank / "privacy" / "ledger.jsonl").read_text().splitlines() if private else ():
        assert json.loads(line).get("data", "\0") not in page.text


def test_a_private_run_has_its_guarantee_in_the_documents_words(folder: Any, page_of: Any) -> None:
    rank = folder(privacy="sample", noise_multiplier=1.0, records=400)
    page = page_of(rank)
    spent = json.loads((rank / "summary.json").read_text())["privacy"]
    assert f"protects each single record: epsilon {spent['epsilon']:.4g}, delta 1e-05." in page.text
    documents = " ".join((DOCUMENTS / "privacy.md").read_text().replace("\n", " ").split())
    promise = "would be almost equally likely without any one training record"
    assert promise in page.text
    assert promise in documents
    for wording in ("55 %", "71 %", "84 %"):
        assert wording in documents
        assert f"{wording[:2]} times" in page.text
    assert "The model at home, model.safetensors, is covered, too." in page.text
    numbers = rows(page, 5)
    assert numbers["noised steps"] == [f"{spent['steps']:,}"]
    assert numbers["the ledger counts"] == [f"{spent['steps']:,} steps"]
    assert numbers["stated number of records"] == ["400"]
    settings_of(rank, dp_head="post", finish="head:10")
    assert "The model at home is not covered" in page_of(rank).text
    change(rank / "summary.json", privacy={**spent, "steps": spent["steps"] - 1})
    assert "the true epsilon is larger than the one below" in page_of(rank).text
    change(rank / "summary.json", privacy={**spent, "epsilon": None})
    assert "the loss of privacy has no known bound" in page_of(rank).text


def test_a_whole_data_set_is_protected_in_messages_alone(folder: Any, page_of: Any) -> None:
    rank = folder(privacy="client", noise_multiplier=4.0)
    page = page_of(rank)
    assert "almost equally likely with any other data set" in page.text
    assert "The model at home is not covered." in page.text
    assert "The guarantee covers none of these files" in page.text
    assert rows(page, 5)["the ledger counts"] == ["2 bodies"]


def test_algorithms_that_send_all_or_nothing_are_told_apart(task: str, page_of: Any, in_tmp_path: Path) -> None:
    said = {
        "dfedavgm": "No part of the model in training stayed: its head was sent with the body.",
        "local": "Nothing of a model was sent: this peer trained alone.",
        "fedopt": "The algorithm sends beside them: change (72 values).",
        "dis-pfl": "part of their values was left out of it",
        "ditto": "A personal model of 111 trained numbers stayed, too.",
    }
    pages = {name: page_of(_run(in_tmp_path / name, task=task, algorithm=name)) for name in said}
    for name, words in said.items():
        assert words in pages[name].text
    assert "fc.weight" in rows(pages["dfedavgm"], 2)
    assert "No body was made, and none was sent." in pages["local"].text
    assert "Nothing bounds" not in pages["local"].text


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("log.jsonl", "half a li", "log.jsonl is missing or damaged"),
        ("model.json", "[", "model.json is missing or damaged"),
        ("metrics.jsonl", '{"round": 0, "bytes_sent": 1}\n{"rou', "metrics.jsonl, which lacks 1 of 2 rounds,"),
        ("members.json", "{", "members.json is missing or damaged"),
        ("privacy/ledger.jsonl", "{}\n", "privacy/ledger.jsonl is missing or damaged"),
        ("checkpoint", None, "checkpoint is missing or damaged"),
        ("summary.json", {"bytes_sent": None, "rounds": -1}, "which lacks rounds, bytes_sent,"),
        ("summary.json", {"settings": None}, "which lacks settings,"),
        ("summary.json", {"bytes_sent": 1}, "disagree on the bytes sent,"),
    ],
)
def test_a_record_that_is_damaged_or_missing_is_refused(folder: Any, name: str, content: Any, what: str) -> None:
    rank = folder(privacy="sample", noise_multiplier=1.0, records=400)
    read(rank)
    if isinstance(content, dict):
        change(rank / name, **content)
    elif content is None:
        (state,) = (rank / name).glob("*/state.json")
        state.write_text(state.read_text().replace('"size": 3', '"size": 4'))
    else:
        (rank / name).write_text(content)
    with refused(ConfigurationError, f"--site {str(rank)!r}: ", what):
        read(rank)


def test_receivers_are_those_of_all_rounds_by_a_graph_that_is_the_runs(task: str, in_tmp_path: Path) -> None:
    rank = _run(in_tmp_path / "run", task=task, topology="one-peer-exponential", size=4, rounds=3)
    assert (read(rank).receivers, read(rank).releases) == ((1, 2), 3)
    settings_of(rank, topology="ring")
    with refused(ConfigurationError, "'ring' is another graph than that of the run"):
        read(rank)


def test_what_else_may_have_left_is_said(folder: Any, page_of: Any) -> None:
    rank = folder()
    assert "caution" not in page_of(rank).source.partition("<body>")[2]
    settings_of(
        rank, task="/secret/place/mine.py:task", log_to=["tensorboard", "wandb"], serve="9100", insecure=True,
    )  # fmt: skip
    change(rank / "summary.json", status="stopped", rounds=5, lost={"2": "silent"}, task="/secret/place/mine.py:task")
    (rank / "released.json").write_text('{"round": 2}')
    page = page_of(rank)
    assert "The peer ended before its last round (stopped), after 2 of 5 rounds." in page.text
    assert "A program that is not dpeer's makes the task." in page.text
    assert "/secret" not in page.source
    assert "losses and accuracies also went to wandb, which may be on other hosts." in page.text
    assert "its port for metrics while it ran could read rounds, bytes, accuracy and loss" in page.text
    assert "Connections without keys were allowed" in page.text
    assert "Rounds went on without rank 2 for a time" in page.text
    assert "One more body was made in a round that was not completed." in page.text


def test_keys_are_those_of_the_member_list_in_use_and_no_address_is_shown(folder: Any, page_of: Any) -> None:
    rank = folder()
    settings_of(rank, secret="keys/rank-0.secret")
    page = page_of(rank)
    assert "Connections were encrypted, and each end proved its key." in page.text
    assert "the federation file lists them" in page.text
    assert "keys/rank-0.secret" not in page.source
    members = {one: Member(f"tcp://10.8.0.{one}:7700", (f"{one}" * 64,)) for one in (0, 1, 2, 4)}
    listed = MemberList("ab" * 32, 3, b"", members, {}, 9, "ring", "cd" * 16)
    write_lists(rank, listed, None)
    page = page_of(rank)
    assert rows(page, 2) == {"rank": ["public key"], "1": ["1" * 64], "2": ["2" * 64], "4": ["4" * 64]}
    assert "The body of the last round was for ranks 1 and 2." in page.text
    assert "Member list 3 was in use at the end." in page.text
    assert "10.8.0" not in page.source
    assert listed.digest.hex() in page.text


def test_the_sites_policy_is_shown_where_the_summary_has_one(folder: Any, page_of: Any) -> None:
    rank = folder()
    assert "policy" not in page_of(rank).text
    change(rank / "summary.json", policy="12" * 32)
    assert rows(page_of(rank), 5)["policy: hash"] == ["12" * 32]


def test_folders_that_are_no_peers_that_has_ended_are_refused(dpeer: Command, folder: Any, in_tmp_path: Path) -> None:
    rank = folder()
    for path, part in (
        (Path("gone"), "is no folder: name a rank's"),
        (Path("run"), "is a run's folder: name a rank's, such as run/rank-0"),
        (in_tmp_path, "is no rank's folder: it holds no summary.json"),
    ):
        with refused(ConfigurationError, part):
            read(path)
    (in_tmp_path / "run" / "disagreement.jsonl").touch()
    with refused(ConfigurationError, "nothing leaves a peer of dpeer simulate"):
        read(rank)
    (rank / "summary.json").write_text("{")
    with refused(ConfigurationError, "its summary.json is damaged, or no peer's"):
        read(rank)
    (rank / "summary.json").unlink()
    ended = dpeer("report", "--site", rank)
    assert ended.code == 2
    assert ended.err.endswith("its run has not ended, or was killed (then `dpeer model` makes its summary.json)\n")
    assert not Path("dpeer-site").exists()
    ended = dpeer("report", "run", "--site", rank)
    assert (ended.code, ended.err) == (2, "dpeer: --site: its page is of one peer alone; leave out DIR and --label\n")
