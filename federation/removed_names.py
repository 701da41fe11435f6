"""Names of earlier versions, each with what to do instead; kept until the first release."""

from __future__ import annotations

from collections.abc import Sequence

_ADVERSARY = "leave it out: --noise-multiplier SIGMA/sqrt(M) adds the noise of papers, and epsilon is a neighbor's"
_METRICS = "read it from each run's metrics.jsonl, or from peers.csv beside the table"
_PRIVACY = "`dpeer privacy` takes a run's settings: --noise-multiplier gives epsilon, --target-epsilon the noise"
_OPTION = "it is an option of the algorithm: --algorithm-option"
_GRAPH = "a graph's parameters stand in its name: --topology "

COMMANDS = {
    "backup": "copy the run's folder, checkpoint/ first and privacy/ last (docs/running.md, A copy of a run)",
    "card": "model.json holds the card; `dpeer evaluate` prints figures with intervals",
    "epoch": "`dpeer members show RUN` shows who takes part, and `sign` and `hand` take a list that several sign",
    "evict": "`dpeer members remove RUN --rank R`, where the member answers or not",
    "extend": "`dpeer members extend RUN --rounds N`",
    "join": "`dpeer members add RUN --rank R --address ADDRESS --key HEX --operator FILE`",
    "leave": "`dpeer members remove RUN --rank R`",
    "privacy audit": "the canary attacks are tests of the project; `dpeer privacy` computes what is promised",
    "privacy matrix": "the epsilon of `dpeer privacy` holds for the nearest peer, on every graph",
    "restore": "put the copied folder back and start with --resume; a private peer names what it lacks",
    "topology advise": "`dpeer topology spectral-gap --topology ring,grid --body-bytes 45MB --bandwidth 100Mbit`",
    "topology plot": "`dpeer topology show --topology ring --size 16 --plot FILE`",
    **dict.fromkeys(("privacy calibrate", "privacy epsilon", "privacy plan"), _PRIVACY),
    "tune": "`dpeer compare --grid body-lr+head-lr=0.01,0.03` chooses rates by validation data",
}
"""By the words of the command."""

KEYS = {
    "alone_share": "--alone auto takes at most ten seconds and a quarter of the run; --alone always trains it whole",
    "bulk": "leave it out: with keys all goes over the one port of `address`",
    "checkpoint_minutes": "--local-steps makes rounds shorter, and `dpeer drain` ends a peer after its round",
    "degree": f"{_GRAPH}random-regular:4 or small-world:4,0.1",
    "dp_adjacency": "leave it out: any other data set may stand in a peer's place; `dpeer privacy` has papers' epsilon",
    "edge_probability": f"{_GRAPH}erdos-renyi:0.4",
    "encrypt": "`dpeer cluster --encrypt` alone has it; several hosts list the key of every rank (dpeer keygen)",
    "finetune_epochs": "--finish all:E trains the whole model at home for E epochs after the last round",
    "finish_lr": "it stands behind the epochs: --finish all:5,0.1",
    "fresh_neighbors": f"{_GRAPH}fresh:2 or fresh-directed:2",
    "grid_shape": f"{_GRAPH}grid:2x4 or torus:3x4",
    "grow": "leave it out: `dpeer members add` takes in a new rank",
    "log_max": "let logrotate move log.jsonl: the peer begins it anew",
    "mixing": "leave it out: the weight of a body that does not come goes to the receiver's own",
    "outer": "--algorithm examples/outer_steps.py:OuterSteps takes DiLoCo's step (docs/algorithms.md)",
    "overlap": "--compress int8 or int4 makes bodies shorter, and more --local-steps rounds fewer",
    "patience": "--keep best keeps the model of the best round",
    "rejoin_after": "leave it out: a peer that was left behind takes the mean of its neighbors' bodies",
    "rejoin_head_epochs": "leave it out: the round's own head phase fits the head to the adopted body",
    "rewire": f"{_GRAPH}small-world:4,0.1",
    "sampling_rate": "--batch-size over --records is the chance of each record to be in a step's batch",
    "shares": "--size divides a common pool of data: start as many peers as it has parts",
    "steps_from": "a round that was killed repeats its own steps on --resume",
    "tcp_only": "leave it out: peers take TCP, or the path where the address is ipc:///PATH",
    "warmup": "it stands behind the schedule: --lr-schedule cosine+warmup:5",
    "workers": "--threads is the number of threads that train the peers of a simulation, too",
    **{name: f"{_OPTION} {name}=0.5" for name in ("ditto_lambda", "prune_rate", "sparsity")},
    **dict.fromkeys(("codec", "quantize", "wire_dtype"), "--compress says how bodies travel, such as int8"),
    **dict.fromkeys(("dp_adversary", "dp_min_honest"), _ADVERSARY),
    **dict.fromkeys(("seed_batches", "seed_init", "seed_partition"), "--seed is all three"),
}
"""By the setting; as a flag it is written with dashes."""

FLAGS = {
    "--baseline": "--alone always trains each peer alone, too; `dpeer compare` compares other algorithms",
    "--join": "--members FILE, the list that `dpeer members add` has written",
    "--launcher-option": "RAY_ADDRESS=HOST:PORT names a cluster of Ray; --shard K/N divides runs among jobs",
    "--line": "give --bandwidth RATE",
    "--new-data": "give another --out: a folder that holds a private run takes no other",
    "--patient-records": "leave it out: a run with --privacy-unit group protects all records of a patient together",
    "--format": "leave it out: `dpeer export` writes ONNX, to a file that ends in .onnx",
    "--small": "give small settings as flags, such as --size 8 --rounds 30",
    **dict.fromkeys(("--at-epsilon", "--at-round", "--last", "--target"), _METRICS),
    **dict.fromkeys(("--dashboard", "--web"), "`dpeer dashboard RUN` shows the peers of this host in a browser"),
}
"""By the flag."""

VALUES = {
    ("dp_head", "frozen"): "--dp-head post --finish none leaves the head as it was initialised, and the model private",
}
"""By the setting and the value."""


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
