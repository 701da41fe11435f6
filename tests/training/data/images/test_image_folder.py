from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training import Choices, forget, load_task
from dpeer.training.data.image_folder import ImageFolder, image_folder

Image = pytest.importorskip("PIL.Image", reason="reading images needs Pillow")

COLOURS = {"cat": (200, 40, 40), "dog": (40, 200, 40), "owl": (40, 40, 200)}


def save(path: Path, colour: Any, size: tuple[int, int] = (40, 30), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def write(folder: Path, count: int = 20, classes: Any = COLOURS) -> Path:
    for name in classes:
        for number in range(count):
            ending = ("png", "jpg", "JPEG", "webp", "bmp")[number % 5]
            save(folder / name / f"{number:03}.{ending}", COLOURS[name], (20 + number, 50))
    return folder


def test_classes_are_folders(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / "readme.txt").write_text("x")
    (tmp_path / "cat" / "Thumbs.db").write_text("x")
    (tmp_path / "cat" / "._000.png").write_text("what a system leaves")
    data = image_folder(ImageFolder(str(tmp_path)))
    assert data.test is None
    assert data.classes == 3
    assert data.train.inputs.shape == (60, 3, 32, 32)
    assert data.train.targets.tolist() == [0] * 20 + [1] * 20 + [2] * 20
    for image, target in zip(data.train.inputs.numpy().astype(int), data.train.targets.tolist(), strict=True):
        wanted = list(COLOURS.values())[target]
        assert np.abs(image - np.array(wanted)[:, None, None]).max() <= 12


def test_train_and_test_are_kept(tmp_path: Path) -> None:
    write(tmp_path / "train")
    write(tmp_path / "test", 5, ("dog", "owl"))
    data = image_folder(ImageFolder(str(tmp_path), 8, 1))
    assert data.test is not None
    assert data.train.inputs.shape == (60, 1, 8, 8)
    assert data.test.targets.tolist() == [1] * 5 + [2] * 5
    task = load_task("image-folder", 0, 2, 0, {"path": str(tmp_path), "image_size": 8, "channels": 1})
    assert (len(task.train), len(task.test)) == (60, 10)


def labelled(folder: Path, patients: str = "abcdefghij", *, prefix: str = "") -> Path:
    """Two images of each patient in one folder, cats and dogs in turn, and their table in another order."""
    lines = []
    for number, patient in enumerate([*patients, *patients]):
        name = ("cat", "dog")[number % 2]
        save(folder / "scans" / f"{number}.png", COLOURS[name])
        lines.append(f"{prefix}{patient},{name},scans/{number}.png,whatever")
    (folder / "labels.csv").write_text("\n".join(["group,label,file,note", *lines[::-1]]) + "\n")
    return folder


def test_a_table_has_labels_and_groups_of_the_images_beside_it(tmp_path: Path) -> None:
    data = image_folder(ImageFolder(str(labelled(tmp_path)), 8))
    assert (data.classes, data.group) == (2, "group")
    assert data.names == {"classes": ("cat", "dog")}
    assert data.train.targets.tolist() == [1, 0] * 10
    for image, target in zip(data.train.inputs.numpy().astype(int), data.train.targets.tolist(), strict=True):
        assert np.abs(image.mean(axis=(1, 2)) - [*COLOURS.values()][target]).max() <= 12
    task = load_task("image-folder", 0, 2, 0, {"path": str(tmp_path), "image_size": 8})
    parts = [{place % 10 for place in task.indices[part].tolist()} for part in ("train", "test")]
    assert parts[0] & parts[1] == set(), "both images of a patient are in one part"
    patients = [place % 10 for place in task.indices["train"].tolist()]
    assert len(set(zip(patients, task.groups.tolist(), strict=True))) == len(parts[0]) == len(set(task.groups.tolist()))


def test_a_group_is_the_same_in_train_and_test(tmp_path: Path) -> None:
    labelled(tmp_path / "train")
    labelled(tmp_path / "test", "bz")
    data = image_folder(ImageFolder(str(tmp_path), 8))
    assert data.train.groups is not None
    assert data.train.groups.tolist() == [*"abcdefghij"[::-1]] * 2
    assert data.test is not None
    assert data.test.groups is not None
    assert data.test.groups.tolist() == [*"zb"] * 2
    one, other = np.asarray(data.train.stretches), np.asarray(data.test.stretches)
    assert other.tolist() == [10, one["abcdefghij"[::-1].index("b")]] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "file,class\nx.png,cat\n",
            "unknown column 'label' in .*labels.csv', which needs file and label: valid: file",
        ),
        ("file,label\nx.png,cat\nnone.png,dog\n", "row 3: there is no image '.*none.png'"),
        ("file,label,group\nx.png,cat,a\nx.png,dog,\n", "row 3, column 'group' is empty"),
        ("file,label,group\nx.png,cat,a\nx.png,dog,a\0\n", r"row 3, column 'group': 'a\\x00' has a NUL character"),
        ("file,label\nx.png,cat\nx.png,\n", "expected a folder for each of two classes|'' is none of the classes"),
    ],
)
def test_a_table_of_images_that_is_wrong(tmp_path: Path, content: str, message: str) -> None:
    save(tmp_path / "x.png", (1, 2, 3))
    (tmp_path / "labels.csv").write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        image_folder(ImageFolder(str(tmp_path), 8))


def test_train_alone_is_all_there_is(tmp_path: Path) -> None:
    for number in range(60):  # no two of them are equal
        save(tmp_path / "train" / ("cat", "dog", "eel")[number % 3] / f"{number}.png", (number, 0, 0))
    task = load_task("image-folder", 1, 2, 0, {"path": str(tmp_path)})
    assert (len(task.train), len(task.test)) == (48, 12)


def test_classes_in_a_given_order(tmp_path: Path) -> None:
    """A peer that has no owl knows of owls all the same."""
    write(tmp_path / "site-0", 20, ("dog", "cat"))
    options = {"path": f"{tmp_path}/site-{{rank}}", "classes": ["owl", "dog", "cat"]}
    task = load_task("image-folder", 0, 2, 0, options)
    assert set(task.train.tensors[1].tolist()) == {1, 2}
    assert next(p for name, p in task.model.named_parameters() if name == "head.weight").shape[0] == 3
    (tmp_path / "site-0" / "ant").mkdir()
    forget()
    with pytest.raises(TaskError, match=r"class 'ant' has no image .*ant; remove the folder, and name all classes"):
        image_folder(ImageFolder(f"{tmp_path}/site-0"))
    with pytest.raises(TaskError, match=r"the folder .*ant is none of the classes owl, dog, cat"):
        load_task("image-folder", 0, 2, 0, options)
    with pytest.raises(TaskError, match=r"there is no '.*site-1': with path = .* every rank, .* this is rank 1"):
        load_task("image-folder", 1, 2, 0, options)
    with pytest.raises(TaskError, match=r"path = '.*site' is not a folder"):
        load_task("image-folder", 1, 2, 0, {"path": f"{tmp_path}/site"})


def test_resizing_averages(tmp_path: Path) -> None:
    """Stripes of one pixel become grey: a resize that is not antialiased would pick black or white."""
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, ::2] = 255
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(stripes).save(tmp_path / name / "x.png")
    inputs = image_folder(ImageFolder(str(tmp_path), 16)).train.inputs
    assert inputs.shape == (2, 3, 16, 16)
    assert (inputs.float() - 127.5).abs().max() < 30


def test_kinds_of_images(tmp_path: Path) -> None:
    """Grey, with a palette, transparent, black and white, turned by a camera: all become what was asked for."""
    turned = Image.new("RGB", (8, 8), (0, 0, 0))
    turned.paste((255, 255, 255), (0, 0, 8, 4))  # white above
    exif = turned.getexif()
    exif[0x0112] = 3  # the camera was upside down
    (tmp_path / "a").mkdir(parents=True)
    turned.save(tmp_path / "a" / "0.png", exif=exif)
    save(tmp_path / "a" / "1.png", 77, mode="L")
    save(tmp_path / "a" / "2.png", (10, 20, 30, 128), mode="RGBA")
    save(tmp_path / "a" / "3.png", 1, mode="1")
    Image.new("RGB", (9, 9), (10, 20, 30)).convert("P").save(tmp_path / "a" / "4.png", transparency=b"\x00\x80\xff")
    save(tmp_path / "b" / "0.png", 0, mode="L")
    inputs = image_folder(ImageFolder(str(tmp_path), 8)).train.inputs
    assert inputs[0, 0, 0, 0] == 0
    assert inputs[0, 0, 7, 0] == 255
    assert inputs[1].unique().tolist() == [77]
    assert inputs[2, :, 0, 0].tolist() == [10, 20, 30]
    assert inputs[3].unique().tolist() == [255]
    save(tmp_path / "b" / "1.png", 60_000, mode="I;16")
    with pytest.raises(TaskError, match=r"b/1.png cannot be read: ValueError: it has more than 8 bits a pixel"):
        image_folder(ImageFolder(str(tmp_path), 8))


def test_a_damaged_image_names_its_file(tmp_path: Path) -> None:
    write(tmp_path)
    whole = (tmp_path / "dog" / "003.webp").read_bytes()
    for content in (b"", b"no image", whole[:60]):
        (tmp_path / "dog" / "003.webp").write_bytes(content)
        with pytest.raises(
            TaskError, match=r"task 'image-folder': the image .*dog/003.webp cannot be read: "
        ) as caught:
            image_folder(ImageFolder(str(tmp_path)))
        assert "\n" not in str(caught.value)


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"expected a folder for each of two classes or more in .*; there is none"):
        image_folder(ImageFolder(str(tmp_path)))
    write(tmp_path, 3, ("cat",))
    with pytest.raises(TaskError, match=r"two classes or more in .*; there is cat"):
        image_folder(ImageFolder(str(tmp_path)))
    (tmp_path / "empty" / "a").mkdir(parents=True)
    (tmp_path / "empty" / "b").mkdir()
    with pytest.raises(TaskError, match=r"expected images \(.png, .*\) in .*a; there are none"):
        image_folder(ImageFolder(str(tmp_path / "empty")))
    write(tmp_path / "odd" / "test")
    with pytest.raises(TaskError, match=r"there is .*test, but no folder train beside it"):
        image_folder(ImageFolder(str(tmp_path / "odd")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "task 'image-folder' needs --task-option path=DIR"),
        ({"path": 1.5}, "task option path = 1.5: expected text"),
        ({"path": "x", "image_size": 0}, "task option image_size = 0: expected 1 to 1024 pixels"),
        ({"path": "x", "image_size": "32"}, "image_size = '32': expected"),
        ({"path": "x", "image_size": True}, "image_size = True: expected"),
        ({"path": "x", "channels": 2}, r"channels = 2: expected 3 \(RGB\) or 1 \(grey\)"),
        ({"path": "x", "channels": [3]}, r"channels = \[3\]: expected"),
        ({"path": "x", "classes": ["a"]}, "classes = .*: expected 2 different names or more"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        load_task("image-folder", 0, 2, 0, options)


def test_an_iid_division_of_one_folder(tmp_path: Path) -> None:
    write(tmp_path)
    tasks = [
        load_task("image-folder", rank, 3, 0, {"path": str(tmp_path)}, Choices(partition="iid")) for rank in range(3)
    ]
    rows = np.concatenate([part for task in tasks if task.indices for part in task.indices.values()])
    assert sorted(rows.tolist()) == list(range(60))


def test_files_that_are_left_out_are_counted_and_named(tmp_path: Path) -> None:
    write(tmp_path, 5, ("cat", "dog"))
    save(tmp_path / "cat" / "more.tiff", (1, 2, 3))
    save(tmp_path / "cat" / "deep" / "x.png", (1, 2, 3))
    save(tmp_path / "__MACOSX" / "cat" / "x.png", (1, 2, 3))
    save(tmp_path / "dog" / ".ipynb_checkpoints" / "x.png", (1, 2, 3))
    data = image_folder(ImageFolder(str(tmp_path), 8))
    assert data.names == {"classes": ("cat", "dog")}
    assert data.remarks == (
        f"10 images in {tmp_path.name}; classes: cat 5, dog 5",
        f"left out of {tmp_path.name}: 2 hidden or of __MACOSX (such as __MACOSX/cat/x.png), "
        "1 images in other places (such as cat/deep/x.png), 1 .tiff (such as cat/more.tiff)",
    )


@pytest.mark.parametrize("name", ["x.tiff", "deep/x.png", "._x.png"])
def test_a_class_whose_files_are_all_left_out_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, 5, ("cat",))
    save(tmp_path / "dog" / name, (1, 2, 3))
    for classes in (None, ("cat", "dog")):
        with pytest.raises(TaskError, match=rf"class 'dog' has no image .*left out: 1 .*dog/{name}"):
            image_folder(ImageFolder(str(tmp_path), 8, classes=classes))


def test_an_image_of_many_frames_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 5, ("cat", "dog"))
    frames = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (0, 250)]
    frames[0].save(tmp_path / "dog" / "x.webp", save_all=True, append_images=frames[1:], lossless=True)
    with pytest.raises(TaskError, match=r"dog/x.webp cannot be read: ValueError: it has 2 frames"):
        image_folder(ImageFolder(str(tmp_path), 8))
