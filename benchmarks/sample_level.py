"""Cost of privacy for single records, and the gain of joining over training alone under the same guarantee.

    python benchmarks/sample_level.py --out DIR [--data har=FILE.npz --data cifar10=DIR] [--seeds 1,2,3]
        [--only cancer,digits] [--show]

Eight peers train alone and joined, with the same epsilon for each record. First every way gets as many settings, of
which the accuracy with seed 0 chooses; the chosen ones are run again with the seeds of --seeds, and only these are in
the table. After that, one setting at a time is changed at epsilon 3, with seed 0.

Results are lines of DIR/sample_level.jsonl: the same command again makes only what is missing, also after Ctrl-C;
--show makes none. Data sets for which no --data is given are left out; cancer and digits need none. Figures are means
over the peers of the accuracy on each peer's own test data, after the last mixing; "finished" is after the last step
at home, which is trained without noise: only what the peer sent is private then, and its model is not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev

import sample_grid as grid
import torch
from kept import Cell, Kept, Line, simulated


def main() -> None:
    """Make what is missing, and print the tables."""
    arguments = _arguments()
    torch.set_num_threads(1)
    data = dict(text.split("=", 1) for text in arguments.data)
    sets = [name for name in arguments.only.split(",") if name in ("cancer", "digits", *data) or arguments.show]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]

    def measure(cell: Cell) -> Line:
        after = "accuracy" if cell["way"] == "finished" else "accuracy_mixed"
        return simulated(lambda out: grid.settings(cell, data.get(cell["set"]), out), after)

    found = Kept(arguments.out / "sample_level.jsonl", measure, only=arguments.show, few=arguments.few)

    def make(cells: Iterable[Cell]) -> list[Cell]:
        return found.make(cell for cell in cells if cell["set"] in sets)

    chosen = grid.carried_over(best(make(grid.searched()), found))
    chosen |= grid.carried_over(best(make(grid.finished(chosen)), found))
    make(cell | {"seed": seed} for seed in seeds for cell in chosen.values())
    changed = make(grid.variants(chosen))
    _print(sets, chosen, seeds, found)
    _print_variants(changed, found)


def best(cells: Iterable[Cell], found: Kept) -> dict[tuple[str, str, float], Cell]:
    """The most accurate cell of each data set, way and budget."""
    chosen: dict[tuple[str, str, float], Cell] = {}
    for cell in cells:
        place = (cell["set"], cell["way"], cell["epsilon"])
        if place not in chosen or found[cell]["accuracy"] > found[chosen[place]]["accuracy"]:
            chosen[place] = cell
    return chosen


def _print(sets: Iterable[str], chosen: dict[tuple[str, str, float], Cell], seeds: Iterable[int], found: Kept) -> None:
    def own(cell: Cell | None) -> list[float]:
        cells = [cell | {"seed": seed} for seed in seeds] if cell else []
        return [found[one]["accuracy"] for one in cells if one in found]

    def shown(values: list[float]) -> str:
        spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
        return f"{fmean(values):.3f}{spread} ({len(values)})" if values else "-"

    print("\n| data | epsilon | alone | joined | bias at home | finished | joined - alone | bias at home - alone |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for name in sets:
        for epsilon in (0.0, *grid.BUDGETS):
            ways = ("alone", "joined", grid.ways(name)[-1], "finished")
            by_way = [own(chosen.get((name, way, epsilon))) for way in ways]
            gains = [[a - b for a, b in zip(way, by_way[0], strict=False)] for way in by_way[1:3]]
            print(f"| {name} | {epsilon:g} | {' | '.join(shown(values) for values in (*by_way, *gains))} |")
    print()
    for cell in chosen.values():
        print({name: value for name, value in cell.items() if name != "seed"})


def _print_variants(cells: Iterable[Cell], found: Kept) -> None:
    print(f"\nepsilon {grid.SEARCH_EPSILON:g}, seed {grid.SEARCH_SEED}")
    for cell in cells:
        print(f"{found[cell]['accuracy']:.3f}  {json.dumps(cell, sort_keys=True)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("sample-level"))
    parser.add_argument("--data", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--only", default=",".join(grid.SETS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--few", type=int, help="at most so many runs of each kind")
    parser.add_argument("--show", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
