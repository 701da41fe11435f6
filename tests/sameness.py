"""Sameness of two checkouts: the same commands give the same bits, or the keys that differ are printed.

    python -m tests.sameness OLD_CHECKOUT [NEW_CHECKOUT] [--only NAME] [--keep DIR] [--ignore REGEX]

Every setting of sameness.toml runs on the old checkout, then on the new one, each with its own `.venv/bin/python` on
one thread. Compared are exit codes, models and checkpoints (each tensor's bits), metrics, summaries, ledgers and all
other JSON and csv files, but for seconds, times and versions. Private bits are fixed: what privacy/ and training/ read
from the operating system comes from a counter of each peer, so noise and batches must agree, and the number of reads.
The old side's results stay in DIR by its commit, and a second call runs only what is missing there.

Exit code 0: nothing differs; 1: something does, or cannot be compared. sameness.toml lists, each with its reason, what
the new side may lack (`gone`), has beside (`added`) or writes otherwise (`replaced`), and what need not be comparable
(`not_comparable`). What was left out for it is counted. A setting may have an old and a new form of its commands.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import inspect
import json
import os
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NoReturn

HERE = Path(__file__).resolve().parent
STATED = tomllib.loads((HERE / "sameness.toml").read_text())
RUN = "simulate --size 4 --rounds 2 --local-steps 3 --alone never --out run"
LIMIT = 1200
"""Seconds that a command may take."""
NOT_DETERMINED = re.compile(r"(?<!^round)_seconds$|^(time|written|dpeer)$")
LACKING = re.compile(r"no such option|unknown command", re.IGNORECASE)


# --- On either side: a program that runs with that checkout's python. ---


def fix_private_bits(checkout: Path) -> dict[str, list[int]]:
    """Replace the entropy that privacy/ and training/ read by a counter's hash; the table gets each peer's read sizes.

    Each peer has a counter of its own: the order in which peers of one process come does not repeat.
    """
    reads: dict[str, list[int]] = {}
    lock, real = threading.Lock(), os.urandom

    def is_private(frame: FrameType) -> bool:
        path = Path(frame.f_code.co_filename)
        return path.is_relative_to(checkout) and bool({"privacy", "training"} & {*path.relative_to(checkout).parts})

    def urandom(size: int) -> bytes:
        inner = [frame for frame, _ in traceback.walk_stack(sys._getframe(1)) if is_private(frame)]
        if not inner:
            return real(size)
        callers = [frame.f_locals.get("self") for frame in inner]
        ranks = [getattr(getattr(caller, "trainer", caller), "rank", None) for caller in callers]
        peer = next((str(rank) for rank in ranks if isinstance(rank, int)), "none")
        with lock:
            reads.setdefault(peer, []).append(size)
            return hashlib.shake_256(f"sameness {peer} {len(reads[peer])}".encode()).digest(size)

    os.urandom = urandom
    random._urandom = urandom  # what `secrets` reads
    return reads


def interrupt_when(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def run_command(
    words: list[str], folder: Path, number: int, main: Callable[[], None], reads: dict[str, list[int]]
) -> NoReturn:
    """Run a command in this process, with what it prints in files, and end the process."""
    os.setsid()
    os.chdir(folder)
    for stream, name in ((1, f"output-{number}.txt"), (2, f"output-{number}.err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), stream)
    if words[0].startswith("SIGINT@"):
        stop = folder / words.pop(0).removeprefix("SIGINT@")
        threading.Thread(target=interrupt_when, args=(stop,), daemon=True).start()
    code = 70
    try:
        sys.argv[1:] = words
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        Path(f"private-reads-{number}.json").write_text(json.dumps(reads))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def drive(jobs: Path, checkout: Path) -> None:
    """Run commands, each in a fork of this process and in its setting's folder, and note how they ended."""
    reads = fix_private_bits(checkout)
    sys.path[0] = str(checkout)
    import numpy as np  # noqa: F401  # what every command needs is imported once
    import sklearn.datasets  # noqa: F401
    import torch

    import dpeer.cli

    assert Path(dpeer.cli.__file__).is_relative_to(checkout), f"{dpeer.cli.__file__} is not of {checkout}"
    torch.set_num_threads(1)
    for name, job in json.loads(jobs.read_text()).items():
        folder, codes = jobs.parent / name, []
        folder.mkdir(parents=True)
        for number, command in enumerate(job["commands"]):
            if not (child := os.fork()):
                run_command(shlex.split(command), folder, number, dpeer.cli.main, reads)
            ended, status, latest = 0, 0, time.monotonic() + LIMIT
            while not ended and time.monotonic() < latest:
                time.sleep(0.02)
                ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                os.killpg(child, signal.SIGKILL)
                status = os.waitpid(child, 0)[1]
            codes.append(os.waitstatus_to_exitcode(status))
        (folder / "done.json").write_text(json.dumps({**job, "codes": codes}))
        print(f"    ran {folder.name}: {codes}", file=sys.stderr, flush=True)


# --- What a folder of results says. ---


def flat(found: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Each number and text of a JSON document by its path, but for what is not determined."""
    if isinstance(found, dict) and found:
        for name, value in found.items():
            if not NOT_DETERMINED.search(name):
                yield from flat(value, f"{key}.{name}")
    elif isinstance(found, list) and found:
        for number, value in enumerate(found):
            yield from flat(value, f"{key}.{number}")
    else:
        yield key, json.dumps(found)


def tensors(path: Path) -> Iterator[tuple[str, str]]:
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            bits = hashlib.sha256(content[8 + size + first : 8 + size + last]).hexdigest()[:16]
            yield f" {name}", f"{entry['dtype']} {entry['shape']} {bits}"


def facts(folder: Path) -> dict[str, str]:
    """All that a setting has determined, by file and key."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            entries = tensors(path)
        elif path == folder / "done.json":
            continue
        elif (path.suffix == ".json" and "checkpoint" not in path.parts) or re.fullmatch(r"output-\d+\.txt", name):
            try:
                entries = flat(json.loads(path.read_text()))
            except ValueError:  # text for people
                continue
        elif path.suffix == ".jsonl" and not path.name.startswith("log"):
            entries = flat([json.loads(line) for line in path.read_text().splitlines()])
        elif path.suffix == ".csv":
            entries = flat(list(csv.reader(path.read_text().splitlines())))
        elif re.fullmatch(r"released-[1-9]\d*\.bin", path.name):  # 0 is the header, with who was there at that time
            entries = iter([("", hashlib.sha256(path.read_bytes()).hexdigest()[:16])])
        else:
            continue
        found.update((name + key, value) for key, value in entries)
    if (folder / "simulated").is_dir():
        pairs = [(key, key.replace("run/", "simulated/", 1)) for key in found if "/model.safetensors " in key]
        found["cluster and simulate: same models"] = str(all(found[one] == found.get(other) for one, other in pairs))
    return found


def reason_listed(key: str, before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """Why a key, `FOLDER/FILE.KEY`, may be lacking on the side that lacks it, or has another form on the new side."""
    kinds = ["replaced", *(["gone"] if key not in after else []), *(["added"] if key not in before else [])]
    listed = [(kind, pattern, why) for kind in kinds for pattern, why in STATED.get(kind, {}).items()]
    return next((f"{kind}: {why} ({pattern})" for kind, pattern, why in listed if re.search(pattern, key)), None)


def compare(old: Path, new: Path, ignored: str | None = None, left_out: Counter[str] | None = None) -> tuple[str, str]:
    """Whether two folders of one setting are "same", "differs" or "not comparable", and in what.

    Args:
        old: The setting's folder of the old side.
        new: The same of the new one.
        ignored: Keys that this regular expression finds may differ.
        left_out: Gets for each listed reason how many keys differ by it.
    """
    ends = [json.loads((side / "done.json").read_text()) for side in (old, new)]
    for number, codes in enumerate(zip(*(end["codes"] for end in ends), strict=True)):
        errors = [(side / f"output-{number}.err").read_text().strip() for side in (old, new)]
        for label, code, text in zip(("old", "new"), codes, errors, strict=True):
            if code and LACKING.search(text):
                return "not comparable", f"{label}: {text.splitlines()[-1]}"
        last = [text.splitlines()[-1] if text else "" for text in errors]
        if codes[0] != codes[1]:
            return "differs", f"command {number} ends with {codes[0]} -> {codes[1]}: {last[0]} -> {last[1]}"
        if codes[0] and not ends[0]["commands"][number].startswith("SIGINT@"):
            return "not comparable", f"both end with {codes[0]}: {last[0]}"
    before, after = ({f"{old.name}/{key}": value for key, value in facts(side).items()} for side in (old, new))
    if any("--privacy" in command and command.startswith("simulate") for command in ends[0]["commands"]):
        for label, side in (("old", before), ("new", after)):
            if f"{old.name}/private-reads-0.json" in side:  # which nothing was read for
                return "not comparable", f"{label}: no private bits are read where this program fixes them"
    keys = sorted(before.keys() | after.keys())
    other = [key for key in keys if before.get(key) != after.get(key) and not (ignored and re.search(ignored, key))]
    reasons = {key: reason_listed(key, before, after) for key in other}
    listed = Counter(why for why in reasons.values() if why is not None)
    if left_out is not None:
        left_out += listed
    wrong = [key for key, why in reasons.items() if why is None]
    if not wrong:
        return "same", f"{len(keys) - len(other)} values, {listed.total()} left out"
    shown = [f"{key}: {before.get(key, 'lacking')} -> {after.get(key, 'lacking')}" for key in wrong[:8]]
    return "differs", f"{len(wrong)} of {len(keys)} values\n    " + "\n    ".join(shown)


# --- The data, and both sides. ---


def write_data(folder: Path) -> None:
    """Small tables, images and texts, and published data sets in their own layouts; the same in every call."""
    from tests.training import dataset_files  # imports dpeer, which the driven side must not

    folder.mkdir(parents=True)
    for name, write in {"mnist": dataset_files.mnist, "cifar10": dataset_files.cifar10,
                        "femnist": dataset_files.femnist, "har": dataset_files.har}.items():  # fmt: skip
        (folder / name).mkdir()
        write(folder / name)
    draw = random.Random(5)
    for name, text in STATED["files"].items():
        (folder / name).write_text(text)
    for rank in range(4):
        visits, plain = ["patient,age,sex,smoker,complaint,admitted,outcome"], ["age,weight,pulse,outcome"]
        for row in range(80):
            age, outcome = draw.randrange(20, 95), draw.choice(["home", "ward"])
            plain.append(f"{age},{draw.gauss(70, 9):.1f},{draw.randrange(50, 120)},{outcome}")
            sex, smoker = draw.choice(["female", "male", "x"]), draw.choice(["yes", "no", "NA"])
            day = f"202{draw.randrange(7)}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
            visits.append(f"p{row // 2},{age},{sex},{smoker},{draw.choice(['chest pain', 'fever'])},{day},{outcome}")
        (folder / f"visits-{rank}.csv").write_text("\n".join(visits) + "\n")
        (folder / f"plain-{rank}.csv").write_text("\n".join(plain) + "\n")
    for label, low in (("dark", 0), ("bright", 128)):
        (folder / "images" / label).mkdir(parents=True)
        for number in range(48):  # bitmaps of 16 x 16 pixels with 24 bits
            header = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 822, 0, 0, 54, 40, 16, 16, 1, 24, 0, 768, 0, 0, 0, 0)
            pixels = bytes(low + draw.randrange(128) for _ in range(768))
            (folder / "images" / label / f"{number:03}.bmp").write_bytes(header + pixels)
    (folder / "SST-2").mkdir()
    for name, count in (("train", 240), ("dev", 60)):
        sentences = [f"{draw.choice(['a good', 'a bad'])} film, {n} times" for n in range(count)]
        rows = [f"{sentence}\t{int('good' in sentence)}\n" for sentence in sentences]
        (folder / "SST-2" / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(rows))


def settings(only: str | None, side: Literal["old", "new"] = "new") -> dict[str, list[str]]:
    """The commands of each setting, as they are typed on one side."""
    found: dict[str, list[str]] = {}
    for name, stated in STATED["settings"].items():
        if only is None or re.search(only, name):
            commands = stated[side] if isinstance(stated, dict) else stated
            found[name] = [
                re.sub(r"\bRUN\b", RUN, one) for one in ([commands] if isinstance(commands, str) else commands)
            ]
    return found


def folder_of(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def run_side(checkout: Path, python: Path | None, folder: Path, wanted: dict[str, list[str]]) -> float:
    """Run what a side's folder lacks; returns the seconds that it took."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    write_data(folder / "data")
    digest = hashlib.sha256(inspect.getsource(fix_private_bits).encode())  # other bits need another run
    for path in sorted((folder / "data").rglob("*.*")):
        digest.update(path.read_bytes())
    jobs = {}
    for name, commands in wanted.items():
        job, done = {"commands": commands, "data": digest.hexdigest()}, folder / folder_of(name) / "done.json"
        if not done.exists() or not job.items() <= json.loads(done.read_text()).items():
            shutil.rmtree(done.parent, ignore_errors=True)
            jobs[folder_of(name)] = job
    begun = time.monotonic()
    if jobs:
        (folder / "jobs.json").write_text(json.dumps(jobs))
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DPEER", "PYTHON"))}
        environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(checkout), "COLUMNS": "120"}
        command = [python or checkout / ".venv/bin/python", __file__, "--drive", folder / "jobs.json", checkout]
        subprocess.run(command, env=environment, cwd=folder, check=True)
    return time.monotonic() - begun


def commit(checkout: Path) -> str:
    git = ["git", "-C", str(checkout)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout[:12]
    changed = subprocess.run([*git, "diff", "HEAD"], capture_output=True, check=True).stdout
    return head + (f"-{hashlib.sha256(changed).hexdigest()[:8]}" if changed else "")


def main() -> int:
    if sys.argv[1:2] == ["--drive"]:
        drive(Path(sys.argv[2]), Path(sys.argv[3]))
        return 0
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("old", type=lambda text: Path(text).resolve())
    options.add_argument("new", type=lambda text: Path(text).resolve(), nargs="?", default=HERE.parent)
    options.add_argument("--old-python", type=Path, help="in place of OLD_CHECKOUT/.venv/bin/python")
    options.add_argument("--new-python", type=Path, help="in place of NEW_CHECKOUT/.venv/bin/python")
    options.add_argument("--only", help="settings whose name this regular expression finds")
    options.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "dpeer-sameness")
    options.add_argument("--ignore", help="keys that this regular expression finds may differ")
    given = options.parse_args()
    keep = given.keep.resolve()
    wanted = settings(given.only)
    old, new = keep / f"old-{commit(given.old)}", keep / "new"
    shutil.rmtree(new, ignore_errors=True)
    spent = [
        run_side(given.old, given.old_python, old, settings(given.only, "old")),
        run_side(given.new, given.new_python, new, wanted),
    ]
    counts = {"same": 0, "differs": 0, "not comparable": 0, "not comparable, as listed": 0}
    left_out = Counter[str]()
    for name in wanted:
        kind, more = compare(old / folder_of(name), new / folder_of(name), given.ignore, left_out)
        if kind == "not comparable" and (why := STATED.get("not_comparable", {}).get(name)) is not None:
            kind, more = "not comparable, as listed", f"{why} ({more})"
        counts[kind] += 1
        print(f"{name}: {kind}{'' if kind == 'same' and not more else ': ' + more}")
    for why, count in left_out.most_common():
        print(f"left out, {count} values {why}")
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()), end="; ")
    print(f"old {spent[0]:.0f} s, new {spent[1]:.0f} s; results in {old} and {new}")
    return int(counts["differs"] + counts["not comparable"] > 0)


if __name__ == "__main__":
    sys.exit(main())
