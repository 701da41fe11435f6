"""dpeer from Python: in a script, in a test, in a notebook.

>>> import dpeer
>>> run = dpeer.run(dpeer.Settings(size=8, task="digits"), mode="simulate")  # doctest: +SKIP
>>> run.summary["accuracy_mean"]  # doctest: +SKIP
0.98
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpeer.exceptions import ConfigurationError, PeerFailed
from dpeer.federation.cluster_child import check_not_a_peer
from dpeer.federation.run import BackgroundLoop, check_converged, cluster
from dpeer.federation.settings import Settings, revalidated
from dpeer.federation.view import NotebookLine, View, in_notebook
from dpeer.optional_libraries import check_libraries
from dpeer.plugins import forget_changed, is_importable
from dpeer.results.files import MODEL, SUMMARY, rank_folder
from dpeer.results.run_folders import read_entries, read_object, read_run
from dpeer.simulation.run import simulate
from dpeer.topology.settings import forget_graphs

if TYPE_CHECKING:
    from torch import Tensor

OnRecord = Callable[[dict[str, Any]], object]
"""Called with a peer's line of metrics.jsonl, to which its "rank" is added."""


class Run:
    """The results that a run has left in its folder.

    Args:
        folder: The folder: `Settings.out`, or what `dpeer cluster --out` was given.

    Attributes:
        folder: The same.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<dpeer run in {str(self.folder)!r}>"

    @property
    def summary(self) -> dict[str, Any]:
        """What DIR/summary.json holds; empty without one, as after `dpeer start`."""
        return read_object(self.folder / SUMMARY)

    def metrics(self, rank: int) -> list[dict[str, Any]]:
        """The lines of a peer's metrics.jsonl, one for each completed round, in order.

        Raises:
            ConfigurationError: The run has no such peer.
        """
        folder = rank_folder(self.folder, rank)
        if not folder.is_dir():
            raise ConfigurationError(f"rank {rank}: {str(self.folder)!r} holds no peer of that rank")
        return read_entries(folder)

    def model(self, rank: int) -> dict[str, Tensor]:
        """The state dict of the model that a peer predicts with, under the model's own names.

        A blend has those of the federated model below ``members.0.`` and of the local-only one below ``members.1.``.

        Raises:
            ConfigurationError: The peer has not written one.
        """
        path = rank_folder(self.folder, rank) / MODEL
        if not path.is_file():
            raise ConfigurationError(
                f"rank {rank}: {str(path)!r} is missing; it is written when the peer ends or is stopped"
            )
        from safetensors.torch import load_file

        return load_file(path)

    def report(self, path: str | Path) -> Path:
        """Write a page about the run, with pictures, into a folder, as `dpeer report` does.

        Args:
            path: The folder; an existing report is replaced.

        Returns:
            The page, ``index.html``.

        Raises:
            OutputError: The folder holds something else, or cannot be written.
            ConfigurationError: matplotlib or Jinja2 is not installed.
        """
        check_libraries("Run.report", "plot", matplotlib="matplotlib", jinja2="Jinja2")
        from dpeer.report.page import write_report
        from dpeer.report.pages import check_out
        from dpeer.results.run_folders import find_runs

        out = Path(path)
        check_out(out)
        page, *_ = write_report(find_runs([self.folder]), out, (), None)
        return page


def run(
    settings: Settings | None = None,
    *,
    mode: Literal["cluster", "simulate"] = "simulate",
    resume: bool = False,
    overwrite: bool = False,
    on_record: OnRecord | None = None,
) -> Run:
    """Run all peers of a federation on this machine, and wait for them.

    It works where an event loop is running, too, as in a notebook. Ctrl-C (the interruption of a notebook's cell) stops
    the peers after their minibatch and keeps their last completed round; `KeyboardInterrupt` is raised then, and
    ``resume=True`` goes on from there. A notebook shows the last round in a line, unless `on_record` is given.

    Args:
        settings: The federation's; the defaults if None. Its `task` may be a callable, its `algorithm` a class.
        mode: "simulate": all peers in this process. "cluster": a process for each. The results are the same to the bit.
        resume: Continue a stopped run from its last completed round.
        overwrite: Remove an earlier run from the folder `settings.out`.
        on_record: Called with each peer's line as it comes, on another thread. What it raises ends the run.

    Raises:
        DpeerError: See `dpeer.exceptions`.
        Diverged: The run is done, but at its end a loss or parameters are not finite; its files are written.
        KeyboardInterrupt: The run was stopped.
    """
    check_not_a_peer()
    settings = Settings() if settings is None else settings
    if not isinstance(settings, Settings):
        raise ConfigurationError(f"settings = {settings!r}: expected dpeer.Settings(...)")
    if mode not in ("cluster", "simulate"):
        raise ConfigurationError(f"mode = {mode!r}: choose 'simulate' or 'cluster'")
    settings = revalidated(settings)
    if mode == "cluster":
        _check_importable(settings)
    if getattr(_listening, "now", False):
        raise ConfigurationError(
            "dpeer.run was called by an on_record, for which the peers of its run wait: call it once that run has ended"
        )
    forget_changed()
    forget_graphs()
    view = View()
    if on_record is not None:
        view = _Listener(on_record, mode)
    elif in_notebook():
        view = NotebookLine(settings.size, settings.rounds)
    drive = BackgroundLoop()
    run_all = cluster if mode == "cluster" else simulate
    result = run_all(settings, resume=resume, overwrite=overwrite, open_view=lambda: view, drive=drive)
    if drive.interrupted:
        raise KeyboardInterrupt
    if result.failure is not None:
        raise PeerFailed(f"{result.failure}; the other peers' files are in {str(settings.out)!r}", result.exit_code)
    check_converged(result, settings.out)
    return Run(settings.out)


def open_run(folder: str | Path) -> Run:
    """An earlier run of any command or script.

    Raises:
        ConfigurationError: The folder holds no run.
    """
    path = Path(folder)
    if not path.is_dir() or read_run(path) is None:
        raise ConfigurationError(f"{str(path)!r} holds no run: name the --out of a run, or `Settings.out`")
    return Run(path)


_listening = threading.local()
"""Whether this thread is calling an `on_record`."""


class _Listener(View):
    """Passes on each peer's lines; meanwhile no peer of this process draws from the process's generators."""

    def __init__(self, on_record: OnRecord, mode: str) -> None:
        self._on_record, self._mode = on_record, mode

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """See `View.record`."""
        _listening.now = True
        try:
            with self._alone():
                self._on_record({"rank": rank, **copy.deepcopy(dict(entry))})
        finally:
            _listening.now = False

    def _alone(self) -> AbstractContextManager[object]:
        if self._mode == "cluster":
            return nullcontext()
        from dpeer.training.randomness import LOCK  # torch, which a simulation has imported

        return LOCK


def _check_importable(settings: Settings) -> None:
    for what in ("task", "algorithm", "topology", "compress"):
        name = getattr(settings, what)
        if name is not None and not is_importable(name):
            raise ConfigurationError(
                f"{what} {name.rpartition(':')[2]!r} cannot be imported by the peers' processes: define it at the top "
                "of a file, or use mode='simulate'"
            )
