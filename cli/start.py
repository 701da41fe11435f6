"""`dpeer start`: one peer on this host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpeer.cli.options import (
    GroupedCommand,
    GroupedOption,
    json_summary_option,
    members_option,
    resume_or_start_option,
    run_options,
)
from dpeer.cli.progress import Bar
from dpeer.cli.terminal import Terminal, ended_at_once
from dpeer.exceptions import Diverged
from dpeer.federation import addresses, config, folders, keys, trackers
from dpeer.federation.control_client import held
from dpeer.federation.folders import refuse_faults
from dpeer.federation.policy import obey
from dpeer.federation.run_settings import FaultSettings
from dpeer.federation.serve_address import read_serve
from dpeer.federation.settings import Settings, option_names
from dpeer.federation.starting import ENVIRONMENT, Starting, own_rank, source
from dpeer.results.effect import closing_lines, effect_of
from dpeer.results.figures import in_words, privacy_line
from dpeer.results.files import SUMMARY, rank_folder
from dpeer.results.run_folders import read_object
from dpeer.results.units import duration

if TYPE_CHECKING:
    from dpeer.peer.peer import Outcome


@click.command(cls=GroupedCommand)
@click.option(
    "--rank", cls=GroupedOption, group="The run", required=True, metavar="R",
    help="The rank, or `env` (Slurm, MPI, pods).",
)  # fmt: skip
@members_option
@resume_or_start_option
@run_options(*option_names(FaultSettings))
@json_summary_option
def start(
    rank: str,
    federation: Path | None,
    members: Path | None,
    resume: bool,
    resume_or_start: bool,
    overwrite: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run one peer of a federation on this host.

    All peers have the same settings and a rank each. `dpeer status` says where a
    peer is and what it waits for. Ctrl-C keeps the last completed round.
    """
    number = own_rank(rank)
    settings = config.load(federation, flags)
    starting = Starting(settings, number, members, resume=resume, resume_or_start=resume_or_start)
    settings, resume = starting.settings, starting.resume
    refuse_faults(settings, resume=resume)
    # Mistakes show before anything is written, and before the task reads its data.
    obey(starting.verdicts())
    keyring, listen, _ = starting.keyring, starting.listen, starting.through
    everyone, _ = starting.everyone, starting.to_dial
    own = starting.own
    trackers.check(own.log_to or ())
    folders.check(own.out, [number], resume=resume, overwrite=overwrite)

    with Terminal() as terminal, ExitStack() as hold:
        terminal.say(_first_line(starting, config.source(federation), listen, encrypted=keyring is not None))
        if rank == ENVIRONMENT:
            terminal.say(f"dpeer: --rank env: rank {number} is from {source()}")
        if keyring is not None and (line := keys.accepted(own.secret)):
            terminal.say(f"dpeer: {line}")
        if settings.insecure and keyring is None:
            terminal.say("WARNING: --insecure: any program that reaches the port can read and alter all messages")
        for neighbor, unknown in starting.unresolvable().items():
            terminal.say(f"WARNING: rank.{neighbor}.address: host {unknown!r} cannot be resolved, trying again")

        hold.enter_context(held(rank_folder(own.out, number)))
        terminal.say("dpeer: loading PyTorch, the task and its data ...")
        with ended_at_once():
            from dpeer.federation.serving import Stopper, serve  # torch is imported only now: mistakes show at once

        bar = Bar(terminal, own.rounds if starting.listed is None else starting.listed.rounds)

        async def meet(bound: str | None) -> Mapping[int, str]:
            return everyone

        def report(event: Mapping[str, Any]) -> None:
            if event["kind"] == "connected":
                bar.begin()
            elif event["kind"] == "record":
                bar.completed(event["entry"]["round"] + 1)

        async def run() -> Outcome | None:
            stopper = Stopper()
            stopper.install()
            return await serve(
                own, number, listen=listen, meet=meet, stopper=stopper, resume=resume,
                given=starting.given, keyring=keyring, sink=terminal.log, report=report, hold=hold,
                status=None if own.serve is None else read_serve(own.serve),
            )  # fmt: skip

        with ended_at_once(), bar:
            outcome = asyncio.run(run())
        return print_end(outcome, own, number, terminal, as_json=as_json)


def print_end(outcome: Outcome | None, own: Settings, rank: int, terminal: Terminal, *, as_json: bool) -> int:
    """Print how the peer's run ended; returns the exit code."""
    folder = rank_folder(own.out, rank)
    summary = {} if outcome is None else read_object(folder / SUMMARY)
    terminal.say(
        last_line(outcome, summary.get("rounds", own.rounds), folder, summary, shares=own.algorithm != "local")
    )
    if outcome is None:
        return 0
    if outcome.status in ("done", "left"):
        worth = effect_of(summary.get("worth"))
        for line in [] if worth is None else closing_lines(worth, str(folder)):
            terminal.say(f"dpeer: {line}")
    if as_json:
        terminal.flush()
        click.echo(json.dumps(summary, allow_nan=False))
    if outcome.diverged and outcome.status == "done":
        raise Diverged([rank], str(folder))
    return 0


def _first_line(starting: Starting, file: Path | None, listen: str | None, *, encrypted: bool) -> str:
    where, settings, listed = (
        f"listening at {listen}" if listen else "dialling out only",
        starting.settings,
        starting.listed,
    )
    size, graph = (settings.size, settings.topology) if listed is None else (len(listed.members), listed.graph)
    place = f"dpeer: rank {starting.rank} of {size}, {graph}, {where}{', encrypted' if encrypted else ''}"
    if addresses.from_file(settings):
        return f"{place} (settings from {file}{'' if listed is None else f', member list {listed.version}'})"
    which = f"no address in {file}" if file else "no federation file"
    return f"{place} ({which}: all peers on this host, rank R at port {settings.base_port} + R)"


def last_line(outcome: Outcome | None, rounds: int, folder: Path, summary: Mapping[str, Any], *, shares: bool) -> str:
    """The line on how many rounds are done, with which figures and losses; `shares`: whether bodies leave the peer."""
    if outcome is None:
        return "dpeer: stopped before the first round"
    if outcome.status == "stopped":
        return (
            f"dpeer: stopped after {outcome.completed_rounds} of {rounds} rounds; --resume goes on; files in {folder}"
        )
    accuracy = summary.get("accuracy")
    result = "" if accuracy is None else f", accuracy {accuracy:.4f}"
    others = {name: value for name, value in (summary.get("metrics") or {}).items() if name != "accuracy"}
    result += f", {words}" if (words := in_words(others)) else ""
    lost = ""
    for rank, reason in outcome.lost.items():
        back = rank in outcome.back
        lost += f"; {'rounds without' if back else 'lost'} rank {rank} ({reason}){', which came back' if back else ''}"
    spent = (outcome.last or {}).get("privacy")
    private = f"; {privacy_line(spent)}" if spent else ""
    mixed = summary.get("rounds_mixed") if shares else None
    few = f"; bodies mixed in {mixed} of them" if mixed is not None and mixed < outcome.completed_rounds else ""
    if paused := summary.get("paused_seconds"):
        few += f", paused for {duration(paused)} without a quorum"
    if late := summary.get("late_bodies"):
        few += f", {late} of its own came too late for all neighbors (see log.jsonl)"
    count = "1 round" if outcome.completed_rounds == 1 else f"{outcome.completed_rounds} rounds"
    if outcome.status == "left":
        count = f"{outcome.completed_rounds} of {rounds} rounds"
    ended = "left the federation" if outcome.status == "left" else "done"
    return f"dpeer: {ended} after {count}{few}{result}{private}{lost}; files in {folder}"
