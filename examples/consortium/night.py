"""Demo of a consortium: eight sites train through a relay while some are slow, cut off, killed, or lose a disk.

    python examples/consortium/night.py --quick                  # a few minutes, with bundled data
    python examples/consortium/night.py --data FILE.npz          # HAR, at the pace of real sites: two hours
    python examples/consortium/night.py --quick --join           # a ninth site joins in round 8

Sites are real `dpeer start` processes that can only dial out, in network namespaces where the machine has them (root
and iproute2). One site is 20 times slower; one is cut off for three minutes; one loses its disk; a laptop is closed;
the largest is killed in the last round; a federation file has three mistakes. Nobody is at the keyboard but those who
restart their own site. `timeline.json` and `timeline.html` in the folder tell the night; the exit code is 0 if every
site has its model at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

import timeline
from site_lines import Lines, Namespaces, UserSpace, listening, why_no_namespaces
from timeline import Happening

from dpeer.federation.keys import write_secret
from dpeer.federation.operators import write_operator

HERE = Path(__file__).resolve().parent
DPEER = (sys.executable, "-m", "dpeer")
SITES, JOINER = 8, 8
LARGEST, SLOW, LOST, MISTAKEN, CUT, LAPTOP = 0, 7, 3, 4, 5, 6
"""The sites to which something happens."""

RESTART_AFTER = 2.0
"""Seconds until somebody at a site restarts what has died there."""

RESTARTS = 5

MISTAKES = (
    ("body_epochs", "body_epoch"),
    ('topology = "ring"', 'topology = "grid"'),
    (f"keys/rank-{MISTAKEN}.secret", "keys/rank.secret"),
)
"""What a federation file should say, and what it says at first: each is met by itself, and mended."""


@dataclass
class Plan:
    """When what happens: rounds are those of the furthest site, times are seconds.

    Attributes:
        rounds: Of the federation.
        pace: Of a round of training.
        slow: How many times slower one site is.
        dead_after: Silence after which rounds go on without a neighbor.
        cut, night: How long a line is cut, and a laptop closed.
        patience: How long a site that was restarted waits for its neighbors.
        wait: How long sites wait for each other at the start. In a wait of more than an hour a site with other settings
            ends, and the others go on waiting.
        limit: Of the whole night.
        cut_in, closed_in, lost_in, joins_in: The rounds.
    """

    rounds: int = 20
    pace: float = 20.0
    slow: float = 20.0
    dead_after: float = 15.0
    cut: float = 180.0
    night: float = 600.0
    patience: float = 600.0
    wait: float = 4 * 3600.0
    limit: float = 4 * 3600.0
    cut_in: int = 3
    closed_in: int = 5
    lost_in: int = 7
    joins_in: int = 8


QUICK = Plan(pace=0.3, dead_after=5.0, cut=12.0, night=15.0, patience=30.0, limit=1200.0)

LEFT = 3
"""The exit code of a site that the others have left, or that found none; its model is kept."""


@dataclass
class Site:
    """One site: its folder, its process, and those who restart it."""

    rank: int
    folder: Path
    before: list[str]
    process: subprocess.Popen[bytes] | None = None
    restart_at: float | None = None
    restarts: int = 0
    options: tuple[str, ...] = ()
    mistakes: list[tuple[str, str]] = field(default_factory=list)
    code: int | None = None
    logs: list[Any] = field(default_factory=list)

    @property
    def run(self) -> Path:
        """The rank's folder."""
        return self.folder / "run" / f"rank-{self.rank}"

    def completed(self) -> int:
        """Rounds that it has completed."""
        path = self.run / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def mistake(self) -> None:
        """Write the next mistake into the federation file."""
        path = self.folder / "dpeer.toml"
        right, wrong = self.mistakes[0]
        path.write_text(path.read_text().replace(right, wrong))

    def mend(self) -> None:
        """Mend the mistake that its people have just read of, and make the next."""
        path = self.folder / "dpeer.toml"
        right, wrong = self.mistakes.pop(0)
        path.write_text(path.read_text().replace(wrong, right))
        if self.mistakes:
            self.mistake()

    def last_line(self) -> str:
        """What it has printed last."""
        return (self.folder / "output.txt").read_text().rstrip().rpartition("\n")[2]

    def last_words(self) -> str:
        """What it has printed of its end, if that was a good one."""
        printed = (self.folder / "output.txt").read_text().splitlines()
        found = [line for line in printed if line.startswith("dpeer: done ") or "WARNING: left-behind" in line]
        return found[-1].partition(": ")[2] if found else self.last_line()

    def start(self, *options: str) -> None:
        """Start its process, or start it again."""
        log = (self.folder / "output.txt").open("ab")
        self.logs.append(log)
        words = ("start", "--rank", str(self.rank), "--out", "run", *self.options, *options)
        self.process = subprocess.Popen(
            [*self.before, *DPEER, *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal: `ip netns exec` becomes what it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


class Night:
    """The sites, the relay, and what happens to them.

    Args:
        out: A new folder.
        lines: To the relay.
        plan: When what happens.
        data: The npz of HAR; None for the bundled table.
        joins: Whether a ninth site joins.
        settings: More lines of the federation file.
    """

    def __init__(
        self, out: Path, lines: Lines, plan: Plan, data: Path | None, settings: Sequence[str], *, joins: bool
    ) -> None:
        self.out, self.lines, self.plan, self.data, self.joins = out, lines, plan, data, joins
        self.happenings: list[Happening] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.began = time.time()
        self._settings = settings
        self.sites = [self._site(rank) for rank in range(SITES + joins)]
        self.keys = [self._keygen(site) for site in self.sites]
        self._write_files()
        self.planned = self._plan()

    # -- before the start --------------------------------------------------------------------------------------

    def _site(self, rank: int) -> Site:
        folder = self.out / f"site-{rank}"
        folder.mkdir(parents=True)
        return Site(rank, folder, self.lines.site(rank)[0])

    def _keygen(self, site: Site) -> str:
        return write_secret(site.rank, site.folder / "keys")[1].hex()

    def _write_files(self) -> None:
        """One federation file, but for the address at which each site sees the relay."""
        plan = self.plan
        common = [
            f"size = {SITES}", 'topology = "ring"', f"rounds = {plan.rounds}",
            f'task = "{HERE / "tasks.py"}:{"har" if self.data else "table"}"', "body_epochs = 2", "head_epochs = 1",
            "batch_size = 16", f"dead_after = {plan.dead_after}", f"wait = {plan.wait}", *self._settings,
        ]  # fmt: skip
        if self.joins:
            common += [f'operators = ["{write_operator(self.out / "operator")[1]}"]', 'name = "one-night"']
        for site in self.sites:
            options = {"pace": plan.pace} | ({"data": str(self.data)} if self.data else {})
            lines = [*common, f'secret = "keys/rank-{site.rank}.secret"', "[task_options]"]
            lines += [f"{name} = {json.dumps(value)}" for name, value in options.items()]
            place = self.lines.site(site.rank)[1]
            for rank in range(SITES) if site.rank < SITES else range(SITES + 1):
                lines += [f"[rank.{rank}]", f'address = "relay://{place}"', f'key = "{self.keys[rank]}"']
                lines += [f"task_options.slow = {plan.slow}"] if rank == SLOW else []
            (site.folder / "dpeer.toml").write_text("\n".join(lines) + "\n")
        self.sites[MISTAKEN].mistakes += MISTAKES
        self.sites[MISTAKEN].mistake()
        self.list_keys(range(SITES))

    def list_keys(self, ranks: Sequence[int]) -> None:
        """The relay's list; it is read again when it changes."""
        text = "".join(f'rank.{rank}.key = "{self.keys[rank]}"\n' for rank in ranks)
        new = self.out / "keys.new"
        new.write_text(text)
        new.replace(self.out / "keys.toml")

    def _plan(self) -> list[tuple[Callable[[], bool], Callable[[], None]]]:
        """What happens, and when."""

        def furthest(number: int) -> Callable[[], bool]:
            return lambda: max(site.completed() for site in self.sites) >= number

        plan = self.plan
        found = [
            (furthest(plan.cut_in), self.cut),
            (furthest(plan.closed_in), self.close_laptop),
            (furthest(plan.lost_in), self.lose_disk),
            (lambda: self.sites[LARGEST].completed() >= plan.rounds - 1, self.kill_largest),
        ]
        return [*found, (furthest(plan.joins_in), self.join)] if self.joins else found

    # -- what happens ------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the start."""
        return time.time() - self.began

    def tell(self, site: int | None, kind: str, text: str, lasts: float | None = None) -> None:
        """Note what happens, and print it."""
        at = self.now()
        self.happenings.append(Happening(round(at, 2), site, kind, text, None if lasts is None else at + lasts))
        print(f"{at:7.1f} s  {'relay' if site is None else f'site {site}'}: {text}", flush=True)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later."""
        self.later.append((self.now() + seconds, action))

    def cut(self) -> None:
        """A line is cut for a while."""
        self.tell(CUT, "cut", f"its line is cut for {self.plan.cut:g} s", self.plan.cut)
        self.lines.cut(CUT)

        def heal() -> None:
            self.lines.heal(CUT)
            self.tell(CUT, "healed", "its line is back")

        self.after(self.plan.cut, heal)

    def close_laptop(self) -> None:
        """A laptop is closed: its process stands still, and so does its clock for all that it knows."""
        self.tell(LAPTOP, "closed", f"the laptop is closed for {self.plan.night:g} s", self.plan.night)
        self.sites[LAPTOP].signal(signal.SIGSTOP)

        def open_again() -> None:
            self.sites[LAPTOP].signal(signal.SIGCONT)
            self.tell(LAPTOP, "opened", "the laptop is opened")

        self.after(self.plan.night, open_again)

    def lose_disk(self) -> None:
        """A disk is lost with everything on it but keys and federation file; the site starts anew."""
        site = self.sites[LOST]
        site.signal(signal.SIGKILL)
        assert site.process is not None
        site.process.wait()
        shutil.rmtree(site.folder / "run", ignore_errors=True)
        self.tell(LOST, "disk lost", "its disk is lost; the site starts anew with an empty one")
        site.restart_at, site.code = self.now() + RESTART_AFTER, None
        site.restarts += 1

    def kill_largest(self) -> None:
        """The largest site dies in the last round."""
        self.sites[LARGEST].signal(signal.SIGKILL)
        self.tell(LARGEST, "killed", "the largest site is killed in the last round")

    def join(self) -> None:
        """A ninth site joins: an operator signs it at one site, and it starts."""
        self.list_keys(range(SITES + 1))
        member = self.sites[1]
        words = (
            "join", "run", "--rank", str(JOINER), "--address", f"relay://{self.lines.site(JOINER)[1]}",
            "--key", self.keys[JOINER], "--operator", str(self.out / "operator" / "operator.secret"),
        )  # fmt: skip
        ended = subprocess.run(
            [*member.before, *DPEER, *words], cwd=member.folder, capture_output=True, text=True, check=False
        )
        printed = (" ".join(line.split()) for line in (ended.stdout + ended.stderr).splitlines())
        output = "; ".join(filter(None, printed))
        if ended.returncode:
            self.tell(JOINER, "refused", f"dpeer join: {output}")
            return
        self.tell(JOINER, "joins", f"an operator lets it in: {output}")
        self.sites[JOINER].options = ("--join",)
        self.sites[JOINER].start()

    # -- the night ---------------------------------------------------------------------------------------------

    def pass_by(self) -> None:
        """Run everything, until all sites have ended or the night is over."""
        before, place = self.lines.relay()
        with (self.out / "relay.txt").open("wb") as log:
            words = ("relay", "--listen", f"tcp://{place}", "--keys", str(self.out / "keys.toml"))
            relay = subprocess.Popen([*before, *DPEER, *words], stdout=log, stderr=subprocess.STDOUT)
            try:
                if not listening(before, place, 60):
                    raise RuntimeError((self.out / "relay.txt").read_text() or "the relay does not start")
                self.began = time.time()
                self.tell(None, "relay", f"it listens; {self.lines.kind}")
                for site in self.sites[:SITES]:
                    site.start()
                while self.now() < self.plan.limit and not all(self._ended(site) for site in self.sites):
                    self._step()
                    time.sleep(0.05)
            finally:
                for site in self.sites:
                    site.signal(signal.SIGCONT)
                    site.signal(signal.SIGKILL)
                    for one in site.logs:
                        one.close()
                relay.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    relay.wait(10)
                relay.kill()

    def _step(self) -> None:
        for happens in [one for one in self.planned if one[0]()]:
            self.planned.remove(happens)
            happens[1]()
        for due in [one for one in self.later if one[0] <= self.now()]:
            self.later.remove(due)
            due[1]()
        for site in self.sites:
            self._attend(site)

    def _attend(self, site: Site) -> None:
        """Those at a site restart what has died there, as they would."""
        if site.process is None or site.code == 0:
            return
        if site.restart_at is not None:
            if self.now() >= site.restart_at:
                site.restart_at = None
                resumes = (site.run / "checkpoint").is_dir()
                self.tell(site.rank, "restarted", f"it is restarted{' with --resume' if resumes else ''}")
                patience = ("--wait", f"{self.plan.patience:g}")
                site.start(*patience, *(("--resume",) if resumes else ()))
        elif (code := site.process.poll()) is not None and code and site.mistakes:
            self.tell(site.rank, "mistake", f"refused with {code}, and mended: {shorten(site.last_line(), 120)}")
            site.mend()
            site.restart_at = self.now() + RESTART_AFTER
        elif code is not None:
            site.code = code
            # Two sites that were both restarted would wait for each other's restarts for ever.
            left = code == LEFT and all(one.code == 0 or one.restarts or one is site for one in self.sites)
            if code and not left and site.restarts < RESTARTS:
                site.restarts += 1
                how = (
                    f"ended with {code}: {shorten(site.last_line(), 160)}"
                    if code > 0
                    else f"was ended by signal {-code}"
                )
                self.tell(site.rank, "ended", f"its process {how}")
                site.restart_at = self.now() + RESTART_AFTER
                site.code = None
            else:
                self.tell(site.rank, "over" if code else "done", shorten(site.last_words(), 200))

    def _ended(self, site: Site) -> bool:
        if site.process is None:
            return not any(action == self.join for _, action in self.planned)
        return site.code is not None and site.restart_at is None

    # -- what it came to ---------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """The night, as `timeline.json` has it."""
        sites = [self._of_site(site) for site in self.sites]
        done, left = (sum(site["status"] == status for site in sites) for status in ("done", "left-behind"))
        kept = f", {left} {'keeps' if left == 1 else 'keep'} the model of the last round with others" if left else ""
        return {
            "title": "A consortium in one night",
            "lines": self.lines.kind,
            "summary": f"{done} of {len(sites)} sites have completed all rounds{kept}; {self.now() / 60:.1f} minutes",
            "seconds": round(self.now(), 2),
            "plan": vars(self.plan),
            "sites": sites,
            "happenings": sorted(map(vars, self.happenings), key=lambda one: one["at"]),
            "relay": (self.out / "relay.txt").read_text().splitlines(),
        }

    def _of_site(self, site: Site) -> dict[str, Any]:
        path = site.run / "summary.json"
        summary = json.loads(path.read_text()) if path.exists() else {}
        worth = summary.get("worth") or {}
        rounds = timeline.rounds_of(site.run, self.began)
        return {
            "name": f"site {site.rank}" + {LARGEST: ", largest", SLOW: ", slow", LAPTOP: ", laptop"}.get(site.rank, ""),
            "rows": summary.get("training_samples", "-"),
            "status": summary.get("status") or ("never started" if site.process is None else "running"),
            "completed": len(rounds),
            "mixed": sum(bool(one["heard"]) for one in rounds),
            "federated": worth.get("joined", summary.get("accuracy")),
            "local": summary.get("accuracy_alone"),
            "verdict": worth.get("verdict") or (f"no comparison: {worth['why']}" if worth.get("why") else "-"),
            "restarts": site.restarts,
            "rounds": rounds,
            "log": [vars(one) for one in timeline.logged(site.run, site.rank, self.began)],
        }


def main() -> int:
    """Play a night."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("night"), help="a new folder")
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="HAR, in place of a bundled table")
    parser.add_argument("--quick", action="store_true", help="the same in a few minutes")
    parser.add_argument("--join", action="store_true", help="a ninth site joins in round 8")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a line of the federation file")
    parser.add_argument("--rate", type=float, default=20e6, help="of a line, bits a second")
    parser.add_argument("--delay", type=float, default=0.02, help="of a line, seconds each way")
    parser.add_argument("--no-namespaces", action="store_true", help="shape all lines in user space")
    for name, value in vars(QUICK).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), metavar=type(value).__name__.upper())
    arguments = parser.parse_args()
    given = {name: value for name in vars(QUICK) if (value := getattr(arguments, name)) is not None}
    plan = Plan(**{**vars(QUICK if arguments.quick else Plan()), **given})
    out = arguments.out.absolute()
    if out.exists():
        parser.error(f"--out {arguments.out}: it exists; name a new folder")
    data = arguments.data.absolute() if arguments.data else None
    if data is not None and not data.is_file():
        parser.error(f"--data {arguments.data}: no such file")
    missing = "as asked for" if arguments.no_namespaces else why_no_namespaces()
    if missing:
        print(f"no network namespaces ({missing}): lines are shaped in user space", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and so remove what was made
    lines: Lines = (UserSpace if missing else Namespaces)(SITES + 1, arguments.delay, arguments.rate)
    try:
        night = Night(out, lines, plan, data, arguments.set, joins=arguments.join)
        night.pass_by()
        report = night.report()
        timeline.write(out, report)
    finally:
        lines.close()
    for site in report["sites"]:
        federated, local = map(timeline.figure, (site["federated"], site["local"]))
        print(
            f"{site['name']:15}  {site['status']:11}  {site['completed']:2} rounds, mixed in {site['mixed']:2}, "
            f"accuracy {federated}, local only {local}: {shorten(site['verdict'], 60)}"
        )
    print(f"{report['summary']}; the timeline is in {out / 'timeline.html'}")
    return 0 if all(site["status"] in ("done", "left-behind") for site in report["sites"]) else 1


if __name__ == "__main__":
    sys.exit(main())
