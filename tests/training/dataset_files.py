"""Writers of tiny copies of the published data sets in their distributed formats, with the expected content."""

import gzip
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from dpeer.training.data.har import CHANNELS
from dpeer.training.data.har import har as read_har
from dpeer.training.data.pool import Data
from dpeer.training.data.published_images import CLASSES
from dpeer.training.data.published_images import cifar10 as read_cifar10
from dpeer.training.data.published_images import cifar100 as read_cifar100
from dpeer.training.data.published_images import emnist as read_emnist
from dpeer.training.data.published_images import femnist as read_femnist
from dpeer.training.data.published_images import mnist as read_mnist
from dpeer.training.data.published_images import tiny_imagenet as read_tiny_imagenet

Array = np.ndarray[Any, Any]
RANKS = 2
"""For so many peers the tasks of own files have one each."""


class Held(NamedTuple):
    """The content of a pool: inputs as they are stored, class numbers, and whose each sample is."""

    inputs: Array
    targets: Array
    groups: Array | None = None


class Written(NamedTuple):
    """What a writer has left: the options that name the files, and the content of the pools."""

    options: dict[str, Any]
    train: Held | None = None
    test: Held | None = None


def pixels(count: int, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((count, seed)).integers(0, 256, (count, *shape), dtype=np.uint8)


def numbers(count: int, classes: int) -> Array:
    return np.arange(count, dtype=np.int64) % classes


def idx(array: Array) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def cifar10(folder: Path, dump: Callable[[Any], bytes] = pickle.dumps, each: int = 40) -> Written:
    inner, parts = folder / "cifar-10-batches-py", []
    inner.mkdir(parents=True)
    for seed, name in enumerate((*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")):
        parts.append(Held(pixels(each, 3072, seed=seed), (numbers(each, 10) + seed) % 10))
        (inner / name).write_bytes(dump({b"labels": parts[-1].targets.tolist(), b"data": parts[-1].inputs}))
    train = Held(*(np.concatenate(column) for column in list(zip(*parts[:5], strict=True))[:2]))
    found = (Held(part.inputs.reshape(-1, 3, 32, 32), part.targets) for part in (train, parts[5]))
    return Written({"data": str(folder)}, *found)


def cifar100(folder: Path) -> Written:
    inner, parts = folder / "cifar-100-python", []
    inner.mkdir(parents=True)
    for name, count in (("train", 1000), ("test", 400)):
        parts.append(Held(pixels(count, 3072), numbers(count, 100)))
        content = {b"fine_labels": parts[-1].targets.tolist(), b"coarse_labels": [3] * count, b"data": parts[-1].inputs}
        (inner / name).write_bytes(pickle.dumps(content, protocol=2))
    return Written({"data": str(folder)}, *(Held(part.inputs.reshape(-1, 3, 32, 32), part.targets) for part in parts))


def tiny_imagenet(folder: Path, each: int = 40, held: int = 10) -> Written:
    """JPEGs of one color, a grey one among them, and unlabelled ones in `test`; ids that sort otherwise than listed."""
    inner, names = folder / "tiny-imagenet-200", ["n02124075", "n01443537", "n04067472"]
    train = np.stack(
        [(60 * place + number + 20, *(60 * place + number,) * 2) for place in range(3) for number in range(each)]
    )
    train[3] = train[3, 1]
    test = np.stack([(number + 50, number, number) for number in range(3 * held)])
    for number, color in enumerate(train):
        name = names[number // each]
        path = inner / "train" / name / "images" / f"{name}_{number % each:02}.JPEG"
        grey = number == 3
        save(path, int(color[0]) if grey else tuple(map(int, color)), (64, 64), "L" if grey else "RGB", quality=95)
    lines = []
    for number, color in enumerate(test):
        save(inner / "val" / "images" / f"val_{number}.JPEG", tuple(map(int, color)), (64, 64), quality=95)
        lines.append(f"val_{number}.JPEG\t{names[number % 3]}\t0\t32\t44\t62\n")
    (inner / "val" / "val_annotations.txt").write_text("".join(lines))
    save(inner / "test" / "images" / "test_0.JPEG", (1, 2, 3))
    (inner / "wnids.txt").write_text("\n".join(names) + "\n")
    shown = [np.broadcast_to(colors[:, :, None, None], (len(colors), 3, 64, 64)) for colors in (train, test)]
    return Written(
        {"data": str(folder)}, Held(shown[0], np.arange(3 * each) // each), Held(shown[1], numbers(3 * held, 3))
    )


def save(path: Path, color: Any, size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: Any) -> None:
    """An image of one color."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path, **options)


def mnist(folder: Path, train: int = 200, test: int = 100, **changes: Any) -> Written:
    """One .npz; an array of `changes` takes the place of another, and None leaves it out."""
    held = {
        "train": Held(pixels(train, 28, 28), numbers(train, 10)),
        "test": Held(pixels(test, 28, 28), numbers(test, 10)),
    }
    arrays = {f"{key}_{name}": array for name, part in held.items() for key, array in zip("xy", part[:2], strict=True)}
    np.savez(folder / "mnist.npz", **{name: array for name, array in (arrays | changes).items() if array is not None})
    return Written(
        {"data": str(folder / "mnist.npz")}, *(Held(part.inputs[:, None], part.targets) for part in held.values())
    )


def mnist_idx(folder: Path, mark: str = "-", *, packed: bool = False, counts: tuple[int, int] = (60, 40)) -> Written:
    folder.mkdir(parents=True, exist_ok=True)
    held = []
    for name, count in zip(("train", "t10k"), counts, strict=True):
        held.append(Held(pixels(count, 1, 28, 28), numbers(count, 10)))
        _idx_pair(folder, name, mark, held[-1].inputs[:, 0], held[-1].targets, packed=packed)
    return Written({"data": str(folder)}, *held)


def _idx_pair(folder: Path, name: str, mark: str, images: Array, labels: Array, *, packed: bool) -> None:
    for kind, array in (("images", images), ("labels", labels)):
        path = folder / f"{name}-{kind}{mark}idx{array.ndim}-ubyte{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))


def emnist(folder: Path, split: str = "byclass", *, packed: bool = False, add: int = 0, each: int = 10) -> Written:
    """NIST's files: images column by column, and letters whose labels begin at 1."""
    folder.mkdir(parents=True, exist_ok=True)
    held = []
    for part, count in (("train", each * CLASSES[split]), ("test", each * CLASSES[split] // 2)):
        held.append(Held(pixels(count, 1, 28, 28), numbers(count, CLASSES[split])))
        lying, labels = held[-1].inputs[:, 0].swapaxes(1, 2), held[-1].targets + (split == "letters") + add
        _idx_pair(folder, f"emnist-{split}-{part}", "-", np.ascontiguousarray(lying), labels, packed=packed)
    return Written({"data": str(folder)} | ({} if split == "byclass" else {"split": split}), *held)


def femnist(folder: Path, counts: tuple[int, int] = (45, 10)) -> Written:
    """LEAF's folder, two writers a file."""
    held = []
    for part, count in zip(("train", "test"), counts, strict=True):
        (folder / part).mkdir(parents=True)
        names = [f"f000{n}" for n in range(4)]
        images = {name: pixels(count, 784, seed=n) for n, name in enumerate(names)}
        for half in (0, 2):
            leaf(folder / part / f"all_data_{half}.json", {name: images[name] / 255 for name in names[half : half + 2]})
        inputs = np.concatenate([*images.values()]).reshape(-1, 1, 28, 28)
        held.append(Held(inputs, np.tile(numbers(count, 62), 4), np.repeat(names, count)))
    return Written({"data": str(folder)}, *held)


def leaf(path: Path, images: dict[str, Array], **changes: Any) -> None:
    """A file of LEAF's: each writer's images, values from 0 to 1, with labels that count; `changes` of the last one."""
    users = {name: {"x": x.tolist(), "y": numbers(len(x), 62).tolist()} for name, x in images.items()}
    users[[*users][-1]] |= changes
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"users": [*users], "num_samples": [len(x) for x in images.values()], "user_data": users}
    path.write_text(json.dumps(content))


def recording(person: int, activity: int, windows: int) -> Array:
    """Windows (windows, 128, 9) that overlap by half, of one recording."""
    signal = np.random.default_rng((person, activity)).normal(size=(64 * (windows + 1), 9)).astype(np.float32)
    return np.stack([signal[64 * n : 64 * n + 128] for n in range(windows)])


def har_arrays(people: dict[str, tuple[int, ...]], windows: int = 5, **changes: Any) -> dict[str, Any]:
    """Each person does each of six activities once; those of "test" are the published test part."""
    pieces = [(who, y, part) for part, whole in people.items() for who in whole for y in range(6)]
    return {
        "x": np.concatenate([recording(who, y, windows) for who, y, _ in pieces]),
        "y": np.repeat([y for _, y, _ in pieces], windows),
        "subject": np.repeat([who for who, _, _ in pieces], windows),
        "is_test": np.repeat([part == "test" for _, _, part in pieces], windows),
    } | changes


def har(folder: Path, windows: int = 20) -> Written:
    arrays = har_arrays({"train": (1, 2, 3), "test": (4,)}, windows)
    np.savez(folder / "har.npz", **arrays)
    return Written({"data": str(folder / "har.npz")}, *_har_pools(arrays))


def _har_pools(arrays: dict[str, Any]) -> list[Held]:
    rows = (~arrays["is_test"], arrays["is_test"])
    return [Held(arrays["x"][row].transpose(0, 2, 1), arrays["y"][row], arrays["subject"][row]) for row in rows]


def har_folder(folder: Path, windows: int = 4) -> Written:
    """The published layout, numbers written as there."""
    arrays = har_arrays({"train": (1, 3, 5), "test": (2, 4)}, windows)
    for part, rows in (("train", ~arrays["is_test"]), ("test", arrays["is_test"])):
        inner = folder / "UCI HAR Dataset" / part / "Inertial Signals"
        inner.mkdir(parents=True)
        np.savetxt(inner.parent / f"y_{part}.txt", arrays["y"][rows] + 1, fmt="%d")
        np.savetxt(inner.parent / f"subject_{part}.txt", arrays["subject"][rows], fmt="%d")
        for number, channel in enumerate(CHANNELS):
            np.savetxt(inner / f"{channel}_{part}.txt", arrays["x"][rows, :, number], fmt="%.7e")
    return Written({"data": str(folder)}, *_har_pools(arrays))


def glue(folder: Path) -> Written:
    inner = folder / "SST-2"
    inner.mkdir(parents=True)
    for name, count in (("train", 120), ("dev", 60)):
        lines = ["sentence\tlabel", *(f"a sentence, number {n} of {name}\t{n % 2}" for n in range(count))]
        (inner / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return Written({"data": str(folder), "name": "sst2", "length": 24})


def csv(folder: Path) -> Written:
    for rank in range(RANKS):
        rows = [f"{n + 0.5},{n * n % 17 + rank},{'yes' if n % 2 else 'no'}" for n in range(80)]
        (folder / f"site-{rank}.csv").write_text("\n".join(["age,dose,ill", *rows]) + "\n")
    return Written({"path": str(folder / "site-{rank}.csv"), "target": "ill"})


def image_folder(folder: Path) -> Written:
    for rank in range(RANKS):
        for place, name in enumerate(("ill", "well")):
            (folder / f"site-{rank}" / name).mkdir(parents=True)
            for n in range(30):
                image = Image.fromarray(np.full((20, 20, 3), 100 * place + 2 * n + rank, np.uint8))
                image.save(folder / f"site-{rank}" / name / f"{n}.png")
    return Written({"path": str(folder / "site-{rank}"), "image_size": 16})


WRITERS: dict[str, Callable[[Path], Written]] = {
    "digits": lambda folder: Written({}), "cifar10": cifar10, "cifar100": cifar100, "tiny-imagenet": tiny_imagenet,
    "mnist": mnist, "emnist": emnist, "femnist": femnist, "har": har, "glue": glue, "csv": csv,
    "image-folder": image_folder,
}  # fmt: skip
"""By task."""
READERS: dict[str, Callable[..., Data]] = {
    "cifar10": read_cifar10, "cifar100": read_cifar100, "tiny-imagenet": read_tiny_imagenet, "mnist": read_mnist,
    "emnist": read_emnist, "femnist": read_femnist, "har": read_har,
}  # fmt: skip
"""By task of images or signals that are published."""
