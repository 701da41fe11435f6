"""A site's policy: each rule against settings from file, rank table, flag and preset, and files that are no policy."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

import dpeer as api
from dpeer import toml_text
from dpeer.exceptions import ConfigurationError
from dpeer.federation import config
from dpeer.federation.member_changes import write_list
from dpeer.federation.policy import ENVIRONMENT, Policy, find
from dpeer.federation.settings import Settings
from dpeer.federation.starting import Starting
from dpeer.peer.core.member_list import Member, MemberList
from tests.conftest import SMALL_TASK
from tests.error_texts import refused

KEYS = ["ab" * 32, "cd" * 32, "ef" * 32]
PRIVATE = {"privacy": "sample", "target_epsilon": 5.0}


@pytest.fixture
def policy(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the site's policy, which the environment names; returns its SHA-256."""
    monkeypatch.setenv(ENVIRONMENT, "policy.toml")

    def write(text: str) -> str:
        Path("policy.toml").write_text(text)
        return hashlib.sha256(text.encode()).hexdigest()

    return write


def sha256(path: str) -> str:
    return f"sha256:{hashlib.sha256(Path(path).read_bytes()).hexdigest()}"


def verdicts(lines: str = "", rank: int = 0, **flags: Any) -> list[tuple[bool, str]]:
    """What the policy says of a start by a federation file of three ranks with these lines."""
    Path("dpeer.toml").write_text(f"size = 3\n{lines}")
    return [*Starting(config.load(None, flags), rank).verdicts()]


def forbidden(lines: str = "", rank: int = 0, **flags: Any) -> list[str]:
    return [text for allowed, text in verdicts(lines, rank, **flags) if not allowed]


@pytest.mark.parametrize(
    ("rule", "good", "bad", "words"),
    [
        ('leaves = "body"', {"algorithm": "dfedmdc"}, {"algorithm": "dfedavgm"}, "(flag), which sends its model"),
        ('leaves = "body"', {"algorithm": "local"}, {"algorithm": "dfedmdc", "head": ""}, 'head = "" (flag)'),
        ('privacy = "sample"', PRIVATE, {}, 'privacy = "none" (default)'),
        ('privacy = "sample"', {**PRIVATE, "privacy": "client"}, {}, 'privacy = "none" (default)'),
        ('privacy = "client"', {**PRIVATE, "privacy": "client"}, PRIVATE, 'privacy = "sample" (flag)'),
        ("epsilon = 5", PRIVATE, {**PRIVATE, "target_epsilon": 5.1}, "target_epsilon = 5.1 (flag)"),
        ("epsilon = 8.0", PRIVATE, {"privacy": "sample", "noise_multiplier": 9.0}, "target_epsilon = none (default)"),
        ("epsilon = 8.0", {**PRIVATE, "delta": 1e-6}, {**PRIVATE, "delta": 0.1}, "delta = 0.1 (flag), at most 1e-05"),
        ('unit = "group"', {**PRIVATE, "privacy_unit": "group"}, PRIVATE, 'privacy_unit = "record" (default)'),
        ('unit = "group"', {**PRIVATE, "privacy": "client"}, {}, 'with privacy = "none"'),
        ('unit = "record"', {**PRIVATE, "privacy_unit": "group"}, {}, 'with privacy = "none"'),
        ('algorithms = ["dfedmdc"]', {"algorithm": "dfedmdc"}, {"preset": "paper-fedbabu"}, "(preset paper-fedbabu)"),
        ('models = ["digits"]', {"task": "digits"}, {"model": "mlp"}, 'model = "mlp" (flag)'),
        ('models = ["mlp"]', {"model": "mlp"}, {"task": "digits"}, 'model = "digits" (default)'),
        ('tasks = ["csv"]', {"task": "csv"}, {"task": "digits"}, 'task = "digits" (flag)'),
        ("tasks = []", None, {"task": "digits"}, 'task = "digits" (flag)'),
        ("rounds = 20", {"rounds": 20}, {"rounds": 21}, "rounds = 21 (flag)"),
        ("serve = false", {}, {"serve": "7780"}, 'serve = "7780" (flag)'),
        ("serve = false", {"log_to": ["tensorboard"]}, {"log_to": ["wandb"]}, 'log_to = ["wandb"] (flag)'),
        ("serve = true", {"serve": "7780", "log_to": ["wandb"]}, None, ""),
    ],
)  # fmt: skip
def test_each_rule_allows_what_keeps_it_and_names_what_breaks_it(
    policy: Any, rule: str, good: dict[str, Any] | None, bad: dict[str, Any] | None, words: str
) -> None:
    policy(rule)
    if good is not None:
        assert forbidden(**good) == []
        assert verdicts(**good), "each rule has a line"
    if bad is not None:
        (only,) = forbidden(**bad)
        assert only.startswith(f"policy policy.toml: {rule.split(' ')[0]} = ")
        assert words in only


def test_the_budget_is_one_runs(policy: Any) -> None:
    policy("epsilon = 8.0")
    assert verdicts(**PRIVATE) == [
        (True, "epsilon = 8 allows target_epsilon = 5 (flag); of one run: another --out spends again")
    ]


def test_what_has_set_a_value_is_named(policy: Any) -> None:
    policy("rounds = 5\nserve = false")
    (rounds, serve) = forbidden("rounds = 9\n[rank.0]\nserve = '7780'\n")
    assert rounds == "policy policy.toml: rounds = 5 forbids rounds = 9 (dpeer.toml)"
    assert serve == 'policy policy.toml: serve = false forbids serve = "7780" ([rank.0] of dpeer.toml)'
    assert len(forbidden("rounds = 9\n[rank.0]\nserve = '7780'\n", rank=1)) == 1, "the table is another rank's"


# -- files of the user's own -----------------------------------------------------------------------------------------


def test_a_file_runs_by_its_hash_alone_and_not_before_it_is_allowed(policy: Any) -> None:
    ran = Path("ran")
    Path("mine.py").write_text(f"{SMALL_TASK}\nfrom pathlib import Path\nPath('ran').touch()\n")
    wanted: list[tuple[str, str, dict[str, Any]]] = [
        ("tasks", "task", {"task": "mine.py:task"}),
        ("models", "model", {"model": "mine.py:Net"}),
        ("algorithms", "algorithm", {"algorithm": "mine.py:Rule"}),
        ("algorithms", "compress", {"compress": "mine.py:Codec"}),
        ("algorithms", "topology", {"topology": "mine.py:graph"}),
    ]
    for rule, name, flags in wanted:
        for text in ("rounds = 20", f'{rule} = ["{name}", "sha256:{"0" * 64}"]', f'{rule} = []\nleaves = "body"'):
            policy(text)
            assert any(f"forbids {name} = " in one and sha256("mine.py") in one for one in forbidden(**flags)), text
        policy(f'{rule} = ["{sha256("mine.py")}", "digits", "dfedsmdc"]')
        assert forbidden(**flags) == []
    assert not ran.exists()


def test_no_command_on_a_federation_file_imports_an_algorithm_that_is_not_listed(policy: Any, dpeer: Any) -> None:
    Path("mine.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    Path("dpeer.toml").write_text("size = 2\nalgorithm = 'mine.py:Rule'\nprivacy = 'client'\ntarget_epsilon = 5.0\n")
    policy("rounds = 5")
    for *command, origin in (
        ("settings", "--of", "dpeer.toml", "dpeer.toml"),
        ("privacy", "--federation", "dpeer.toml", "--rank", 0, "dpeer.toml"),
        ("compare", "--task", "digits", "--algorithms", "local,mine.py:Rule", "--algorithms 'mine.py:Rule'"),
    ):
        ended = dpeer(*command)
        assert ended.code == 2
        assert f'without algorithms it forbids algorithm = "mine.py:Rule" ({origin}): sha256:' in ended.err
    assert not Path("ran").exists()


def test_no_command_imports_a_graphs_function_that_is_not_listed(policy: Any, dpeer: Any) -> None:
    Path("mine.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    Path("dpeer.toml").write_text(f"size = 2\ntopology = 'mine.py:f'\noperators = ['{KEYS[0]}']\nname = 'a'\n")
    members = {rank: Member(None, (key,)) for rank, key in enumerate(KEYS)}
    write_list(Path("0.json"), MemberList("ab" * 32, 0, b"", members, {}, 5, "ring", "cd" * 16))
    policy("rounds = 5")
    for command in (
        "topology show --federation dpeer.toml",
        "topology spectral-gap --topology ring,mine.py:f",
        "members extend 0.json --federation dpeer.toml --rounds 9 --dry-run",
        "init new --size 2 --topology mine.py:f",
        "compare --task digits --algorithms local,dfedavgm --topology mine.py:f",
    ):
        ended = dpeer(*command.split())
        assert ended.code == 2
        assert 'without algorithms it forbids topology = "mine.py:f"' in ended.err, command
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("mine:task", "name one file, which has a hash"),
        ("gone.py:task", "No such file or directory"),
        ("folder.py:task", "Is a directory"),
    ],
)
def test_what_has_no_hash_is_forbidden(policy: Any, task: str, why: str) -> None:
    policy("rounds = 20")
    Path("folder.py").mkdir()
    (only,) = forbidden(task=task)
    assert only.startswith(f'policy policy.toml: without tasks it forbids task = "{task}" (flag): {why}')


def test_a_file_that_is_called_like_a_built_in_one_is_none(policy: Any) -> None:
    policy('algorithms = ["dfedmdc"]')
    Path("dfedmdc.py").touch()
    assert len(forbidden(algorithm="dfedmdc.py:dfedmdc")) == 1


def test_first_weights_need_their_hash(policy: Any) -> None:
    Path("first.safetensors").write_bytes(b"weights")
    Path("first.index.json").touch()
    policy('privacy = "sample"')
    (only,) = forbidden(**PRIVATE, init_from=Path("first.safetensors"))
    assert only.startswith("policy policy.toml: without models it forbids init_from = ")
    policy(f'models = ["digits", "{sha256("first.safetensors")}"]')
    assert forbidden(init_from=Path("first.safetensors")) == []
    policy(f'models = ["digits", "{sha256("first.index.json")}"]')
    assert len(forbidden(init_from=Path("first.index.json"))) == 1, "it names other files"
    policy(f'models = ["{sha256("first.safetensors")}"]')
    assert len(forbidden(model="first.safetensors:Net")) == 1, "a module that is called so"


# -- neighbors -------------------------------------------------------------------------------------------------------


def test_only_neighbors_with_known_keys_get_bodies(policy: Any) -> None:
    ranks = "".join(f'[rank.{rank}]\nkey = "{key}"\n' for rank, key in enumerate(KEYS))
    policy(f"neighbors = {json.dumps(KEYS[1:])}")
    assert forbidden(ranks) == []
    policy(f"neighbors = {json.dumps(KEYS[:2])}")
    assert forbidden(ranks) == ["policy policy.toml: neighbors = [2 keys] forbids rank 2"]
    assert forbidden(ranks.replace(f'"{KEYS[1]}"', f'["{KEYS[1]}", "{"12" * 32}"]')) == [
        "policy policy.toml: neighbors = [2 keys] forbids rank 1, 2"
    ]
    assert forbidden() == ["policy policy.toml: neighbors = [2 keys] forbids rank 1, 2"], "they have no keys"
    assert forbidden(algorithm="local") == [], "nothing leaves"
    assert "neighbors" not in str(verdicts(topology="none.py:graph")), "what is not allowed makes no graph"


def test_a_member_list_breaks_rules_by_its_rounds_and_by_the_keys_of_neighbors() -> None:
    members = {rank: Member(None, (key,)) for rank, key in enumerate(KEYS)}
    listed = MemberList("ab" * 32, 3, b"", members, {}, 9, "ring", "cd" * 16)
    assert Policy(rounds=9, neighbors=KEYS[:2]).forbids(listed, [1]) is None
    assert Policy(rounds=8).forbids(listed, []) == "member list 3: policy .: rounds = 8 forbids rounds = 9"
    assert "forbids rank 2" in str(Policy(neighbors=KEYS[:2]).forbids(listed, [1, 2]))


# -- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "has no rule: give some of tasks, models, "),
        ("rouns = 5", "unknown rule 'rouns' in policy policy.toml: did you mean 'rounds'?"),
        ("rounds = '5'", "rounds = '5': input should be a valid integer"),
        ("rounds = 0", "rounds = 0: input should be greater than or equal to 1"),
        ("epsilon = inf", "epsilon = inf: input should be a finite number"),
        ("serve = 1", "serve = 1: input should be a valid boolean"),
        ('leaves = "all"', "leaves = 'all': input should be 'body'"),
        ('privacy = "none"', "privacy = 'none': input should be 'sample' or 'client'"),
        ('tasks = "digits"', "tasks = 'digits': input should be a valid list"),
        ('tasks = ["mine.py:task"]', "tasks = 'mine.py:task': string should match pattern"),
        ('neighbors = ["ab"]', "neighbors = 'ab': string should match pattern"),
        ("[rounds]", "rounds = {}: input should be a valid integer"),
        ("rounds", "policy.toml is not valid TOML"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_in_one_line(policy: Any, text: str, part: str) -> None:
    policy(text)
    with refused(ConfigurationError, part):
        find(None)


def test_a_policy_that_cannot_be_read_is_refused(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(ConfigurationError, "policy 'policy.toml': No such file or directory"):
        find(None)
    Path("policy.toml").write_bytes(b"# \xff\nrounds = 5")
    with refused(ConfigurationError, "policy.toml is not valid TOML"):
        find(None)
    Path("policy.toml").unlink()
    Path("policy.toml").mkdir()
    with refused(ConfigurationError, "policy 'policy.toml': Is a directory"):
        find(None)

    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(toml_text, "read_text", denied)
    with refused(ConfigurationError, "policy 'policy.toml': Permission denied"):
        find(None)


def test_it_is_found_beside_the_secret_where_the_environment_names_none(
    policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, "")
    Path("keys").mkdir()
    assert find(Path("keys/rank-0.secret")) is find(Path("/")) is None
    Path("keys/policy.toml").symlink_to("gone")
    with refused(ConfigurationError, "No such file"):
        find(Path("keys/rank-0.secret"))
    Path("keys/policy.toml").unlink()
    Path("keys/policy.toml").write_text("rounds = 5")
    found = find(Path("keys/rank-0.secret"))
    assert found is not None
    assert found.rounds == 5
    assert find(None) is None
    policy("rounds = 7")
    monkeypatch.setenv(ENVIRONMENT, "policy.toml")
    chosen = find(Path("keys/rank-0.secret"))
    assert chosen is not None
    assert chosen.rounds == 7


# -- the ways that run training --------------------------------------------------------------------------------------


def test_no_file_and_no_script_sets_it(in_tmp_path: Path) -> None:
    for lines in ("policy = 'lax.toml'\n", "[rank.0]\npolicy = 'lax.toml'\n"):
        Path("dpeer.toml").write_text(lines)
        with refused(
            ConfigurationError, "dpeer.toml: a site's own rules, which no federation file sets: give --policy"
        ):
            config.load(None, {})
    with refused(ConfigurationError, "policy: a site's own rules"):
        Settings.model_validate({"policy": "lax.toml"})


def test_simulations_clusters_and_scripts_obey(policy: Any, dpeer: Any, in_tmp_path: Path) -> None:
    digest = policy("rounds = 1")
    quick = {"size": 2, "task": "digits", "local_steps": 1, "alone": "never"}
    flags = [word for name, value in quick.items() for word in (f"--{name.replace('_', '-')}", value)]
    for command in ("simulate", "cluster"):
        ended = dpeer(command, *flags, "--rounds", 2)
        assert (ended.code, ended.complaints) == (
            2, ["dpeer: policy policy.toml: rounds = 1 forbids rounds = 2 (flag)"],
        )  # fmt: skip
    for mode in ("simulate", "cluster"):
        with refused(ConfigurationError, "rounds = 1 forbids rounds = 2 (the settings)"):
            api.run(Settings.model_validate({**quick, "rounds": 2}), mode=mode)
    assert not Path("dpeer-run").exists()
    run = api.run(Settings.model_validate({**quick, "rounds": 1}))
    assert json.loads(Path("dpeer-run/rank-0/summary.json").read_text())["policy"] == digest
    assert f"this site's policy holds, of SHA-256 {digest[:16]}" in Path("dpeer-run/rank-0/log.jsonl").read_text()
    with refused(ConfigurationError, "rounds = 1 forbids rounds = 2"):
        api.run(Settings.model_validate({**quick, "rounds": 2}), resume=True)
    assert run.summary["completed_rounds"] == [1, 1]


def test_the_option_holds_for_all_that_a_command_starts_and_ends_with_it(dpeer: Any, in_tmp_path: Path) -> None:
    Path("site.toml").write_text("rounds = 1")
    before = os.environ.get(ENVIRONMENT, "")
    quick = ("--size", 2, "--task", "digits", "--local-steps", 1, "--alone", "never", "--policy", "site.toml")
    assert dpeer("cluster", *quick, "--rounds", 2).code == 2
    assert dpeer("simulate", *quick, "--rounds", 1).code == 0
    assert "policy" in json.loads(Path("dpeer-run/rank-1/summary.json").read_text())
    assert os.environ.get(ENVIRONMENT, "") == before
