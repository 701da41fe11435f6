"""Images of one's own: in a folder for each class, or in one folder with a table of their labels."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training import forget, load_task
from dpeer.training.data.image_folder import image_folder
from tests.error_texts import refused
from tests.training.dataset_files import save

Image = pytest.importorskip("PIL.Image", reason="reading images needs Pillow")

COLORS = {"cat": (200, 40, 40), "dog": (40, 200, 40), "owl": (40, 40, 200)}


def write(folder: Path, count: int = 20, classes: Any = COLORS) -> Path:
    for name in classes:
        for number in range(count):
            ending = ("png", "jpg", "JPEG", "webp", "bmp")[number % 5]
            save(folder / name / f"{number:03}.{ending}", COLORS[name], (20 + number, 50))
    return folder


def check_colors(pool: Any, names: Any = COLORS) -> None:
    for image, target in zip(pool.inputs.numpy().astype(int), pool.targets.tolist(), strict=True):
        assert np.abs(image - np.array(COLORS[[*names][target]])[:, None, None]).max() <= 12


def test_classes_are_folders_and_other_files_are_counted_and_named(tmp_path: Path) -> None:
    write(tmp_path)
    for name in (
        "cat/more.tiff",
        "cat/deep/x.png",
        "__MACOSX/cat/x.png",
        "dog/.ipynb_checkpoints/x.png",
        "cat/._0.png",
    ):
        save(tmp_path / name, (1, 2, 3))
    (tmp_path / "r.txt").write_text("x")
    data = image_folder(path=str(tmp_path))
    assert data.test is None
    assert (data.classes, data.names) == (3, {"classes": ("cat", "dog", "owl")})
    assert data.train.inputs.shape == (60, 3, 32, 32)
    assert data.train.targets.tolist() == [0] * 20 + [1] * 20 + [2] * 20
    check_colors(data.train)
    assert data.remarks == (
        f"60 images in {tmp_path.name}; classes: cat 20, dog 20, owl 20",
        f"left out of {tmp_path.name}: 6 files, such as __MACOSX/cat/x.png",
    )


def test_train_and_test_are_kept_and_train_alone_is_divided(tmp_path: Path) -> None:
    for number in range(60):  # no two of them are equal
        save(tmp_path / "train" / ("cat", "dog", "owl")[number % 3] / f"{number}.png", (number, 0, 0))
    options = {"path": str(tmp_path)}
    task = load_task("image-folder", 1, 2, 0, options)
    assert (len(task.train), len(task.test)) == (48, 12)
    forget()
    write(tmp_path / "test", 5, ("dog", "owl"))
    data = image_folder(path=str(tmp_path), image_size=8, channels=1)
    assert data.train.inputs.shape == (60, 1, 8, 8)
    assert data.test.targets.tolist() == [1] * 5 + [2] * 5
    task = load_task("image-folder", 0, 2, 0, options)
    assert (len(task.train), len(task.test)) == (60, 10)


def labelled(folder: Path, patients: str = "abcdefghij") -> Path:
    """Two images of each patient in one folder, cats and dogs in turn, and their table in another order."""
    lines = []
    for number, patient in enumerate([*patients, *patients]):
        name = ("cat", "dog")[number % 2]
        save(folder / "scans" / f"{number}.png", COLORS[name])
        lines.append(f"{patient},{name},scans/{number}.png,whatever")
    (folder / "labels.csv").write_text("\n".join(["group,label,file,note", *lines[::-1]]) + "\n")
    return folder


def test_a_table_has_labels_and_groups_of_the_images_beside_it(tmp_path: Path) -> None:
    data = image_folder(path=str(labelled(tmp_path)), image_size=8)
    assert (data.classes, data.group) == (2, "group")
    assert data.names == {"classes": ("cat", "dog")}
    assert data.train.targets.tolist() == [1, 0] * 10
    check_colors(data.train)
    task = load_task("image-folder", 0, 2, 0, {"path": str(tmp_path), "image_size": 8})
    parts = [{place % 10 for place in task.indices[part].tolist()} for part in ("train", "test")]
    assert parts[0] & parts[1] == set(), "both images of a patient are in one part"
    patients = [place % 10 for place in task.indices["train"].tolist()]
    assert len(set(zip(patients, task.groups.tolist(), strict=True))) == len(parts[0]) == len(set(task.groups.tolist()))


def test_a_group_is_the_same_in_train_and_test(tmp_path: Path) -> None:
    labelled(tmp_path / "train")
    labelled(tmp_path / "test", "bz")
    data = image_folder(path=str(tmp_path), image_size=8)
    assert np.asarray(data.train.groups).tolist() == [*"abcdefghij"[::-1]] * 2
    assert np.asarray(data.test.groups).tolist() == [*"zb"] * 2
    one, other = np.asarray(data.train.stretches), np.asarray(data.test.stretches)
    assert other.tolist() == [10, one["abcdefghij"[::-1].index("b")]] * 2


def test_a_peer_need_not_have_every_class_that_is_named(tmp_path: Path) -> None:
    write(tmp_path / "site-0", 20, ("dog", "cat"))
    options = {"path": f"{tmp_path}/site-{{rank}}", "classes": ["owl", "dog", "cat"]}
    task = load_task("image-folder", 0, 2, 0, options)
    assert set(task.train.tensors[1].tolist()) == {1, 2}
    assert next(p for name, p in task.model.named_parameters() if name == "head.weight").shape[0] == 3


def test_resizing_averages(tmp_path: Path) -> None:
    """Stripes of one pixel become grey: a resize that is not antialiased would pick black or white."""
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, ::2] = 255
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(stripes).save(tmp_path / name / "x.png")
    inputs = image_folder(path=str(tmp_path), image_size=16).train.inputs
    assert inputs.shape == (2, 3, 16, 16)
    assert (inputs.float() - 127.5).abs().max() < 30


def upside_down() -> Any:
    """White above and black below, by a camera that was upside down."""
    turned = Image.new("RGB", (8, 8), (0, 0, 0))
    turned.paste((255, 255, 255), (0, 0, 8, 4))
    return turned


def test_kinds_of_images(tmp_path: Path) -> None:
    """Grey, with a palette, transparent, black and white, turned by a camera: all become what was asked for."""
    exif = upside_down().getexif()
    exif[0x0112] = 3
    (tmp_path / "a").mkdir(parents=True)
    upside_down().save(tmp_path / "a" / "0.png", exif=exif)
    save(tmp_path / "a" / "1.png", 77, mode="L")
    save(tmp_path / "a" / "2.png", (10, 20, 30, 128), mode="RGBA")
    save(tmp_path / "a" / "3.png", 1, mode="1")
    Image.new("RGB", (9, 9), (10, 20, 30)).convert("P").save(tmp_path / "a" / "4.png", transparency=b"\x00\x80\xff")
    save(tmp_path / "b" / "0.png", 0, mode="L")
    inputs = image_folder(path=str(tmp_path), image_size=8).train.inputs
    assert inputs[0, 0, :, 0].tolist() == [0] * 4 + [255] * 4
    assert inputs[1].unique().tolist() == [77]
    assert inputs[2, :, 0, 0].tolist() == [132, 137, 142]  # half of it shows the white below
    assert inputs[3].unique().tolist() == [255]


def test_damage_in_exif_does_not_keep_an_image_from_being_read(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """A resolution of 1/0, EXIF that is none or is cut: the first is turned as it says, the others as they lie."""
    turned = upside_down()
    (tmp_path / "a").mkdir(parents=True)
    entries = [(0x0112, 3, 1, 3), (0x011A, 10, 1, 38)]  # the orientation; where the resolution stands
    tiff = struct.pack("<2sHIH", b"II", 42, 8, 2) + b"".join(struct.pack("<HHII", *one) for one in entries)
    turned.save(tmp_path / "a" / "0.png", exif=b"Exif\0\0" + tiff + struct.pack("<Iii", 0, -1, 0))
    turned.save(tmp_path / "a" / "1.png", exif=b"Exif\0\0none")
    turned.save(tmp_path / "a" / "2.png", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01\x12")
    save(tmp_path / "b" / "0.png", 0)
    inputs = image_folder(path=str(tmp_path), image_size=8).train.inputs
    assert inputs[:3, 0, :, 0].tolist() == [[0] * 4 + [255] * 4, *([[255] * 4 + [0] * 4] * 2)]
    assert [*recwarn] == []


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB"])
def test_colors_that_transparent_pixels_hide_are_not_seen(mode: str, tmp_path: Path) -> None:
    """Classes that differ in nothing else are equal; they are counted, and those that are opaque are not."""
    for name, shade in (("a", 0), ("b", 200)):
        image = Image.new("RGBA", (8, 8), (shade, shade, shade, 0))
        if mode in ("P", "RGB"):  # one color that is transparent
            image = image.convert("RGB") if mode == "RGB" else image.convert("RGB").quantize(1)
            color = image.getpixel((0, 0))
            (tmp_path / name).mkdir()
            image.save(tmp_path / name / "0.png", transparency=color)
        else:
            save(tmp_path / name / "0.png", (shade,) * (len(mode) - 1) + (0,), mode=mode)
        save(tmp_path / name / "1.png", (shade, shade, shade, 255), mode="RGBA")
    data = image_folder(path=str(tmp_path), image_size=8)
    assert [image.unique().tolist() for image in data.train.inputs] == [[255], [0], [255], [200]]
    assert data.remarks[1] == "2 of 4 images have transparent pixels, laid on white (such as 0.png)"


def test_an_image_that_is_too_large_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 5, ("cat", "dog"))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    with refused(TaskError, "cat/000.png cannot be read: ", "it is larger than 800 pixels: scale or tile it"):
        image_folder(path=str(tmp_path), image_size=8)


@pytest.mark.parametrize("kind", ["cut", "16 bits", "frames"])
def test_an_image_that_would_be_read_in_part_is_refused(kind: str, tmp_path: Path) -> None:
    write(tmp_path, 5, ("cat", "dog"))
    path = tmp_path / "dog" / "x.webp"
    if kind == "cut":
        path.write_bytes((tmp_path / "dog" / "003.webp").read_bytes()[:60])
    elif kind == "16 bits":
        save(path.with_suffix(".png"), 60_000, mode="I;16")
    else:
        frames = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (0, 250)]
        frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True)
    with pytest.raises(TaskError):
        image_folder(path=str(tmp_path), image_size=8)


@pytest.mark.parametrize(
    ("names", "classes", "fragment"),
    [
        ((), None, "expected a folder for each of two classes or more"),
        (("a/", "b/"), None, "class 'a' has no image (.png, .jpg, .jpeg, .webp, .bmp) directly in"),
        (("test/a/0.png", "test/b/0.png"), None, "test has no folder train beside it"),
        (("cat/0.png", "ant/0.png"), ("cat", "dog"), "ant is none of the classes cat, dog"),
        (("cat/0.png", "dog/x.tiff"), None, "class 'dog' has no image"),
        (("cat/0.png", "dog/._x.png"), None, "class 'dog' has no image"),
    ],
)
def test_a_folder_without_two_classes(names: tuple[str, ...], classes: Any, fragment: str, tmp_path: Path) -> None:
    for name in names:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            save(tmp_path / name, (1, 2, 3))
    with refused(TaskError, "task 'image-folder': ", fragment):
        image_folder(path=str(tmp_path), image_size=8, classes=classes)


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("file,class\nx.png,cat\n", "unknown column 'label' in "),
        ("file,label\nx.png,cat\nnone.png,dog\n", "labels.csv', row 3: no image "),
        ("file,label,group\nx.png,cat,a\nx.png,dog,\n", "labels.csv': column 'group', 1 of 2 cells: a gap"),
    ],
)
def test_a_table_of_other_images(content: str, fragment: str, tmp_path: Path) -> None:
    save(tmp_path / "x.png", (1, 2, 3))
    (tmp_path / "labels.csv").write_text(content)
    with refused(ConfigurationError, fragment):
        image_folder(path=str(tmp_path), image_size=8)
