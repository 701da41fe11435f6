"""examples/deploy: files that parse, name each other rightly and hold commands of dpeer.

No container is built or started here. `systemd-analyze` looks at its file where it is installed.
That the script of Slurm runs a federation is in tests/system/test_slurm.py.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dpeer.cli.check import check
from dpeer.cli.compare import compare
from dpeer.cli.start import start
from dpeer.cli.status import status
from dpeer.exceptions import BudgetTooSmall, ConfigurationError, Refused
from dpeer.federation import config
from dpeer.federation.keys import keyring

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "examples" / "deploy"
COMPOSE, KUBERNETES = DEPLOY / "compose", DEPLOY / "kubernetes"
COMMANDS = {"start": start, "check": check, "status": status, "compare": compare}


def read(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def documents(path: Path) -> dict:
    """The documents of a file of Kubernetes, by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))}


def parsed(words: list[str]) -> dict:
    """What a command line of dpeer is understood as; refuses one that dpeer would refuse."""
    name, *rest = words
    return COMMANDS[name].make_context(name, rest).params


@pytest.fixture
def federation(dpeer, tmp_path):
    """The files of a federation, as the file in `folder` says to make them."""

    def make(folder: Path, *more: str) -> Path:
        assert dpeer("init", "federation", "--hosts", folder / "hosts.txt", "--keys", *more).code == 0
        return tmp_path / "federation"

    return make


def test_the_services_of_compose_are_the_ranks_that_init_writes(federation):
    made, services = federation(COMPOSE), read(COMPOSE / "compose.yml")["services"]
    secrets = read(COMPOSE / "compose.yml")["secrets"]
    peers = {name: one for name, one in services.items() if one["image"] == "dpeer"}
    settings = config.load(made / "dpeer.toml", {})
    assert [f"tcp://{name}:7700" for name in peers] == [settings.rank[rank].address for rank in range(settings.size)]
    for rank, (name, one) in enumerate(peers.items()):
        found = parsed(shlex.split(one["command"]))
        assert (name, one["hostname"]) == (f"rank-{rank}", f"rank-{rank}"), "--rank env reads the host's name"
        assert found["rank"] == "env"
        assert found["resume_or_start"]
        assert found["out"] == Path("/runs")
        assert one["secrets"] == [{"source": name, "target": "key"}]
        assert found["secret"] == Path("/run/secrets/key")
        secret = made / Path(secrets[name]["file"]).relative_to("federation")
        assert keyring(config.load(made / "dpeer.toml", {"secret": secret}), settings.size, rank) is not None
        probe = shlex.split(one["healthcheck"]["test"][1].replace("$$HOSTNAME", one["hostname"]))
        assert probe[:3] == ["dpeer", "status", f"/runs/rank-{rank}"]
        assert parsed(probe[1:])["check"]
        assert (one["read_only"], one["cap_drop"], one["user"][:14]) == (True, ["ALL"], "${DPEER_USER:?")
    assert len({one["ports"][0] for one in peers.values()}) == len(peers)


def test_prometheus_scrapes_every_peer_where_it_serves():
    peers = [one for one in read(COMPOSE / "compose.yml")["services"].values() if one["image"] == "dpeer"]
    ports = {parsed(shlex.split(one["command"]))["serve"].rpartition(":")[2] for one in peers}
    (job,) = read(COMPOSE / "prometheus.yml")["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"{one['hostname']}:{port}" for one in peers for port in ports]


def expressions() -> list[str]:
    board = json.loads((COMPOSE / "grafana" / "dashboards" / "dpeer.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return found + [rule["expr"] for group in read(COMPOSE / "alerts.yml")["groups"] for rule in group["rules"]]


def test_dashboard_and_alerts_ask_for_metrics_that_are_there():
    """A test of the metrics holds that the documents list every one, and no other."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    there = set(re.findall(r"dpeer_[a-z_]+", text))
    asked = {name for one in expressions() for name in re.findall(r"dpeer_[a-z_]+", one)}
    assert len(asked) > 10
    assert asked - there == set()


def test_the_pods_of_kubernetes_are_the_ranks_that_init_writes(federation):
    made, found = federation(KUBERNETES, "--bind-all"), documents(KUBERNETES / "dpeer.yaml")
    pods, service = found["StatefulSet"], found["Service"]
    settings, name = config.load(made / "dpeer.toml", {}), pods["metadata"]["name"]
    assert pods["spec"]["replicas"] == settings.size
    assert pods["spec"]["podManagementPolicy"] == "Parallel", "round 1 waits for all"
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    hosts = [f"tcp://{name}-{rank}.{service['metadata']['name']}:7700" for rank in range(settings.size)]
    assert [settings.rank[rank].address for rank in range(settings.size)] == hosts
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    started = parsed(container["args"])
    assert (started["rank"], started["resume_or_start"]) == ("env", True)
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    volumes = {one["name"] for one in pods["spec"]["template"]["spec"]["volumes"]}
    volumes |= {one["metadata"]["name"] for one in pods["spec"]["volumeClaimTemplates"]}
    assert {one["name"] for one in mounts.values()} == volumes
    assert {str(started["secret"]), str(started["out"]), str(started["federation"].parent)} <= mounts.keys()
    keys = read(KUBERNETES / "kustomization.yaml")["secretGenerator"][0]["files"]
    in_pod = mounts[str(started["secret"])]["subPathExpr"]
    for rank, line in enumerate(keys):
        key, _, path = line.partition("=")
        assert key == in_pod.replace("$(POD)", f"{name}-{rank}")
        secret = made / Path(path).relative_to("federation")
        assert keyring(config.load(made / "dpeer.toml", {"secret": secret}), settings.size, rank) is not None
    assert len(keys) == settings.size
    shell = container["readinessProbe"]["exec"]["command"][2]
    words = shlex.split(subprocess.run(["sh", "-c", f"echo {shell}"], env={"POD": f"{name}-3"}, check=True,
                                       capture_output=True, text=True).stdout)  # fmt: skip
    assert words[:3] == ["dpeer", "status", "/runs/rank-3"]


def unit(folder: Path) -> Path:
    """The unit of rank 3, with this installation's dpeer."""
    text = (DEPLOY / "systemd" / "dpeer@.service").read_text()
    path = folder / "dpeer@3.service"
    path.write_text(text.replace("/opt/dpeer/bin/dpeer", str(Path(sys.executable).parent / "dpeer")))
    return path


def test_the_unit_of_systemd_starts_its_rank_with_the_key_that_it_loads():
    lines = (DEPLOY / "systemd" / "dpeer@.service").read_text().splitlines()
    (line,) = [one.partition("=")[2] for one in lines if one.startswith("ExecStart=")]
    found = parsed(shlex.split(line.replace("%i", "3").replace("${CREDENTIALS_DIRECTORY}", "/run/credentials"))[1:])
    assert (found["rank"], found["resume_or_start"]) == ("3", True)
    assert "LoadCredential=key:/etc/dpeer/keys/rank-%i.secret" in lines
    assert found["secret"].name == "key"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_services_start_again_for_as_long_as_a_cause_lasts_that_passes_by_itself():
    unit = (DEPLOY / "systemd" / "dpeer@.service").read_text(encoding="utf-8")
    assert re.search(r"^Restart=on-failure$", unit, re.MULTILINE)
    assert re.search(r"^StartLimitIntervalSec=0$", unit, re.MULTILINE)
    never = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert never is not None
    assert {ConfigurationError.exit_code, Refused.exit_code, BudgetTooSmall.exit_code} == {*map(int, never[1].split())}
    services = read(COMPOSE / "compose.yml")["services"]
    assert {one["restart"] for one in services.values() if one["image"] == "dpeer"} == {"on-failure"}


def test_systemd_finds_no_mistake_in_the_unit_and_little_exposed(tmp_path):
    path = unit(tmp_path)
    verified = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert "dpeer" not in verified.stderr, verified.stderr
    assert verified.returncode == 0
    shown = subprocess.run(["systemd-analyze", "security", "--offline=yes", path], capture_output=True, text=True,
                           check=False)  # fmt: skip
    (exposure,) = re.findall(r"Overall exposure level for dpeer@3.service: ([\d.]+)", shown.stdout)
    assert float(exposure) < 2.5


def test_the_image_is_made_of_all_that_dpeer_needs_and_is_not_roots():
    """What .dockerignore lets in is all that a wheel is built from."""
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    rooms = {path.name for path in (ROOT / "dpeer").iterdir() if path.is_symlink()}
    assert rooms | {"dpeer", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "MANIFEST.in"} == let_in
    assert all((ROOT / name).exists() for name in let_in)
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER 10001:10001"]
    copied = [word for line in lines if line.startswith("COPY constraints") for word in line.split()[1:-1]]
    assert set(copied) <= let_in


def test_each_job_of_slurms_array_makes_its_shard_of_a_comparison(tmp_path):
    (tmp_path / "dpeer").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "dpeer").chmod(0o755)
    job = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "8"}
    script = [str(DEPLOY / "slurm" / "compare.sbatch"), "--algorithms", "local,dfedsmdc", "--seeds", "0-23"]
    ended = subprocess.run(
        ["bash", *script], check=True, capture_output=True, text=True,
        env={**os.environ, **job, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    found = parsed(shlex.split(ended.stdout))
    assert (found["shard"], found["algorithms"], found["seeds"]) == ((2, 8), ["local", "dfedsmdc"], "0-23")
