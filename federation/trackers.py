"""Trackers of experiments: figures of each round also go to TensorBoard, MLflow or Weights & Biases (`--log-to`)."""

from __future__ import annotations

import contextlib
import math
import netrc
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from dpeer.exceptions import ConfigurationError
from dpeer.optional_libraries import check_libraries
from dpeer.results.files import write_json
from dpeer.results.run_folders import read_object

if TYPE_CHECKING:
    from dpeer.peer.logs import PeerLog

FILE = "tracked.json"
"""In a rank's folder: by tracker, the run of it that a resumed peer goes on with."""

SHOWN = (
    "algorithm", "task", "topology", "size", "rounds", "seed", "participation", "batch_size", "body_lr", "head_lr",
    "body_epochs", "head_epochs", "local_steps", "privacy",
)  # fmt: skip
"""Settings that trackers show: equal on all peers, or chosen without a look at data. None is a path or an address."""

_PROJECT = "dpeer"
_PROGRESS = ("bytes_sent", "bytes_received", "epsilon", "delta")
"""Figures that may leave a peer with privacy; all others are computed from its data."""

_PATIENCE = 15.0
"""Seconds for which the end of a run waits for its trackers."""

_UNFIT = re.compile(r"[^\w\-. :/]")
"""What MLflow has in no metric's name."""

_LONGEST = 250
"""The most characters of a metric's name in MLflow."""


class TrackedRun(NamedTuple):
    """A tracker's run of one peer: what finds it again, what shows a round's figures, and what ends it."""

    identity: str
    log: Callable[[int, Mapping[str, float]], object]
    close: Callable[[], object]


def _tensorboard(folder: Path, settings: Mapping[str, Any], start: int, known: str | None) -> TrackedRun:
    """Event files in the rank's own folder, which `tensorboard --logdir RUN` shows."""
    from torch.utils.tensorboard import SummaryWriter  # a second to import

    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=start or None)
    if known is None:
        writer.add_text("settings", "\n".join(f"    {name}: {one}" for name, one in settings.items()))

    def log(step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return TrackedRun("tensorboard", log, writer.close)


def _mlflow(folder: Path, settings: Mapping[str, Any], start: int, known: str | None) -> TrackedRun:
    """A run of an experiment on the server that MLFLOW_TRACKING_URI names."""
    from mlflow import MlflowClient  # a second to import
    from mlflow.entities import Metric, Param

    client, name = MlflowClient(), os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
    if known is None:
        with contextlib.suppress(Exception):  # mostly it is there already
            client.create_experiment(name)
        group, found = folder.parent.name, client.get_experiment_by_name(name)
        assert found is not None, "made, or refused above"
        # Not by `start_run`, which tells the server who runs which script.
        made = client.create_run(str(found.experiment_id), tags={"dpeer.run": group}, run_name=f"{group}/{folder.name}")
        known = str(made.info.run_id)
        client.log_batch(known, params=[Param(name, str(one)) for name, one in settings.items()])
    else:
        client.update_run(known, status="RUNNING")
    identity = known

    def log(step: int, figures: Mapping[str, float]) -> None:
        now, fit = int(1000 * time.time()), dict[str, float]()
        for name, value in figures.items():
            fit.setdefault(_fit(name), value)
        client.log_batch(identity, [Metric(name, value, now, step) for name, value in fit.items()])

    return TrackedRun(identity, log, lambda: client.set_terminated(identity))


def _fit(name: str) -> str:
    """A metric's name as MLflow takes it: a path without empty and dotted parts."""
    parts = _UNFIT.sub("_", name)[:_LONGEST].split("/")
    return "/".join(part if part.strip(".") else "_" for part in parts)


def _wandb(folder: Path, settings: Mapping[str, Any], start: int, known: str | None) -> TrackedRun:
    """A run of a project, on its servers or, with WANDB_MODE=offline, in files; peers of a federation are a group."""
    import wandb

    # It must neither ask on a terminal, nor take the output of this process, nor hold up its end.
    quiet = wandb.Settings(
        silent=True, console="off", init_timeout=10.0, login_timeout=10.0, finish_timeout=10.0, x_disable_meta=True,
        x_disable_stats=True, disable_git=True, save_code=False,
    )  # fmt: skip
    group = folder.parent.name
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", _PROJECT), group=group, name=f"{group}/{folder.name}", dir=str(folder),
        id=known, resume="allow", config=dict(settings), reinit="create_new", settings=quiet,
    )  # fmt: skip
    return TrackedRun(str(run.id), lambda step, figures: run.log(dict(figures), step=step), run.finish)


TRACKERS = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}
"""What opens a run, by the name of the tracker, of its library, and of the extra that installs that."""

_AT_HOME = ("tensorboard",)
"""Trackers whose figures stay in the peer's own folder."""


def check(names: Sequence[str]) -> None:
    """Refuse trackers that lack their library or a setting; nothing is connected.

    Raises:
        ConfigurationError: Naming the tracker, and what to do.
    """
    for name in names:
        check_libraries(f"--log-to {name}", name, **{name: name})
        if name == "mlflow" and not os.environ.get("MLFLOW_TRACKING_URI"):
            raise ConfigurationError(
                "--log-to mlflow: set MLFLOW_TRACKING_URI to the server's address, such as http://host:5000"
            )
        if name == "wandb" and os.environ.get("WANDB_MODE", "online") == "online" and not _has_key():
            raise ConfigurationError(
                "--log-to wandb: it has no key: type `wandb login`, set WANDB_API_KEY, or set WANDB_MODE=offline"
            )


def _has_key() -> bool:
    """Whether wandb has a key; no server is asked, as one that is down must not keep a run from its start."""
    server = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        if netrc.netrc(os.environ.get("NETRC")).authenticators(server) is not None:
            return True
    return any(os.environ.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"))


def figures(entry: Mapping[str, Any], *, protects: bool) -> dict[str, float]:
    """A record's figures by name; of a peer that protects its data, its progress alone."""
    found: dict[str, float] = {"heard": len(entry.get("heard") or ()), "missed": len(entry.get("missed") or ())}
    for name, value in entry.items():
        if name == "round" or (protects and name not in _PROGRESS):
            continue
        if isinstance(value, Mapping):
            if name != "privacy":
                found |= {f"{name}/{inner}": float(one) for inner, one in value.items() if _is_number(one)}
        elif _is_number(value):
            found[name] = float(value)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Tracking:
    """The trackers of one peer: each has a thread, so that no round waits for one that is slow or down.

    Of the peer's settings `SHOWN` are shown. `protects` says whether it protects its data, `resume` whether it goes on
    with an earlier process's run.
    """

    def __init__(
        self, names: Sequence[str] | None, out: Path, settings: Mapping[str, Any], log: PeerLog, *, protects: bool,
        resume: bool,
    ) -> None:  # fmt: skip
        self._out, self._log, self._protects = out, log, protects
        self._settings = {name: settings[name] for name in SHOWN if settings.get(name) is not None}
        self._known = dict(read_object(out / FILE)) if resume else {}
        self._lock = threading.Lock()
        self._rounds = {name: SimpleQueue[Mapping[str, Any] | None]() for name in names or ()}
        self.threads = {
            name: threading.Thread(target=self._track, args=(name, rounds), name=f"track-{name}", daemon=True)
            for name, rounds in self._rounds.items()
        }
        for thread in self.threads.values():
            thread.start()

    def add(self, entry: Mapping[str, Any] | None) -> None:
        """Hand a record to every tracker, or None after the last one; returns at once."""
        for waiting in self._rounds.values():
            waiting.put(entry)

    def _track(self, name: str, rounds: SimpleQueue[Mapping[str, Any] | None]) -> None:
        """Give a tracker one round after the other; those that it did not take go first when the next one comes."""
        run, waiting, why = None, deque[Mapping[str, Any]](), ""
        protects = self._protects and name not in _AT_HOME
        going = True
        while going:
            entry = rounds.get()
            going = entry is not None
            waiting += [] if entry is None else [entry]
            try:
                while waiting:
                    run = run or self._open(name, waiting[0]["round"])
                    run.log(waiting[0]["round"], figures(waiting[0], protects=protects))
                    waiting.popleft()
                why = ""
            except Exception as error:
                if not why:
                    self.warn(name, "lacks rounds for now, which are in metrics.jsonl, and the run goes on", error)
                why = f"{type(error).__name__}: {error}"
        if waiting:
            self.warn(name, f"lacks {len(waiting)} rounds, which are in metrics.jsonl", why)
        try:
            if run is not None:
                run.close()
        except Exception as error:
            self.warn(name, "did not end its run", error)

    def _open(self, name: str, start: int) -> TrackedRun:
        known = self._known.get(name)
        run = TRACKERS[name](self._out, self._settings, start, known if isinstance(known, str) else None)
        with self._lock:
            self._known[name] = run.identity
            write_json(self._out / FILE, self._known)
        return run

    def warn(self, name: str, what: str, why: Exception | str) -> None:
        """Log what a tracker lacks, and why."""
        reason = f"{type(why).__name__}: {why}" if isinstance(why, Exception) else why
        message = f"{name} {what} ({' '.join(reason.split())[:300]})"
        with contextlib.suppress(Exception):  # the log may be closed when a thread comes late
            self._log.warning("tracker", message=message, tracker=name)


def close(trackings: Collection[Tracking]) -> None:
    """Have the trackers of some peers end, and wait for them, not for long."""
    until = time.monotonic() + _PATIENCE
    for one in trackings:
        one.add(None)
    for one in trackings:
        for name, thread in one.threads.items():
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                one.warn(name, "lacks rounds, which are in metrics.jsonl", "it has not ended in time")
