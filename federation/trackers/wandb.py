"""Weights & Biases: a run of a project, on its servers or, with WANDB_MODE=offline, in files."""

from __future__ import annotations

import netrc
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dpeer.exceptions import ConfigurationError
from dpeer.federation.trackers import PROJECT, TrackedRun, Tracker

_PATIENCE = 10.0
"""Seconds for which the library waits for its servers when a run begins or ends: afterwards it is tried again."""


def _has_key() -> bool:
    """Whether a key is stated or kept; no server is asked, as one that is down must not keep a run from its start."""
    server = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    files = (
        [Path(os.environ["NETRC"])] if "NETRC" in os.environ else [Path.home() / name for name in (".netrc", "_netrc")]
    )
    for file in files:
        try:
            if netrc.netrc(str(file)).authenticators(server) is not None:
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return any(os.environ.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"))


class WeightsAndBiases(Tracker):
    """A run of a project; a resumed peer goes on with it, and peers of a federation are a group."""

    extra = "wandb"
    libraries = {"wandb": "wandb"}  # noqa: RUF012 - stated by the interface

    @classmethod
    def check(cls) -> None:
        """See `Tracker.check`."""
        super().check()
        if os.environ.get("WANDB_MODE", "online") == "online" and not _has_key():
            raise ConfigurationError(
                "--log-to wandb: it has no key: type `wandb login`, set WANDB_API_KEY, or set WANDB_MODE=offline"
            )

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        # It must neither ask on a terminal, nor take the output of this process, nor hold up its end.
        settings = wandb.Settings(
            silent=True, console="off", init_timeout=_PATIENCE, login_timeout=_PATIENCE, finish_timeout=_PATIENCE,
            x_disable_meta=True, x_disable_stats=True, disable_git=True, save_code=False,
        )  # fmt: skip
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), group=run.group, name=run.name, dir=str(run.folder),
            id=run.known, resume="allow", config=dict(run.settings), reinit="create_new", settings=settings,
        )  # fmt: skip
        if run.known is None:
            run.keep(str(self._run.id))

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.log`."""
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        """See `Tracker.close`."""
        self._run.finish()
