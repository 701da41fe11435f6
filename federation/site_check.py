"""Site check: runs `dpeer check` for one rank, from settings to disk and training, and returns the forecast."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.cores import memory_limit
from dpeer.federation import config, keys, trackers
from dpeer.federation.addresses import from_file
from dpeer.federation.control_client import left, no_locks
from dpeer.federation.findings import Findings, Level
from dpeer.federation.folders import check, refuse_faults
from dpeer.federation.forecast import forecast, train_for
from dpeer.federation.keys import signers_of
from dpeer.federation.line_check import check_lines
from dpeer.federation.member_changes import federation_of
from dpeer.federation.serve_address import bound, read_serve
from dpeer.federation.starting import Starting, own_rank
from dpeer.federation.trial_build import built_aside, nearest_existing, scratch_in
from dpeer.results.files import rank_folder
from dpeer.results.units import duration, size
from dpeer.training import TorchLearner

MEMINFO = Path("/proc/meminfo")

_LITTLE_DISK = 3
"""Times of what a run needs on disk that should be free: other programs write, too."""

_FILES = 100
"""Files of a run, at most, with drafts."""

_LITTLE_FILES = 1000
"""Files that should be free: other programs make some, too."""


def check_writable(findings: Findings, out: Path, folder: Path) -> None:
    """Whether a rank's folder in the run folder `out` can be made and written."""
    place = nearest_existing(folder)
    trouble = None
    if (link := _dangling(folder)) is not None:
        trouble = f"{link} is a link to {link.readlink()}, which does not exist: make that folder, or remove the link"
    elif not place.is_dir():
        trouble = f"{place} is a file: name another folder"
    else:
        trouble = _refused(place)
    if trouble is not None:
        findings.fail("output", f"--out {str(out)!r}: {trouble}")
    else:
        findings.passed("output", f"{out} can be written{'' if folder.exists() else ', and will be made'}")
    if scratch_in(folder) is not None:
        findings.warn(
            "output",
            "no folder for temporary files can be written: set TMPDIR to one (libraries need it; in a container with a "
            "read-only root, mount a tmpfs at /tmp)",
        )


def check_disk(findings: Findings, folder: Path, needed: int) -> None:
    """Whether the disk of a rank's folder has room for a run of so many bytes, and for its files (inodes)."""
    place = nearest_existing(folder)
    free = shutil.disk_usage(place).free
    words = f"{size(free)} are free at {place}, and a run takes about {size(needed)}"
    if free < needed:
        findings.fail("disk", f"{words}: make room, or name another --out")
    elif free < _LITTLE_DISK * needed:
        findings.warn("disk", f"{words}: little is left for others")
    else:
        findings.passed("disk", words)
    found = os.statvfs(place)
    if found.f_files and found.f_favail < _LITTLE_FILES:  # 0 where files are not counted, as on btrfs
        words = f"{found.f_favail:,} files can be made at {place}: remove some, or name another --out"
        findings.add("files", Level.FAIL if found.f_favail < _FILES else Level.WARN, words)


def available_memory() -> int | None:
    """Bytes of memory that a process can still get: of the host, and within its control group; None where unknown."""
    found = memory_limit()
    limits = [] if found is None else [max(0, found.limit - found.used)]
    with suppress(OSError, ValueError, IndexError):
        lines = MEMINFO.read_text().splitlines()
        limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min(limits, default=None)


def check_memory(findings: Findings, needed: int, free: int | None) -> None:
    """Whether the memory that was free before the peer took any (None where unknown) suffices for it."""
    if free is None:
        findings.passed("memory", f"about {size(needed)} are needed; how much is free is not known on this system")
        return
    words = f"{size(free)} are free, and the peer takes about {size(needed)}"
    if free < needed:
        findings.fail("memory", f"{words}: free some, raise the container's limit, or lower --batch-size")
    elif free < 1.25 * needed:
        findings.warn("memory", f"{words}: a little more may end it")
    else:
        findings.passed("memory", words)


def _dangling(path: Path) -> Path | None:
    """The link on the way to a path that leads nowhere."""
    return next((one for one in (path, *path.parents) if one.is_symlink() and not one.exists()), None)


def _refused(place: Path) -> str | None:
    """Why no file can be made and locked in a folder; None if one can."""
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                return no_locks(error)
    except OSError as error:
        return f"no file can be made in {place} ({error.strerror}): mend that, or name another folder"
    return None


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
        check(own.out, [starting.rank], resume=starting.resume, overwrite=asked.overwrite, make=False)
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
    from dpeer.federation.process_tuning import share_of_cores

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
