"""A small GPT on text by role: outer steps beside plain gossip, synchronous steps and training alone, on a slow line.

    python benchmarks/outer_steps.py --out DIR [--data FILE.npz] [--seeds 0,1,2] [--rows "outer" ...]
        [--line 100Mbit/100ms] [--steps 240] [--local-steps 20] [--layers 5] [--width 128] [--base-steps 1000]
        [--body-lr RATE] [--show]

Three peers have the plays' roles, or without --data the pages of docs/, shared out among them, and predict the next
byte. All rows take the same steps of AdamW on the same number of tokens. The rows:

    alone            each peer by itself
    synchronous      the mean gradient in every step, by one AdamW: data-parallel training
    ..., anew        the same, with an AdamW that begins anew after every --local-steps
    gossip, 4 steps  bodies are mixed after every four steps
    gossip           after every --local-steps
    outer            the same, with --outer nesterov:0.7:0.9; then with --compress int8 and int4, and with --overlap 1
    outer, half      the same with nesterov:0.7:0.5

The other rows begin from a base: the same GPT after --base-steps synchronous steps on the roles or pages that no peer
has. It is made once, and stays in DIR.

    base             the base itself, on the peers' test windows
    base, ...        all parameters are trained and shared: gossip, and outer
    LoRA, ...        low-rank adapters and the last layer are trained and shared, all else is frozen: alone, gossip,
                     outer, and outer with --compress int4

Except in the base and in `synchronous`, AdamW's moments begin anew in each round. With a column for each:

    loss      nats a byte on the peer's own test windows after the last mixing, the mean over peers and seeds
    - gossip  the same less that of `gossip` with the same seed; in rows from the base, of `LoRA, gossip`
    MB        that a peer sends, as measured; of `synchronous` a float32 gradient to each of two neighbors a step
    compute   the share of time in which a peer trains, on a line of the bandwidth and round trip --line: training
              against training and exchange, or the longer of the two with overlap
    minutes   in all on that line

A step's time is the shortest of twenty on one thread, half of them before all rows and half after; steps with adapters
have a time of their own. An exchange is the bytes that a peer sends at the line's bandwidth, and one round trip;
`wide_area.py` runs whole peers over such lines. --body-lr replaces the learning rate of all rows, to choose one.
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
from dpeer.training.data.roles import read_texts
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

LORA = {"lora": "r=8"}
FROM_BASE: Mapping[str, Mapping[str, Any]] = {
    "base": {},
    "base, gossip": {"body_lr": 3e-4},
    "base, outer": {"body_lr": 3e-4, **STEP},
    "LoRA, alone": {**LORA, "algorithm": "local"},
    "LoRA, gossip": LORA,
    "LoRA, outer": {**LORA, **STEP},
    "LoRA, outer, int4": {**LORA, **STEP, "compress": "int4"},
}
"""The same for the rows that begin from the base. Learning rates were chosen by the loss of gossip with seed 0: of 3e-4
and 1e-3 for all parameters, and of 1e-3, 3e-3, 1e-2 and 3e-2 for adapters."""

TIMED: Mapping[str, Mapping[str, Any]] = {"a step": {}, "a step with adapters": LORA}
"""Settings of the steps that are timed, by their names in the table."""


def main() -> None:
    """Make what is missing, and print the table."""
    options = _arguments()
    torch.set_num_threads(1)
    sizes = {name: getattr(options, name) for name in ("steps", "local_steps", "layers", "width", "roles")}
    same = {"data": options.data.name if options.data else "docs", **sizes}
    base = {"base_steps": options.base_steps}
    rate = {} if options.body_lr is None else {"body_lr": options.body_lr}
    found = Kept(options.out / "outer_steps.jsonl", lambda cell: measured(cell, options), only=options.show)
    cells = {
        (seed, row): {"row": row, "seed": seed, **same, **(base if row in FROM_BASE else {}), **rate}
        for seed in map(int, options.seeds.split(","))
        for row in options.rows
    }
    first = [{"row": "the base", "seed": 0, **same, **base}] if FROM_BASE.keys() & {*options.rows} else []
    timed = {row: [{"row": row, "seed": seed, **sizes, "data": "docs"} for seed in (-1, -2)] for row in TIMED}
    before, after = zip(*timed.values(), strict=True)
    found.make([*before, *first, *cells.values(), *after])
    if all(cell in found for cell in (*before, *after)):
        steps = {row: min(min(found[cell]["seconds"]) for cell in both) for row, both in timed.items()}
        _print(cells, found, steps, options)


def measured(cell: Cell, options: argparse.Namespace) -> Line:
    """The figures of one cell."""
    row, steps = cell["row"], cell["steps"]
    parts = (cell["data"], options.base_steps, cell["layers"], cell["width"], cell["roles"])
    base = options.out / f"base-{'-'.join(map(str, parts))}.safetensors"
    with tempfile.TemporaryDirectory(prefix="dpeer-benchmark-") as folder:
        given = settings(cell, options.data, base, Path(folder))
        if row in TIMED:
            return {"seconds": seconds_of_steps(given)}
        if row == "the base":
            return synchronous(given, options.base_steps, options.base_steps, base)
        if row == "base":
            return synchronous(given, 0, 1)
        if row.startswith("synchronous"):
            return synchronous(given, steps, cell["local_steps"] if row.endswith("anew") else steps)
        return gossiped(given)


def settings(cell: Cell, data: Path | None, base: Path, folder: Path) -> dpeer.Settings:
    """The federation of a cell, in its folder; that of "the base" has the roles that the others leave out."""
    row = cell["row"]
    own = {**ROWS, **FROM_BASE, **TIMED}.get(row, {})
    local = own.get("local_steps", cell["local_steps"])
    text = pages(folder) if data is None or row in TIMED else data
    options: dict[str, Any] = {"data": str(text), "roles": cell["roles"], "length": LENGTH}
    if row == "the base":
        options |= {"data": str(others(text, cell["roles"], folder)), "roles": None}
    begins = {"init_from": base} if row in FROM_BASE else {}
    rate = {"body_lr": cell["body_lr"]} if "body_lr" in cell else {}
    shape = {"layers": cell["layers"], "width": cell["width"], "heads": max(1, cell["width"] // 32)}
    steps = {"local_steps": local, "rounds": max(1, cell["steps"] // local), "seed": max(0, cell["seed"])}
    places = {"task_options": options, "model_options": shape, "out": folder / "run"}
    return dpeer.Settings(**{**SAME, **own, **rate, **begins, **steps, **places})


def pages(folder: Path) -> Path:
    """The documentation as text by role, a page each."""
    texts = {page.stem: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")}
    return _written(texts, folder / "pages.jsonl")


def others(data: Path, count: int, folder: Path) -> Path:
    """The text of all roles but the `count` that say most, which the task gives to the peers."""
    texts = read_texts(str(data))
    names = sorted(texts, key=lambda name: (-len(texts[name]), name))
    return _written({name: texts[name] for name in names[count:]}, folder / "others.jsonl")


def _written(texts: Mapping[str, str], path: Path) -> Path:
    entries = ({"speaker": name, "text": texts[name]} for name in sorted(texts))
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


def synchronous(given: dpeer.Settings, steps: int, lasts: int, kept: Path | None = None) -> Line:
    """Steps along the mean of all peers' gradients, clipped, from the same start on the same data.

    Args:
        given: The federation.
        steps: How many; after none the figures are those of the start.
        lasts: After how many steps AdamW's moments begin anew.
        kept: Where the model is written in the end, if at all.
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
    if kept is not None:
        learners[0].write_model(kept)
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


def _print(
    cells: Mapping[tuple[int, str], Cell], found: Kept, steps: Mapping[str, float], options: argparse.Namespace
) -> None:
    shape = Shape.parse(options.line)
    made = {key: found[cell] for key, cell in cells.items() if cell in found}
    print("\n" + "; ".join(f"{row}: {step:.3f} s" for row, step in steps.items()) + f"; a line of {shape}\n")
    print("| row | loss | - gossip | MB sent | compute | minutes | consensus | seeds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in options.rows:
        lines = {seed: line for (seed, name), line in made.items() if name == row}
        if not lines:
            continue
        first = next(iter(lines.values()))
        losses = {seed: fmean(line["losses"]) for seed, line in lines.items()}
        gossip = "LoRA, gossip" if row in FROM_BASE else "gossip"
        others = {seed: fmean(line["losses"]) for (seed, name), line in made.items() if name == gossip}
        apart = fmean(line["consensus"] or 0.0 for line in lines.values())
        print(
            f"| {row} | {_spread([*losses.values()])} "
            f"| {_spread([losses[seed] - others[seed] for seed in losses.keys() & others.keys()])} "
            f"| {first['bytes'] / 1e6:.1f} | {_times(row, first, steps, options)} | {apart:.2f} | {len(lines)} |"
        )


def _times(row: str, line: Line, steps: Mapping[str, float], options: argparse.Namespace) -> str:
    """The share of time that computes, and minutes."""
    if not line["rounds"]:
        return "- | -"
    shape = Shape.parse(options.line)
    own = {**ROWS, **FROM_BASE}[row]
    train = steps["a step with adapters" if "lora" in own else "a step"] * options.steps / line["rounds"]
    sent = line["bytes"] / line["rounds"]
    exchange = sent / shape.bytes_per_second + shape.round_trip if sent else 0.0
    seconds = max(train, exchange) if own.get("overlap") else train + exchange
    return f"{train / seconds:.0%} | {seconds * line['rounds'] / 60:.1f}"


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{fmean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("outer_steps"))
    parser.add_argument("--data", type=Path, help="of --task roles; the pages of docs/ if not given")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rows", nargs="+", default=[*ROWS, *FROM_BASE], choices=[*ROWS, *FROM_BASE])
    parser.add_argument("--steps", type=int, default=240, help="of each peer")
    parser.add_argument("--local-steps", type=int, default=20, help="between two mixings")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--roles", type=int, default=12, help="those that say most")
    parser.add_argument("--base-steps", type=int, default=1000, help="of the base")
    parser.add_argument("--body-lr", type=float, help="in place of the rows' own")
    parser.add_argument("--line", default="100Mbit/100ms", help="bandwidth and round trip")
    parser.add_argument("--show", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
