"""A small GPT on text by role: outer steps beside plain gossip, synchronous steps and training alone, on a slow line.

    python benchmarks/outer_steps.py --out DIR [--data FILE.npz] [--seeds 0,1,2] [--rows "outer" ...]
        [--line 100Mbit/100ms] [--steps 240] [--local-steps 20] [--layers 5] [--width 128] [--show]

Three peers have the plays' roles, or without --data the pages of docs/, shared out among them, and predict the next
byte. All rows take the same steps of AdamW on the same number of tokens. The rows:

    alone            each peer by itself
    synchronous      the mean gradient in every step, by one AdamW: data-parallel training
    ..., anew        the same, with an AdamW that begins anew after every --local-steps
    gossip, 4 steps  bodies are mixed after every four steps
    gossip           after every --local-steps
    outer            the same, with --outer nesterov:0.7:0.9; then with --compress int8 and int4, and with --overlap 1
    outer, half      the same with nesterov:0.7:0.5

In all other rows AdamW's moments begin anew in each round. With a column for each:

    loss      nats a byte on the peer's own test windows after the last mixing, the mean over peers and seeds
    - gossip  the same less that of `gossip` with the same seed
    MB        that a peer sends, as measured; of `synchronous` a float32 gradient to each of two neighbors a step
    compute   the share of time in which a peer trains, on a line of the bandwidth and round trip --line: training
              against training and exchange, or the longer of the two with overlap
    minutes   in all on that line

A step's time is the shortest of twenty on one thread, half of them before all rows and half after. An exchange is the
bytes that a peer sends at the line's bandwidth, and one round trip; `wide_area.py` runs whole peers over such lines.
Results are lines of DIR/outer_steps.jsonl: the same command again makes only what is missing; --show makes none.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from emulated_lines import Shape
from kept import Cell, Kept, Line

import dpeer
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.training import TorchLearner
from dpeer.training.evaluation import Evaluation

PEERS = 3
PAGES = Path(__file__).resolve().parents[1] / "docs"
BATCH, LENGTH = 8, 64
SAME: Mapping[str, Any] = {
    "size": PEERS, "topology": "full", "weights": "uniform", "task": "roles", "partition": "role", "model": "gpt",
    "algorithm": "dfedavgm", "optimizer": "adamw", "body_lr": 1e-3, "lr_decay": 1.0, "batch_size": BATCH,
    "finish": "none", "keep": "last", "alone": "never", "evaluate_every": 10_000, "checkpoint_every": 10_000,
    "workers": 1, "log_level": "error",
}  # fmt: skip

STEP = {"outer": "nesterov:0.7:0.9"}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "alone": {"algorithm": "local"},
    "synchronous": {},
    "synchronous, anew": {},
    "gossip, 4 steps": {"local_steps": 4},
    "gossip": {},
    "outer": STEP,
    "outer, int8": {**STEP, "compress": "int8"},
    "outer, int4": {**STEP, "compress": "int4"},
    "outer, int4, overlap": {**STEP, "compress": "int4", "overlap": 1},
    "gossip, int4, overlap": {"compress": "int4", "overlap": 1},
    "outer, half": {"outer": "nesterov:0.7:0.5"},
}
"""What each row has beside `SAME`."""


def main() -> None:
    """Make what is missing, and print the table."""
    options = _arguments()
    torch.set_num_threads(1)
    sizes = {name: getattr(options, name) for name in ("steps", "local_steps", "layers", "width", "roles")}
    found = Kept(options.out / "outer_steps.jsonl", lambda cell: measured(cell, options.data), only=options.show)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    cells = {
        (seed, row): {"row": row, "seed": seed, "data": options.data.name if options.data else "docs", **sizes}
        for seed in seeds
        for row in options.rows
    }
    timed = [{"row": "a step", "seed": seed, "data": "docs", **sizes} for seed in (-1, -2)]
    found.make(itertools.chain(timed[:1], cells.values(), timed[1:]))
    if all(cell in found for cell in timed):
        _print(cells, found, min(itertools.chain.from_iterable(found[cell]["seconds"] for cell in timed)), options)


def measured(cell: Cell, data: Path | None) -> Line:
    """The figures of one cell."""
    with tempfile.TemporaryDirectory(prefix="dpeer-benchmark-") as folder:
        if cell["row"] == "a step":
            return {"seconds": seconds_of_steps(settings(cell, None, Path(folder)))}
        if cell["row"].startswith("synchronous"):
            lasts = cell["local_steps"] if cell["row"].endswith("anew") else cell["steps"]
            return synchronous(settings(cell, data, Path(folder)), cell["steps"], lasts)
        return gossiped(settings(cell, data, Path(folder)))


def settings(cell: Cell, data: Path | None, folder: Path) -> dpeer.Settings:
    """The federation of a cell, in its folder."""
    own = ROWS.get(cell["row"], {})
    local = own.get("local_steps", cell["local_steps"])
    text = {"data": str(pages(folder) if data is None else data), "length": LENGTH, "roles": cell["roles"]}
    shape = {"layers": cell["layers"], "width": cell["width"], "heads": max(1, cell["width"] // 32)}
    steps = {"local_steps": local, "rounds": max(1, cell["steps"] // local), "seed": max(0, cell["seed"])}
    values = {**SAME, **own, **steps, "task_options": text, "model_options": shape, "out": folder / "run"}
    return dpeer.Settings(**values)


def pages(folder: Path) -> Path:
    """The documentation as text by role, a page each."""
    path = folder / "pages.jsonl"
    entries = ({"speaker": page.stem, "text": page.read_text(encoding="utf-8")} for page in sorted(PAGES.glob("*.md")))
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def gossiped(given: dpeer.Settings) -> Line:
    """A federation's losses after the last mixing, and what a peer sent."""
    began = time.perf_counter()
    run = dpeer.run(given, mode="simulate")
    last = [run.metrics(rank)[-1] for rank in range(PEERS)]
    sent = [sum(line["bytes_sent"] for line in run.metrics(rank)) for rank in range(PEERS)]
    return {
        "losses": [line["test_loss"] for line in last],
        "consensus": run.summary["consensus_distance"],
        "bytes": fmean(sent),
        "rounds": given.rounds,
        "parameters": run.summary["body_parameters"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def synchronous(given: dpeer.Settings, steps: int, lasts: int) -> Line:
    """Steps along the mean of all peers' gradients, clipped, from the same start on the same data.

    Args:
        given: The federation.
        steps: How many.
        lasts: After how many steps AdamW's moments begin anew.
    """
    began = time.perf_counter()
    learners = [_learner(given, rank) for rank in range(PEERS)]
    shared = torch.nn.Parameter(learners[0].trainer.model.data.clone())
    gradients_of_all = zip(*map(_gradients, learners), strict=True)
    for number, gradients in enumerate(itertools.islice(gradients_of_all, steps)):
        if number % lasts == 0:
            optimizer = torch.optim.AdamW([shared], lr=given.body_lr, betas=(given.momentum, 0.999), weight_decay=0.0)
        shared.grad = torch.stack(gradients).mean(dim=0)
        torch.nn.utils.clip_grad_norm_([shared], 1.0)
        optimizer.step()
        for learner in learners:
            learner.trainer.model.data.copy_(shared.detach())
    found: list[Evaluation] = [learner.evaluate() for learner in learners]
    return {
        "losses": [one.test_loss for one in found],
        "consensus": 0.0,
        "bytes": 4.0 * shared.numel() * (PEERS - 1) * steps,
        "rounds": steps,
        "parameters": shared.numel(),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _learner(given: dpeer.Settings, rank: int) -> TorchLearner:
    return build(resolve(given, rank)).learner


def _gradients(learner: TorchLearner) -> Iterator[torch.Tensor]:
    """The gradients of a peer's minibatches, without end."""
    trainer, number = learner.trainer, 0
    while True:
        trainer.begin(number)
        with trainer.training(trainer.model):
            for batch in trainer.minibatches(trainer.model.phase, 1):
                trainer.gradient(trainer.model, batch)
                yield trainer.model.grad.clone()
        number += 1


def seconds_of_steps(given: dpeer.Settings, count: int = 10) -> list[float]:
    """Seconds of some single training steps of a peer, on this thread."""
    steps, found = _gradients(_learner(given, 0)), []
    for _ in range(count + 1):
        began = time.perf_counter()
        next(steps)
        found.append(time.perf_counter() - began)
    return found[1:]


def _print(cells: Mapping[tuple[int, str], Cell], found: Kept, step: float, options: argparse.Namespace) -> None:
    shape = Shape.parse(options.line)
    made = {key: found[cell] for key, cell in cells.items() if cell in found}
    print(f"\na step: {step:.3f} s; a line of {shape}\n")
    print("| row | loss | - gossip | MB sent | compute | minutes | consensus | seeds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in options.rows:
        lines = {seed: line for (seed, name), line in made.items() if name == row}
        if not lines:
            continue
        first = next(iter(lines.values()))
        train = step * options.steps / first["rounds"]
        sent = first["bytes"] / first["rounds"]
        exchange = sent / shape.bytes_per_second + shape.round_trip if sent else 0.0
        late = bool(ROWS[row].get("overlap"))
        seconds = max(train, exchange) if late else train + exchange
        losses = {seed: fmean(line["losses"]) for seed, line in lines.items()}
        others = {seed: fmean(line["losses"]) for (seed, name), line in made.items() if name == "gossip"}
        apart = fmean(line["consensus"] or 0.0 for line in lines.values())
        print(
            f"| {row} | {_spread([*losses.values()])} "
            f"| {_spread([losses[seed] - others[seed] for seed in losses.keys() & others.keys()])} "
            f"| {first['bytes'] / 1e6:.1f} | {train / seconds:.0%} | {seconds * first['rounds'] / 60:.1f} "
            f"| {apart:.2f} | {len(lines)} |"
        )


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{fmean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("outer_steps"))
    parser.add_argument("--data", type=Path, help="of --task roles; the pages of docs/ if not given")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rows", nargs="+", default=[*ROWS], choices=[*ROWS])
    parser.add_argument("--steps", type=int, default=240, help="of each peer")
    parser.add_argument("--local-steps", type=int, default=20, help="between two mixings")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--roles", type=int, default=12, help="those that say most")
    parser.add_argument("--line", default="100Mbit/100ms", help="bandwidth and round trip")
    parser.add_argument("--show", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
