"""MLflow: a run on the server that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from dpeer.exceptions import ConfigurationError
from dpeer.federation.trackers import PROJECT, TrackedRun, Tracker

_SERVER = "MLFLOW_TRACKING_URI"
_EXPERIMENT = "MLFLOW_EXPERIMENT_NAME"


class MLflow(Tracker):
    """A run of an experiment; a resumed peer goes on with it."""

    extra = "mlflow"
    libraries = {"mlflow": "mlflow"}  # noqa: RUF012 - stated by the interface

    @classmethod
    def check(cls) -> None:
        """See `Tracker.check`."""
        super().check()
        if not os.environ.get(_SERVER):
            raise ConfigurationError(
                f"--log-to mlflow: set {_SERVER} to the server's address, such as http://host:5000"
            )

    def __init__(self, run: TrackedRun) -> None:
        from mlflow import MlflowClient  # a second to import
        from mlflow.entities import Metric, Param

        self._metric = Metric
        self._client = MlflowClient(os.environ[_SERVER])
        found = None if run.known is None else self._known(run.known)
        if found is None:
            tags = {"mlflow.runName": run.name, "dpeer.run": run.group}
            found = str(self._client.create_run(self._experiment(), tags=tags, run_name=run.name).info.run_id)
            self._client.log_batch(found, params=[Param(name, str(one)) for name, one in run.settings.items()])
            run.keep(found)
        self._run = found

    def _known(self, run: str) -> str | None:
        """The run that an earlier process has begun, as one that runs; None if the server has it no more."""
        from mlflow.exceptions import MlflowException

        try:
            self._client.update_run(run, status="RUNNING")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return run

    def _experiment(self) -> str:
        name = os.environ.get(_EXPERIMENT, PROJECT)
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except Exception:
                found = self._client.get_experiment_by_name(name)  # another peer was first
                if found is None:
                    raise
        return str(found.experiment_id)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.log`."""
        now = int(1000 * time.time())
        self._client.log_batch(self._run, [self._metric(name, value, now, step) for name, value in figures.items()])

    def close(self) -> None:
        """See `Tracker.close`."""
        self._client.set_terminated(self._run)
