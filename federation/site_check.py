"""Site check: runs `dpeer check` for one rank, from settings to disk and training, and returns the forecast.

Each check is a function of the start's own objects, which states what it finds; what the start would refuse it raises.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from dpeer.cores import memory_limit
from dpeer.federation import config, keys, trackers
from dpeer.federation.addresses import from_file
from dpeer.federation.config import RunConfig
from dpeer.federation.control_client import left, no_locks
from dpeer.federation.findings import Findings, Level, Verdict
from dpeer.federation.folders import check, refuse_faults
from dpeer.federation.forecast import forecast, train_for
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

_FILES, _LITTLE_FILES = 100, 1000
"""Files of a run, at most, with drafts; files that should be free, as other programs make some, too."""

_ONE_THREAD_TRAINS = 1.0
"""Seconds for which one thread trains, to compare."""

_FASTER = 0.9
"""The share of a step's time that makes one thread the better choice."""

Progress = Callable[[str], None]
Verdicts = Iterator[Verdict]


def check_site(
    findings: Findings,
    file: Path | None,
    flags: Mapping[str, Any],
    rank: str,
    *,
    members: Path | None = None,
    resume: bool = False,
    resume_or_start: bool = False,
    overwrite: bool = False,
    within: float | None = None,
    bandwidth: float | None = None,
    doing: Progress = lambda what: None,
) -> dict[str, Any] | None:
    """Look at everything that a start needs, and forecast the run; no body is sent, and nothing is written.

    `file` to `overwrite` are as of `dpeer start`. Neighbors are dialled and waited for `within` so many seconds, or not
    at all; `bandwidth` is that of this site's line, in bits per second, for the forecast. `doing` gets what takes long,
    before it begins.

    Returns:
        The figures of `forecast`; None where the peer could not be built.
    """
    starting = None
    with findings.of("settings"):
        starting = Starting(
            config.load(file, flags), own_rank(rank), members, resume=resume, resume_or_start=resume_or_start
        )
        findings.add("settings", _settings(starting, config.source(file)))
    if starting is None or not findings.fine("settings"):
        return None
    # Where a site's policy does not allow the start, no program of it is imported.
    findings.take("policy", ((Level.PASS if allowed else Level.FAIL, text) for allowed, text in starting.verdicts()))
    if not findings.fine("policy"):
        return None
    own, folder, free_memory = starting.own, rank_folder(starting.own.out, starting.rank), available_memory()
    is_left = left(folder)
    findings.take("key", _key(starting))
    findings.take("output", _output(starting, folder, overwrite=overwrite, is_left=is_left))
    findings.take("proxy", _proxy(starting))
    findings.take("address", _addresses(starting, keyed=findings.fine("key"), resolves=findings.fine("proxy")))
    if findings.fine("key", "proxy", "address") and is_left:
        if within is not None:
            doing(f"dialling neighbors, and waiting for them up to {within:g} s")
        asyncio.run(check_lines(findings, starting, within))
    if is_left and own.serve is not None:
        findings.take("serve", _serve(own.serve))
    if own.log_to:
        findings.take("trackers", _trackers(own.log_to))

    doing("loading PyTorch, the task and its data")
    import torch  # takes seconds: mistakes above show at once

    from dpeer.federation.process_tuning import share_of_cores

    torch.set_num_threads(own.threads or share_of_cores(own, own.size))
    figures, resolved = None, None
    with findings.of("device"):
        resolved = config.resolve(own, starting.rank)
        findings.add("device", _device(resolved, torch))
    if resolved is None or not findings.fine("device"):
        return None
    with ExitStack() as stack:
        with findings.of("task"):
            there, parts, scratch = stack.enter_context(built_aside(resolved, resume=starting.resume))
            facts = parts.facts
            samples = f"{facts['training_samples']:,} training samples, {facts['evaluated_samples']:,} to measure on"
            model = f"body of {facts['body_parameters']:,} parameters, head of {facts['head_parameters']:,}"
            findings.add("task", (Level.PASS, f"{own.task}: {samples}; {model}"))
        if not findings.fine("task"):
            return None
        if (given := starting.given) is not None:
            with findings.of("members"):
                given.verify(federation_of(parts.fingerprint), keys.signers_of(own))
                found = f"list {given.version} is of this federation, and signed by its operators"
                findings.add("members", (Level.PASS, found))
        with findings.of("timing"):
            doing("training a few minibatches, and evaluating once")
            figures = forecast(there, parts, scratch, starting.graph, bandwidth)
            if own.privacy != "sample":  # there a round's steps are charged together
                findings.take("threads", _threads(parts.learner, torch))
    if figures is not None:
        findings.add("memory", _memory(figures["memory_bytes"], free_memory))
        findings.add("disk", _disk(nearest_existing(folder), figures["disk_bytes"]))
        findings.take("files", _files(nearest_existing(folder)))
    return figures


def _settings(starting: Starting, file: Path | None) -> Verdict:
    settings, listed = starting.settings, starting.listed
    refuse_faults(settings, resume=starting.resume)
    which, size, graph = (
        "no federation file: all by default" if file is None else file,
        settings.size,
        settings.topology,
    )
    if listed is not None:
        size, graph, which = len(listed.members), listed.graph, f"{which}, and member list {listed.version}"
    what = f"rank {starting.rank} of {size}, {graph}; {which}"
    if file is None and "task" not in settings.model_fields_set:
        return Level.WARN, f"{what}, task {settings.task} among it: name the file by --federation FILE"
    return Level.PASS, what


def _key(starting: Starting) -> Verdicts:
    """Whether the peer can prove who it is, where the federation uses keys."""
    ring = starting.keyring
    if ring is None and starting.settings.insecure:
        yield Level.WARN, "--insecure, without keys: any program that reaches the port can read and alter all"
    elif ring is None:
        yield Level.PASS, "the federation file lists none: nothing is encrypted, and only loopback is allowed"
    elif line := keys.accepted(starting.own.secret):
        yield Level.WARN, line
    else:
        yield Level.PASS, f"the secret is that of {ring.public.hex()[:16]}…, and {len(ring.listed)} ranks have keys"


def _output(starting: Starting, folder: Path, *, overwrite: bool, is_left: bool) -> Verdicts:
    """Whether the rank's folder, in which no peer runs where it is left, can be used, made and written."""
    out, place = starting.own.out, nearest_existing(folder)
    if not is_left:
        yield Level.FAIL, f"{str(folder)!r} is in use by a running peer: look at it with dpeer status"
        return
    check(out, [starting.rank], resume=starting.resume, overwrite=overwrite, make=False)
    trouble: str | None
    link = next((one for one in (folder, *folder.parents) if one.is_symlink() and not one.exists()), None)
    if link is not None:
        trouble = f"{link} is a link to {link.readlink()}, which does not exist: make that folder, or remove the link"
    elif not place.is_dir():
        trouble = f"{place} is a file: name another folder"
    else:
        trouble = _refused(place)
    if trouble is not None:
        yield Level.FAIL, f"--out {str(out)!r}: {trouble}"
    else:
        yield Level.PASS, f"{out} can be written{'' if folder.exists() else ', and will be made'}"
    if scratch_in(folder) is not None:
        words = "no folder for temporary files can be written: set TMPDIR to one (libraries need it; in a container"
        yield Level.WARN, f"{words} with a read-only root, mount a tmpfs at /tmp)"


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


def _proxy(starting: Starting) -> Verdicts:
    proxy = starting.through.proxy
    yield Level.PASS, "none: it dials directly" if proxy is None else f"it dials through {proxy}"


def _addresses(starting: Starting, *, keyed: bool, resolves: bool) -> Verdicts:
    """Whether the peer has an address to listen at, which needs its key, and a way to each neighbor."""
    where = starting.listen if keyed else None
    dialled, inward = starting.to_dial, sorted({*starting.neighbors} - {*starting.to_dial})
    for rank, host in (starting.unresolvable() if resolves else {}).items():
        yield Level.WARN, f"rank.{rank}.address: host {host!r} cannot be resolved: look at it, and at DNS"
    apart = "" if from_file(starting.settings) else " (no addresses in the file: all peers on this host)"
    parts = [f"{where or 'dials out only'}{apart}"] if keyed else []
    parts += [f"dials rank {rank} at {address}" for rank, address in dialled.items()]
    yield Level.PASS, ", ".join([*parts, *(f"is dialled by rank {rank}" for rank in inward)])


def _serve(serve: str) -> Verdicts:
    """Whether metrics can be served at this address, and whether others can read it there."""
    address = read_serve(serve)
    bound(address, "--serve").close()
    if address.loopback:
        yield Level.PASS, f"metrics at {address}, for programs of this host"
    else:
        yield Level.WARN, f"metrics at {address}: every host that reaches it can read it"


def _trackers(names: Sequence[str]) -> Verdicts:
    trackers.check(names)
    yield Level.PASS, f"{', '.join(names)} can be used"


def _device(resolved: RunConfig, torch: Any) -> Verdict:
    """Which device trains, and whether a faster one is left idle."""
    from dpeer.federation.build import compute_of

    device = compute_of(resolved).device
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        words = f"{device} ({torch.cuda.get_device_name(device)}), {free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
        return Level.PASS, words
    if torch.cuda.is_available():
        return Level.WARN, "cpu, and this host has a GPU: --device auto takes it"
    return Level.PASS, "cpu"


def _threads(learner: TorchLearner, torch: Any) -> Verdicts:
    """Whether the threads that a start uses train as fast as one thread, which other programs hold up least."""
    pace = learner.figures.pace
    if pace is None:
        return
    many, step = pace.threads, pace.seconds / pace.steps
    if many == 1:
        yield Level.PASS, f"one: a step takes {duration(step)}"
        return
    torch.set_num_threads(1)
    train_for(learner, _ONE_THREAD_TRAINS)
    torch.set_num_threads(many)
    alone = step if learner.figures.pace is None else learner.figures.pace.seconds / learner.figures.pace.steps
    words = f"a step takes {duration(step)} with {many}, {duration(alone)} with one"
    if alone < _FASTER * step:
        words += ": other programs use this host's cores, or the model is small: --threads 1"
    yield Level.WARN if alone < _FASTER * step else Level.PASS, words


def available_memory() -> int | None:
    """Bytes of memory that a process can still get: of the host, and within its control group; None where unknown."""
    found = memory_limit()
    limits = [] if found is None else [max(0, found.limit - found.used)]
    with suppress(OSError, ValueError, IndexError):
        lines = MEMINFO.read_text().splitlines()
        limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min(limits, default=None)


def _memory(needed: int, free: int | None) -> Verdict:
    """Whether the memory that was free before the peer took any (None where unknown) suffices for it."""
    if free is None:
        return Level.PASS, f"about {size(needed)} are needed; how much is free is not known on this system"
    words = f"{size(free)} are free, and the peer takes about {size(needed)}"
    if free < needed:
        return Level.FAIL, f"{words}: free some, raise the container's limit, or lower --batch-size"
    return (Level.WARN, f"{words}: a little more may end it") if free < 1.25 * needed else (Level.PASS, words)


def _disk(place: Path, needed: int) -> Verdict:
    """Whether a folder's disk has room for a run of so many bytes."""
    free = shutil.disk_usage(place).free
    words = f"{size(free)} are free at {place}, and a run takes about {size(needed)}"
    if free < needed:
        return Level.FAIL, f"{words}: make room, or name another --out"
    return (Level.WARN, f"{words}: little is left for others") if free < _LITTLE_DISK * needed else (Level.PASS, words)


def _files(place: Path) -> Verdicts:
    """Whether a folder's disk takes a run's files (inodes), where it counts them, unlike btrfs."""
    found = os.statvfs(place)
    if found.f_files and found.f_favail < _LITTLE_FILES:
        words = f"{found.f_favail:,} files can be made at {place}: remove some, or name another --out"
        yield Level.FAIL if found.f_favail < _FILES else Level.WARN, words
