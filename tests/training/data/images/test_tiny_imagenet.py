import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import TaskError
from dpeer.training.data.images.tiny_imagenet import tiny_imagenet

Image = pytest.importorskip("PIL.Image", reason="reading images needs Pillow")

WNIDS = ["n02124075", "n01443537", "n04067472"]
FOLDER = "tiny-imagenet-200"
LEVELS = {"n02124075": 40, "n01443537": 120, "n04067472": 200}


def save(path: Path, level: int, mode: str = "RGB", side: int = 64) -> None:
    """One colour, its red twenty levels above the rest; JPEG keeps that within a few levels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = (level + 20, level, level) if mode == "RGB" else level
    Image.new(mode, (side, side), colour).save(path, "JPEG", quality=95)


def write(folder: Path, each: int = 20, held: int = 6) -> Path:
    """The published layout: 64x64 JPEGs, a grey one among them, boxes beside them, unlabelled ones in `test`."""
    inner = folder / FOLDER
    for wnid, level in LEVELS.items():
        for number in range(each):
            mode = "L" if number == 3 else "RGB"
            save(inner / "train" / wnid / "images" / f"{wnid}_{number}.JPEG", level, mode)
        (inner / "train" / wnid / f"{wnid}_boxes.txt").write_text(f"{wnid}_0.JPEG\t0\t10\t63\t58\n")
    lines = []
    for number in range(3 * held):
        wnid = WNIDS[number * 2 % 3]
        save(inner / "val" / "images" / f"val_{number}.JPEG", LEVELS[wnid])
        lines.append(f"val_{number}.JPEG\t{wnid}\t0\t32\t44\t62\n")
    (inner / "val" / "val_annotations.txt").write_text("".join(lines))
    save(inner / "test" / "images" / "test_0.JPEG", 10)
    (inner / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    (inner / "words.txt").write_text("n00001740\tentity\n")
    return folder


def near(image: Any, *levels: int) -> bool:
    return all(
        bool(np.abs(plane.numpy().astype(int) - level).max() <= 3) for plane, level in zip(image, levels, strict=True)
    )


@pytest.mark.parametrize("inner", ["", FOLDER])
def test_reads_the_published_layout(tmp_path: Path, inner: str) -> None:
    data = tiny_imagenet(str(write(tmp_path) / inner))
    assert data.test is not None
    assert data.train.inputs.shape == (60, 3, 64, 64)
    assert data.test.inputs.shape == (18, 3, 64, 64)
    assert data.train.inputs.element_size() == 1
    assert data.classes == 3
    assert data.train.targets.tolist() == [0] * 20 + [1] * 20 + [2] * 20
    assert data.test.targets.tolist() == [0, 2, 1] * 6
    for pool in (data.train, data.test):
        for image, target in zip(pool.inputs, pool.targets.tolist(), strict=True):
            level = LEVELS[WNIDS[target]]
            assert near(image, level + 20, level, level) or near(image, level, level, level)
    assert sum(bool((image[0] == image[1]).all()) for image in data.train.inputs) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wnids.txt", None, f"expected the file wnids.txt in .*{FOLDER}; from http://cs231n.stanford.edu"),
        ("wnids.txt", b"", "wnids.txt does not hold what was expected: a class a line, each once"),
        ("wnids.txt", b"\xff\xfe\xff", "wnids.txt is damaged"),
        ("wnids.txt", b"n1\nn1\n", "a class a line, each once"),
        ("wnids.txt", b"n02124075\nn09999999\n", r"expected \*.JPEG in .*n09999999/images; from http"),
        ("val/val_annotations.txt", None, "expected the file val_annotations.txt in .*val; from"),
        ("val/val_annotations.txt", b"", "val_annotations.txt does not hold what was expected: an image a line"),
        ("val/val_annotations.txt", b"val_0.JPEG\tn07\t0\n", "a class of wnids.txt, between tabs; line 1 is"),
        ("val/val_annotations.txt", b"val_0.JPEG n02124075\n", "between tabs; line 1 is"),
        ("val/images/val_4.JPEG", None, "expected the file val_4.JPEG in"),
        ("val/images/val_4.JPEG", b"no image", "the image .*val_4.JPEG cannot be read: UnidentifiedImageError"),
        ("train/n01443537/images/n01443537_7.JPEG", b"", "the image .*n01443537_7.JPEG cannot be read"),
    ],
)
def test_damaged(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    write(tmp_path, 9, 2)
    path = tmp_path / FOLDER / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(TaskError, match=message) as caught:
        tiny_imagenet(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_cut_or_larger_image_names_its_file(tmp_path: Path) -> None:
    write(tmp_path, 9, 2)
    path = tmp_path / FOLDER / "val" / "images" / "val_1.JPEG"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TaskError, match=r"the image .*val_1.JPEG cannot be read: OSError"):
        tiny_imagenet(str(tmp_path))
    save(path, 7, side=65)
    with pytest.raises(TaskError, match=r"val_1.JPEG cannot be read: ValueError: it has 65x65 pixels, not 64x64"):
        tiny_imagenet(str(tmp_path))


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 2, 1)
    real = builtins.__import__

    def missing(name: str, *args: Any, **rest: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *args, **rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(
        TaskError, match=r"task 'tiny-imagenet' reads images with Pillow: pip install 'dpeer\[images\]'"
    ):
        tiny_imagenet(str(tmp_path))
