"""Names of earlier versions, each with what to do instead; kept until the first release."""

from __future__ import annotations

from collections.abc import Sequence

_DASHBOARD = "`dpeer dashboard RUN` shows the peers of this host in a browser"
_PRIVACY = "`dpeer privacy` takes a run's settings: --noise-multiplier gives epsilon, --target-epsilon the noise"

COMMANDS = {
    "backup": "copy the run's folder, checkpoint/ first (docs/running.md); a private run has no copies",
    "card": "model.json holds the card; `dpeer evaluate` measures the model",
    "privacy audit": "the canary attacks are tests of the project; `dpeer privacy` computes what is promised",
    "privacy calibrate": _PRIVACY,
    "privacy epsilon": _PRIVACY,
    "privacy matrix": _PRIVACY,
    "privacy plan": _PRIVACY,
    "restore": "put the copy back and start with --resume; a private run takes none (docs/running.md)",
    "topology advise": "`dpeer topology spectral-gap --topology ring,grid --body-bytes 45MB --bandwidth 100Mbit`",
    "topology plot": "`dpeer topology show --topology ring --size 16 --plot FILE`",
    "tune": "`dpeer compare --grid body-lr=0.03,0.1` chooses rates by validation data",
}
"""By the words of the command."""

KEYS = {
    "alone_share": "--alone auto trains the local model for a quarter of the run's time, at most ten seconds",
    "log_max": "have logrotate rotate log.jsonl: the peer begins it anew",
    "patience": "give --rounds, and --keep best to keep the model with the least validation loss",
    "steps_from": "give --local-steps, or --threads 1 and no --round-seconds for equal bits",
}
"""By the setting; as a flag it is written with dashes."""

FLAGS = {
    "--at-round": "read peers.csv, which has every peer's figures beside the table",
    "--dashboard": _DASHBOARD,
    "--grow": "start peers with `dpeer start`, and let them in with `dpeer join`",
    "--last": "read peers.csv, which has every peer's figures beside the table",
    "--launcher-option": "--launcher takes local or ray; --shard K/N divides runs among the tasks of a job array",
    "--line": "give --bandwidth RATE",
    "--lines": "give --body-bytes and --bandwidth",
    "--small": "give --rounds and --size",
    "--target": "read peers.csv, which has every peer's figures beside the table",
    "--tune-seeds": "--grid chooses with seed 100, by validation data",
    "--web": _DASHBOARD,
}
"""By the flag."""


def instead(arguments: Sequence[str], option: str | None = None) -> str | None:
    """The line for a command, or an option of one, that an earlier version had; None for any other.

    Args:
        arguments: What was typed after `dpeer`.
        option: The option that is not known; None where the command is not.
    """
    if option is not None:
        advice = FLAGS.get(option) or KEYS.get(option.removeprefix("--").replace("-", "_"))
        return None if advice is None else f"{option} has been removed: {advice}"
    words = [one for one in arguments if not one.startswith("-")]
    for name in (" ".join(words[:2]), " ".join(words[:1])):
        if name in COMMANDS:
            return f"{name} has been removed: {COMMANDS[name]}"
    return None
