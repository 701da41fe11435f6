"""Settings of measuring, logging, devices and network, and of faults; the run, host and network parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from dpeer.exceptions import ConfigurationError
from dpeer.federation.serve_address import as_text, checked
from dpeer.federation.trackers import TRACKERS
from dpeer.results.units import read_duration
from dpeer.sections import Mark, Section, setting

_RUN, _HOST = "The run", "This host"

run_setting = partial(setting, mark=Mark.ASIDE, group=_RUN)
host_setting = partial(setting, mark=Mark.ASIDE, group=_HOST)
result_setting = partial(setting, mark=Mark.OWN, group=_RUN)
compute_setting = partial(setting, mark=Mark.OWN, group=_HOST)
shared_setting = partial(setting, mark=Mark.SHARED, group=_RUN)


def _listed(value: Any) -> Any:
    """Texts that commas part, as they come from the command line, as a list."""
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else value


def _seconds(value: Any) -> Any:
    """Seconds, where a text such as "7d" states them."""
    try:
        return read_duration("", value) if isinstance(value, str) else value
    except ConfigurationError as error:
        raise PydanticCustomError("duration", "expected seconds, or a time such as 90s, 2h or 7d") from error


def _name(value: str) -> str:
    if not (0 < len(value) <= 64 and value.isprintable() and value == value.strip()):
        raise PydanticCustomError("name", "expected 1 to 64 printable characters, such as ward-study-1")
    return value


def _trackers(value: list[str]) -> list[str]:
    if not set(value) <= set(TRACKERS) or len(set(value)) < len(value):
        raise PydanticCustomError("trackers", "expected some of {known}, each once", {"known": ", ".join(TRACKERS)})
    return value


DURATION = BeforeValidator(_seconds)
"""Marks a number of seconds that may also be written with a unit."""

Duration = Annotated[float, DURATION, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
ServeAt = Annotated[str, BeforeValidator(as_text), AfterValidator(checked)]
RunName = Annotated[str, AfterValidator(_name)]
OperatorKeys = Annotated[list[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]], BeforeValidator(_listed)]
Trackers = Annotated[list[str], BeforeValidator(_listed), AfterValidator(_trackers)]
Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$")]


class MeasureSettings(Section):
    """What is measured, and which model is kept."""

    evaluate_every: int = result_setting(1, "evaluate in every n-th round and the last", ge=1)
    evaluate_on: Literal["test", "validation"] = result_setting(
        "test", "what accuracies are measured on; choose hyperparameters on validation"
    )
    training_accuracy: bool = result_setting(
        False,
        "measure accuracy on each peer's own training data, too, and the generalization gap; one more pass over them "
        "in each evaluation",
    )
    keep: Literal["auto", "best", "last", "blend"] = result_setting(
        "auto",
        "which model to keep: best (by the loss on validation data), last, blend (of the best and the local-only "
        "model: the mean of their probabilities; needs --alone always), or auto: best, but last with --privacy, "
        "--preset, --validation 0 or too few samples",
    )
    checkpoint_every: int = run_setting(
        1,
        "save in the first, every n-th and the last round, and when stopped: less to write, more lost by a crash",
        ge=1,
    )
    out: Path = run_setting(
        Path("dpeer-run"), "folder for results; each rank's is rank-R of it", first=True, strict=False
    )


class ComputeSettings(Section):
    """The device, precision and memory layout that a peer computes with."""

    device: Device = host_setting(
        "cpu",
        "where to train, such as cuda: cpu, cuda:N, cuda, which takes this host's GPUs by rank in turn, or auto: cuda "
        "if any",
        first=True,
    )
    amp: Literal["bf16"] | None = compute_setting(
        None, "compute the model's outputs in bfloat16; parameters and mixing stay float32"
    )
    channels_last: bool = compute_setting(False, "give images to convolutions with the channels last in memory")


class LogSettings(Section):
    """What a run logs."""

    log_level: Literal["debug", "info", "warning", "error"] = run_setting("info", "how much is logged")
    log_to: Trackers | None = run_setting(
        None, f"also show the figures of each round in a tracker of experiments: {', '.join(TRACKERS)}; repeatable"
    )


class AloneSettings(Section):
    """The local-only baseline of a peer."""

    alone: Literal["auto", "always", "never"] = run_setting(
        "auto",
        "also train each peer's local-only baseline after the rounds, to compare: auto (if the run ends at most ten "
        "seconds and a quarter of its time later), always, never",
    )


class QuorumSettings(Section):
    """How many ranks a federation starts with, and what becomes of it when lines drop."""

    quorum: Literal["majority", "any"] | Annotated[int, Field(ge=1)] = shared_setting(
        "majority",
        "which part of a federation goes on while lines are cut: majority (more than half of the ranks, or half with "
        "the lowest), any (each by itself: those that are behind afterwards lose their rounds), or a number of ranks, "
        "more than half, that are also enough to start",
    )


class OperatorSettings(Section):
    """The operators of a federation, and its name."""

    operators: OperatorKeys | None = shared_setting(
        None,
        "public keys of the operators, who sign changes of members, graph and rounds (dpeer keygen --operator, dpeer "
        "members)",
    )
    signers: int = shared_setting(1, "how many operators have to sign such a change", ge=1)
    name: RunName | None = shared_setting(None, "the run's own name, needed with operators")


class ThreadSettings(Section):
    """The threads of one peer, or of all peers in one process."""

    threads: int | None = host_setting(
        None,
        "threads of torch; in a simulation those that train its peers (default: all cores; a share if all peers are "
        "on this host)",
        ge=1,
    )


class NetworkSettings(Section):
    """How a peer waits for its neighbors, where it listens and with which key."""

    wait: Duration = host_setting(
        300.0,
        "how long to wait for all at the start; or for --quorum K, and for news of a quorum in a pause: seconds, or "
        "90s, 2h, 7d; for a wait of more than an hour a neighbor with other settings ends its own start alone",
        first=True,
    )
    dead_after: Duration = host_setting(
        15.0, "silence after which rounds go on without a neighbor: seconds, or 90s, 2min"
    )
    deadline: Seconds | Literal["auto", "never"] | None = host_setting(
        None,
        "seconds that a round waits for a neighbor that is there and sends nothing; then it goes on without: a number, "
        "auto (from the rounds so far, 60 at least), never (default: auto for start, never for cluster and simulate)",
    )
    base_port: int = host_setting(
        7700,
        "where no rank has an address, rank R listens on this host at this port + R",
        of_rank=False,
        ge=1,
        le=65535,
    )
    secret: Path | None = host_setting(
        None, "file with this peer's secret key (dpeer keygen), where the federation file lists keys", strict=False
    )
    proxy: str | None = host_setting(
        None,
        "proxy to dial out through: http://HOST:PORT, socks5://HOST:PORT, or environment (https_proxy or all_proxy; "
        "a password belongs there); hosts in no_proxy are dialled directly",
    )
    serve: ServeAt | None = host_setting(
        None,
        "where to answer /metrics (Prometheus) and /healthz over HTTP: at PORT of loopback, or at HOST:PORT, where all "
        "who reach it can read it; 0 for a free port",
    )
    insecure: bool = host_setting(
        False, "allow connections from other hosts without keys, not encrypted and open to everybody", of_rank=False
    )


class SpeedSettings(Section):
    """What a peer that is slower than its neighbors leaves out."""

    round_seconds: Seconds | Literal["auto"] | None = setting(
        None,
        "seconds after which local training in a round ends, with fewer steps than its epochs have: a number, or auto "
        "(about what the neighbors take); each phase takes one step at least",
        mark=Mark.OWN,
        group="Training",
    )


class FaultSettings(Section):
    """What happens to the peers of a simulation."""

    faults: Path | None = result_setting(
        None,
        "file of what happens to peers (TOML): crash, cut, slow; see docs/experiments.md",
        of_rank=False,
        strict=False,
    )


class RunPart(SpeedSettings, FaultSettings, LogSettings, AloneSettings, MeasureSettings):
    """What a run measures, keeps, logs and compares, what slow peers leave out, and the faults of a simulation."""


class HostPart(ThreadSettings, ComputeSettings):
    """The device, precision and threads of a peer."""


class Addresses(Section):
    """The address of one peer, by what the others know it, and what it brings."""

    model_config = ConfigDict(frozen=False)

    address: str | None = Field(
        None, description="where its neighbors reach it, or the relay where they do; without one it only dials out"
    )
    bind: str | None = Field(None, description="where it listens, if that is not `address` (containers, NAT)")
    key: str | list[str] | None = Field(
        None, description="its public key (dpeer keygen); two while it changes from one to the other"
    )
    weight: float | None = Field(
        None, gt=0, description="what it brings (rows, patients, votes), with weights = declared"
    )


class NetworkPart(NetworkSettings, OperatorSettings, QuorumSettings):
    """How a peer reaches its neighbors, and what becomes of the federation when connections drop."""

    rank: Mapping[int, Addresses] = Field(default_factory=dict)
