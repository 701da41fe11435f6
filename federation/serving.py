"""One peer in this process, from its settings to its outcome: `dpeer start` and each child of `dpeer cluster`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dpeer.exceptions import DpeerError, Isolated
from dpeer.federation.baseline.comparison import conclude_comparison
from dpeer.federation.build import build
from dpeer.federation.checks import check_plugins
from dpeer.federation.config import RunConfig, resolve
from dpeer.federation.control_client import held
from dpeer.federation.folders import naming, working_folder_kept
from dpeer.federation.process_tuning import SlowSteps, freeze_heap, keep_heap, share_of_cores
from dpeer.federation.resume_checks import save_data_files
from dpeer.federation.serve_address import ServeAddress
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import answer_on_loop
from dpeer.federation.trackers import Tracking
from dpeer.federation.trackers import close as close_trackers
from dpeer.peer.control import ControlSocket, Handler
from dpeer.peer.core.limits import Limits
from dpeer.peer.core.member_list import MemberList
from dpeer.peer.logs import PeerLog, Sink
from dpeer.peer.peer import Outcome, Peer, Report
from dpeer.peer.snapshot import Snapshot
from dpeer.peer.transports import Keyring, ZeroMQTransport
from dpeer.peer.transports.proxies import proxies
from dpeer.peer.worker import Worker
from dpeer.results.effect import closing_lines, effect_of
from dpeer.results.files import LOG, SUMMARY, rank_folder
from dpeer.results.run_folders import read_entries, read_object
from dpeer.training import forget

if TYPE_CHECKING:
    from dpeer.federation.metrics_server import Board

END_WITHIN = 60.0
"""Seconds within which one request to stop ends a peer's process, also where its disk hangs."""

Meet = Callable[[str | None], Awaitable[Mapping[int, str] | None]]
"""Called with the address at which this peer listens; returns the addresses of all peers by rank, or None to stop."""


class Stopper:
    """Asks a peer to stop, however early the request comes.

    Args:
        code: The exit code of the process if it has not ended `END_WITHIN` seconds later; None for no such limit.
    """

    def __init__(self, code: int | None = None) -> None:
        self._code = code
        self.requested = asyncio.Event()
        self._peer: Peer | None = None
        self._limit: threading.Timer | None = None

    def install(self) -> None:
        """From now on the first Ctrl-C or other stop signal asks to stop, the second ends the process at once."""
        answer_on_loop(self._stop_by, lambda number: os._exit(128 + number))

    def watch(self, peer: Peer) -> None:
        """Stop this peer when the request comes, or now if it has come."""
        self._peer = peer
        if self.requested.is_set():
            peer.stop()

    def stop(self) -> None:
        """Ask to stop; asking again changes nothing."""
        if self._code is not None and not self.requested.is_set():
            self._limit = threading.Timer(END_WITHIN, _end_late, [self._code])
            self._limit.daemon = True
            with contextlib.suppress(RuntimeError):  # the system gives no thread: the peer stops all the same
                self._limit.start()
        self.requested.set()
        if self._peer is not None:
            self._peer.stop()

    def ended(self) -> None:
        """The peer has ended and its files are written: a process that goes on is left alone."""
        if self._limit is not None:
            self._limit.cancel()

    def _stop_by(self, number: int) -> None:
        if not self.requested.is_set():
            self._code = 128 + number
            self.stop()


def _end_late(code: int) -> None:
    """End the process as it is: a thread that waits for a hanging disk cannot be ended otherwise."""
    os.write(2, f"dpeer: not ended within {END_WITHIN:g} s of the request (does the disk hang?): ended now; "
                "--resume goes on from the last checkpoint\n".encode())  # fmt: skip
    os._exit(code)


async def serve(
    settings: Settings,
    rank: int,
    *,
    listen: str | None,
    meet: Meet,
    stopper: Stopper,
    resume: bool,
    given: MemberList | None = None,
    keyring: Keyring | None = None,
    sink: Sink | None = None,
    report: Report = lambda event: None,
    hold: AbstractContextManager[Any] | None = None,
    status: ServeAddress | None = None,
) -> Outcome | None:
    """Assemble a peer, connect it and run its rounds; None if it was stopped before it had connected.

    Args:
        settings: As this rank uses them.
        rank: The peer.
        listen: Address to accept connections at.
        meet: Finds the other peers' addresses.
        stopper: Asks the peer to stop.
        resume: Continue from the checkpoint.
        given: A member list that an operator has sent for this start.
        keyring: What the peer proves who it is with; None for connections without encryption.
        sink: Where log lines go besides log.jsonl; what ends the peer is left to the caller.
        report: Gets the progress, and at first {"kind": "notes", "notes": [...]}.
        hold: Holds the rank's folder already (`control_client.held`), and lets it go at its exit; None to hold it here.
        status: Where the peer's metrics are served over HTTP; None for nowhere.

    Raises:
        Isolated: the peer was cut off from a quorum for too long; its model is in its folder.
        AddressError: The metrics cannot be served there.
        DpeerError: as documented in dpeer.exceptions; it has been logged.
    """
    out = rank_folder(settings.out, rank).absolute()
    with naming(out, rank_folder(settings.out, rank)):
        log = PeerLog(rank, out / LOG, settings.log_level, *([sink] if sink else []))
    keep_heap()
    threads = settings.threads or share_of_cores(settings, settings.size)
    executor = ThreadPoolExecutor(1, "tensors", initializer=torch.set_num_threads, initargs=(threads,))
    disk = ThreadPoolExecutor(1, "disk", initializer=torch.set_num_threads, initargs=(1,))
    try:
        with (
            working_folder_kept() as home,
            naming(out, rank_folder(settings.out, rank)),
            hold or held(out),
        ):
            worker = Worker(executor, disk)

            def leave(request: Mapping[str, Any]) -> Mapping[str, Any]:
                """Drain a peer that runs no round: it stops."""
                stopper.stop()
                return vars(Snapshot(rank, os.getpid(), "ended", drains=True))

            starting = Snapshot(rank, os.getpid(), "starting")
            requests: dict[str, Handler] = {"status": lambda request: asdict(starting), "drain": leave}
            async with (
                ControlSocket(out, requests, lambda line: log.warning("no-control", message=line)),
                _served(starting, status, worker, log, private=settings.privacy != "none") as board,
            ):
                config = await worker.run(resolve, settings, rank)
                outcome = await _serve(
                    config, out, home, log, worker, requests, board, listen=listen, meet=meet,
                    stopper=stopper, resume=resume, given=given, keyring=keyring, report=report,
                )  # fmt: skip
            stopper.ended()
            return outcome
    except Exception as error:
        log.to_file_only()  # the caller prints it
        traceback = not isinstance(error, DpeerError) or settings.log_level == "debug"
        log.error("run-failed", message=str(error), reason=type(error).__name__, exc_info=traceback)
        raise
    finally:
        for pool in (executor, disk):
            pool.shutdown(wait=False, cancel_futures=True)
        log.close()


async def _serve(
    config: RunConfig,
    out: Path,
    home: Path,
    log: PeerLog,
    worker: Worker,
    requests: dict[str, Handler],
    board: Board | None,
    *,
    listen: str | None,
    meet: Meet,
    stopper: Stopper,
    resume: bool,
    given: MemberList | None,
    keyring: Keyring | None,
    report: Report,
) -> Outcome | None:
    rank, network = config.rank, config.network
    await worker.run(check_plugins, config)
    parts = await worker.run(build, config, resume=resume, home=home, given=given)
    forget()
    freeze_heap()
    await worker.run(save_data_files, out, parts.partition, parts.preparation, resume=resume)
    for note in parts.notes:
        log.info("note", message=note)
    report({"kind": "notes", "notes": parts.notes})
    tracking = Tracking(
        config.run.log_to, out, parts.facts["settings"], log, protects=config.privacy.privacy != "none", resume=resume
    )

    slow_steps = SlowSteps()

    def happened(event: dict[str, Any]) -> None:
        report(event)
        if event["kind"] != "record":
            return
        if board is not None:
            board.note(event["entry"])
        tracking.add(event["entry"])
        if (line := slow_steps.look(parts.learner.figures.pace)) is not None:
            log.warning("slow-steps", message=line)

    async def compare(outcome: Outcome) -> None:
        if parts.baseline is not None:
            parts.baseline.end(outcome.completed_rounds, finished=outcome.status == "done")
        await worker.run(
            conclude_comparison, out, parts.learner, parts.baseline, parts.facts, stopper.requested.is_set,
            lambda line: log.info("worth", message=line), diverged=outcome.diverged,
        )  # fmt: skip

    limits = Limits(payload_bytes=parts.learner.about.payload_bytes)
    transport = ZeroMQTransport(limits, network.dead_after, keyring, proxies(network.proxy))
    peer = Peer(
        replace(parts.peer, listen=listen, authenticated=keyring is not None),
        parts.topology, parts.learner, transport, worker, log,
        facts=parts.facts,
        report=happened,
        watch=parts.watch,
        at_once=compare,
    )  # fmt: skip
    stopper.watch(peer)
    bound = await peer.listen()
    if bound is not None:
        log.info("listening", message=f"listening at {bound}", address=bound)
    addresses = await meet(bound)
    if addresses is None:
        await transport.close(0)
        return None
    leave = requests["drain"]
    if board is not None:
        for entry in await worker.run(read_entries, out) if resume else ():
            board.note(entry)
        board.follow(peer.snapshot)
    requests |= peer.requests
    try:
        outcome = await peer.serve(addresses)
    finally:
        if config.run.log_to:
            await asyncio.to_thread(close_trackers, [tracking])
    requests["drain"] = leave  # no round is left, but perhaps the comparison with the local-only baseline
    gone = outcome.status in ("left", "evicted") and outcome.completed_rounds > 0
    if gone or (outcome.status == "done" and not outcome.concluded_before):
        await compare(outcome)
    if outcome.why and outcome.status != "left":
        worth = effect_of(read_object(out / SUMMARY).get("worth")) if gone else None
        for line in closing_lines(worth, str(rank_folder(config.run.out, rank))) if worth is not None else ():
            log.info("worth", message=line)
        rounds = peer.core.schedule.rounds
        after = f"ended after {outcome.completed_rounds} of {rounds} rounds, {outcome.why}"
        then = "; --resume goes on" if outcome.status == "isolated" else ""
        raise Isolated(f"{after}{then}; the model is in {rank_folder(config.run.out, rank)}")
    return outcome


@asynccontextmanager
async def _served(
    starting: Snapshot, status: ServeAddress | None, worker: Worker, log: PeerLog, *, private: bool
) -> AsyncIterator[Board | None]:
    """Context in which metrics are served, where that was asked for, from a board that is kept filled."""
    if status is None:
        yield None
        return
    from dpeer.federation.metrics_server import Board, MetricsServer  # prometheus-client and http.server

    board = Board(lambda: starting, private=private)
    server = await worker.run(MetricsServer, status, board)
    host = "127.0.0.1" if status.everywhere else status.host
    url = f"http://{ServeAddress(host, server.address.port)}/metrics"
    log.info("serving", message=f"metrics at {url}", address=str(server.address))
    if not status.loopback:
        log.warning(
            "serving-openly",
            message=f"metrics at {server.address} have no password: all who reach it can read them (docs/security.md)",
            address=str(server.address),
        )
    filling = asyncio.create_task(board.keep_filled())
    try:
        yield board
    finally:
        filling.cancel()
        await asyncio.to_thread(server.close)
