"""Every target and its result here: the short form of all programs, one after the other.

    python benchmarks/table.py [--repeats 5] [--quick] [--json]

Each row is measured against its baseline in one run of the program that it is from, in interleaved repetitions; a ratio
is the median of the repetitions' own ratios, so that it is not always the quotient of the two medians beside it. The
machine should do nothing else meanwhile. The top of each program explains its measurement.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from quick import QUICK

LARGE, MIDDLE = 11_173_962, 1_200_000


@dataclass(frozen=True)
class Row:
    """One target.

    Attributes:
        what: What is measured.
        measured: The value, with its unit.
        baseline: The baseline's, with its name.
        value: What the target is about.
        target: Its bound.
        unit: The unit of value and target.
        at_least: Whether it is a lower bound.
    """

    what: str
    measured: str
    baseline: str
    value: float
    target: float
    unit: str = "x"
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.value >= self.target if self.at_least else self.value <= self.target


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """All rows, as they are measured.

    Args:
        repeats: Of each program.
        quick: Each program in its quick form, to see that all run.
    """
    run = partial(_run, quick=quick)
    for peers, parameters, target in ((4, LARGE, 1.25), (8, LARGE, 1.25), (4, MIDDLE, 1.5)):
        yield from _gossip(run, peers, parameters, target, repeats)
    for parameters, target in ((LARGE, 1.4), (MIDDLE, 1.5)):
        only = ("--only", "dpeer", "encrypted")
        found = run("gossip_round", "--parameters", parameters, "--repeats", repeats, *only)
        ours, plain = f"{found['encrypted_ms']:.1f} ms", f"{found['round_ms']:.1f} ms, without keys"
        yield Row(f"with keys, {parameters / 1e6:.1f}M parameters", ours, plain, found["encrypted_ratio"], target)
    found = run("gossip_round", "--repeats", repeats, "--only", "trained", "trained_saving")
    ours, without = f"{found['trained_saving_ms']:.0f} ms", f"{found['trained_ms']:.0f} ms, without checkpoints"
    yield Row("a round with a checkpoint, 0.5 s of training", ours, without, found["trained_saving_ratio"], 1.3)
    found = run("startup", "--repeats", repeats)
    imports = f"{found['import_torch_ms']:.0f} ms, import torch"
    yield Row("peer ready, after the first", f"{found['ready_ms']:.0f} ms", imports, found["ready_ms"], 150, "ms")
    memory, tensors = f"{found['unshared_mib']:.0f} MiB", f"{found['unshared_mib'] - found['beyond_tensors_mib']:.0f}"
    beyond = found["beyond_tensors_mib"]
    yield Row("unshared memory of an idle peer, beyond", memory, f"{tensors} MiB of tensors", beyond, 40, "MiB")
    for one in run("local_training", "--repeats", 3 * repeats):
        name = f"{one['what']} ({one['model']})"
        baseline = f"{one['baseline_ms']:.2f} ms, {one['baseline']}"
        target = 2.05 if "SAM" in one["what"] else 1.05
        yield Row(name, f"{one['ms']:.2f} ms", baseline, one["ratio_quartiles"][1], target)
    found = run("simulate", "--size", 4, "--rounds", 1, "--repetitions", repeats)
    name = next(name for name in reversed(found["seconds"]))
    bits = "the same bits" if found["same_bits"] else "DIFFERENT BITS"
    speedup = found["speedup"][name] if found["same_bits"] else 0.0
    in_turn = f"{found['seconds']['in turn']:.2f} s, in turn; {bits}"
    yield Row(f"simulate, {name}", f"{found['seconds'][name]:.2f} s", in_turn, speedup, 1.8, at_least=True)


def _gossip(run: Callable[..., Any], peers: int, parameters: int, target: float, repeats: int) -> Iterator[Row]:
    whole = (peers, parameters) == (4, LARGE)
    only = [] if whole else ["--only", "dpeer", "raw"]
    found = run("gossip_round", "--peers", peers, "--parameters", parameters, "--repeats", repeats, *only)
    ours = f"{found['round_ms']:.1f} ms"
    raw = f"{found['raw_ring_ms']:.1f} ms, raw ring at {found['raw_gb_per_s']:.1f} GB/s"
    yield Row(f"gossip, {peers} peers, {parameters / 1e6:.1f}M parameters", ours, raw, found["ratio"], target)
    cpu, raw_cpu = f"{found['cpu_s_per_gb']:.3f} s/GB", f"{found['raw_cpu_s_per_gb']:.3f} s/GB, raw ring"
    if whole:
        yield Row("  its CPU time", cpu, raw_cpu, found["cpu_ratio"], 1.3)
        for name, least in (("pickle", 6.0), ("pickle_mallopt", 1.9)):
            theirs = f"{found[f'{name}_ms']:.1f} ms, {name.replace('_', ' with ')}"
            yield Row("  faster than pickle", ours, theirs, found[f"{name}_ratio"], least, at_least=True)
        yield Row("  over ipc://", f"{found['ipc_ms']:.1f} ms", raw, found["ipc_ratio"], 1.0)


def _run(program: str, *arguments: object, quick: bool) -> Any:
    """What a program's --json says; of two values of an option the later one counts."""
    began = time.perf_counter()
    small = QUICK[program].split() if quick else []
    command = [sys.executable, str(Path(__file__).with_name(f"{program}.py")), "--json", *map(str, arguments), *small]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    print(f"{' '.join([program, *map(str, arguments)])}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return json.loads(output)


def machine() -> dict[str, Any]:
    """A line on the machine and the date."""
    import torch
    import zmq

    from dpeer.cores import own_cores

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor() or platform.machine()
    return {
        "cpu": cpu, "cores": len(own_cores()), "python": platform.python_version(), "torch": torch.__version__,
        "pyzmq": zmq.__version__, "libzmq": zmq.zmq_version(), "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="each program in its quick form, to see that all run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    here = machine()
    if arguments.json:
        found = [{**asdict(row), "met": row.met} for row in rows(arguments.repeats, quick=arguments.quick)]
        print(json.dumps({"machine": here, "repeats": arguments.repeats, "rows": found}, indent=1))
        return
    print(
        f"{here['cpu']}, {here['cores']} cores, Python {here['python']}, torch {here['torch']}, pyzmq {here['pyzmq']} "
        f"(libzmq {here['libzmq']}), {here['date']}, medians of {arguments.repeats} repetitions\n"
    )
    layout = "{:<42} {:>13}  {:<36} {:>8}  {:<10} {}"
    print(layout.format("what", "measured", "baseline", "ratio", "target", ""))
    for row in rows(arguments.repeats, quick=arguments.quick):
        space = "" if row.unit in "x%" else " "
        value = f"{row.value:.3g}" if row.value >= 10 else f"{row.value:.2f}"
        target = f"{'>=' if row.at_least else '<='} {row.target:g}{space}{row.unit}"
        verdict = "met" if row.met else "MISSED"
        line = layout.format(row.what, row.measured, row.baseline, f"{value}{space}{row.unit}", target, verdict)
        print(line, flush=True)


if __name__ == "__main__":
    main()
