"""Site check: runs `dpeer check` for one rank, from settings to training, and returns the forecast."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.federation import config, keys, trackers
from dpeer.federation.addresses import from_file
from dpeer.federation.control_client import left
from dpeer.federation.findings import Findings
from dpeer.federation.folders import refuse_faults, refuse_used
from dpeer.federation.forecast import forecast, train_for
from dpeer.federation.host_checks import available_memory, check_disk, check_memory, check_writable
from dpeer.federation.line_check import check_lines
from dpeer.federation.member_zero import federation_of
from dpeer.federation.operators import signers_of
from dpeer.federation.scheduler_rank import own_rank
from dpeer.federation.serve_address import bound, read_serve
from dpeer.federation.starting import Starting
from dpeer.federation.trial_build import built_aside
from dpeer.results.files import rank_folder
from dpeer.results.units import duration
from dpeer.training import TorchLearner

Progress = Callable[[str], None]

_ONE_THREAD_TRAINS = 1.0
"""Seconds for which one thread trains, to compare."""

_FASTER = 0.9
"""The share of a step's time that makes one thread the better choice."""


@dataclass(frozen=True)
class Asked:
    """How the peer would be started, and what else is looked at.

    Attributes:
        file: The federation file; None for ./dpeer.toml if it exists.
        flags: Settings that are given, by name.
        rank: The rank, or `env`.
        members: The file of a member list with which it would start; None without one.
        resume, resume_or_start, overwrite: As of `dpeer start`.
        within: For how many seconds neighbors are dialled and waited for; None for not at all.
        bandwidth: The rate of this site's line, in bits per second, for the forecast; None for none.
    """

    file: Path | None
    flags: Mapping[str, Any]
    rank: str
    members: Path | None = None
    resume: bool = False
    resume_or_start: bool = False
    overwrite: bool = False
    within: float | None = None
    bandwidth: float | None = None


def check_site(findings: Findings, asked: Asked, doing: Progress = lambda what: None) -> dict[str, Any] | None:
    """Look at everything that a start needs, and forecast the run; no body is sent, and nothing is written.

    Args:
        findings: Gets what was found.
        asked: How the peer would be started.
        doing: Gets what takes long, before it begins.

    Returns:
        The figures of `forecast`; None where the peer could not be built.
    """
    starting = None
    with findings.of("settings"):
        number = own_rank(asked.rank)
        settings = config.load(asked.file, asked.flags)
        starting = Starting(settings, number, asked.members, resume=asked.resume, resume_or_start=asked.resume_or_start)
        refuse_faults(settings, resume=starting.resume)
        file = config.source(asked.file)
        which = "no federation file: all by default" if file is None else str(file)
        listed, size, graph = starting.listed, settings.size, settings.topology
        if listed is not None:
            size, graph, which = len(listed.members), listed.graph, f"{which}, and member list {listed.version}"
        what = f"rank {number} of {size}, {graph}; {which}"
        if file is None and "task" not in settings.model_fields_set:
            findings.warn("settings", f"{what}, task {settings.task} among it: name the file by --federation FILE")
        else:
            findings.passed("settings", what)
    if starting is None:
        return None
    _check_policy(findings, starting)
    if not findings.fine("policy"):
        return None
    folder = rank_folder(starting.own.out, starting.rank)
    free_memory = available_memory()
    is_left = left(folder)
    _check_key(findings, starting)
    _check_output(findings, starting, folder, asked, is_left=is_left)
    _check_addresses(findings, starting)
    if findings.fine("key", "proxy", "address") and is_left:
        if asked.within is not None:
            doing(f"dialling neighbors, and waiting for them up to {asked.within:g} s")
        asyncio.run(check_lines(findings, starting, asked.within))
    if is_left and starting.own.serve is not None:
        _check_serve(findings, starting.own.serve)
    if names := starting.own.log_to:
        with findings.of("trackers"):
            trackers.check(names)
            findings.passed("trackers", f"{', '.join(names)} can be used")
    return _check_training(findings, starting, folder, asked, free_memory, doing)


def _check_policy(findings: Findings, starting: Starting) -> None:
    """Whether the site's policy allows the start; where it does not, no program of it is imported."""
    with findings.of("policy"):
        for allowed, text in starting.verdicts():
            (findings.passed if allowed else findings.fail)("policy", text)


def _check_key(findings: Findings, starting: Starting) -> None:
    """Whether the peer can prove who it is, where the federation uses keys."""
    with findings.of("key"):
        ring = starting.keyring
        if ring is None and starting.settings.insecure:
            findings.warn("key", "--insecure, without keys: any program that reaches the port can read and alter all")
        elif ring is None:
            findings.passed("key", "the federation file lists none: nothing is encrypted, and only loopback is allowed")
        elif line := keys.accepted(starting.own.secret):
            findings.warn("key", line)
        else:
            count = len(ring.listed)
            findings.passed("key", f"the secret is that of {ring.public.hex()[:16]}…, and {count} ranks have keys")


def _check_output(findings: Findings, starting: Starting, folder: Path, asked: Asked, *, is_left: bool) -> None:
    """Whether the output folder can be used, in which no peer runs where it is left."""
    own = starting.own
    if not is_left:
        findings.fail("output", f"{str(folder)!r} is in use by a running peer: look at it with dpeer status")
        return
    with findings.of("output"):
        refuse_used(own.out, [starting.rank], resume=starting.resume, overwrite=asked.overwrite)
        check_writable(findings, own.out, folder)


def _check_addresses(findings: Findings, starting: Starting) -> None:
    """Whether the peer has an address to listen at, a proxy to dial through, and a way to each neighbor."""
    with findings.of("proxy"):
        proxy = starting.through.proxy
        findings.passed("proxy", "none: it dials directly" if proxy is None else f"it dials through {proxy}")
    with findings.of("address"):
        keyed = findings.fine("key")
        where = starting.listen if keyed else None  # what may be listened at needs the key
        dialled, inward = starting.to_dial, sorted({*starting.neighbors} - {*starting.to_dial})
        for rank, host in (starting.unresolvable() if findings.fine("proxy") else {}).items():
            findings.warn("address", f"rank.{rank}.address: host {host!r} cannot be resolved: look at it, and at DNS")
        apart = "" if from_file(starting.settings) else " (no addresses in the file: all peers on this host)"
        parts = [f"{where or 'dials out only'}{apart}"] if keyed else []
        parts += [f"dials rank {rank} at {address}" for rank, address in dialled.items()]
        parts += [f"is dialled by rank {rank}" for rank in inward]
        findings.passed("address", ", ".join(parts))


def _check_serve(findings: Findings, serve: str) -> None:
    """Whether metrics can be served at this address, and whether others can read it there."""
    with findings.of("serve"):
        address = read_serve(serve)
        bound(address, "--serve").close()
        if address.loopback:
            findings.passed("serve", f"metrics at {address}, for programs of this host")
        else:
            findings.warn("serve", f"metrics at {address}: every host that reaches it can read it")


def _check_training(
    findings: Findings, starting: Starting, folder: Path, asked: Asked, free_memory: int | None, doing: Progress
) -> dict[str, Any] | None:
    """Build the peer in a folder that is thrown away, look at its data, and time it."""
    doing("loading PyTorch, the task and its data")
    import torch  # takes seconds: mistakes above show at once

    from dpeer.federation.build import compute_of
    from dpeer.federation.threads import share_of_cores

    own, rank = starting.own, starting.rank
    torch.set_num_threads(own.threads or share_of_cores(own, own.size))
    found, parts = None, None
    with findings.of("device"):
        resolved = config.resolve(own, rank)
        _check_device(findings, compute_of(resolved).device, torch)
    if not findings.fine("device"):
        return None
    with contextlib.ExitStack() as stack:
        with findings.of("task"):
            there, parts, scratch = stack.enter_context(built_aside(resolved, resume=starting.resume))
            facts = parts.facts
            samples = f"{facts['training_samples']:,} training samples, {facts['evaluated_samples']:,} to measure on"
            model = f"body of {facts['body_parameters']:,} parameters, head of {facts['head_parameters']:,}"
            findings.passed("task", f"{own.task}: {samples}; {model}")
        if parts is None:
            return None
        if (given := starting.given) is not None:
            with findings.of("members"):
                given.verify(federation_of(parts.fingerprint), signers_of(own))
                findings.passed("members", f"list {given.version} is of this federation, and signed by its operators")
        with findings.of("timing"):
            doing("training a few minibatches, and evaluating once")
            found = forecast(there, parts, scratch, starting.graph, asked.bandwidth)
            if own.privacy != "sample":  # there a round's steps are charged together
                _check_threads(findings, parts.learner, torch)
    if found is not None:
        check_memory(findings, found["memory_bytes"], free_memory)
        check_disk(findings, folder, found["disk_bytes"])
    return found


def _check_device(findings: Findings, device: Any, torch: Any) -> None:
    """Which device trains, and whether a faster one is left idle."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        words = f"{device} ({torch.cuda.get_device_name(device)}), {free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
        findings.passed("device", words)
    elif torch.cuda.is_available():
        findings.warn("device", "cpu, and this host has a GPU: --device auto takes it")
    else:
        findings.passed("device", "cpu")


def _check_threads(findings: Findings, learner: TorchLearner, torch: Any) -> None:
    """Whether the threads that a start uses train as fast as one thread, which other programs hold up least."""
    pace = learner.figures.pace
    if pace is None:
        return
    many, step = pace.threads, pace.seconds / pace.steps
    if many == 1:
        findings.passed("threads", f"one: a step takes {duration(step)}")
        return
    torch.set_num_threads(1)
    train_for(learner, _ONE_THREAD_TRAINS)
    torch.set_num_threads(many)
    alone = step if learner.figures.pace is None else learner.figures.pace.seconds / learner.figures.pace.steps
    words = f"a step takes {duration(step)} with {many}, {duration(alone)} with one"
    if alone < _FASTER * step:
        findings.warn("threads", f"{words}: other programs use this host's cores, or the model is small: --threads 1")
    else:
        findings.passed("threads", words)
