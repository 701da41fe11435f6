"""Error messages of the tasks csv and image-folder: options, paths of the ranks, and images."""

from pathlib import Path
from typing import Any

from dpeer.exceptions import PartitionError, TaskError, UnknownName
from dpeer.training import Choices, forget, load_task
from dpeer.training.data.image_folder import ImageFolder, image_folder
from dpeer.training.tasks.options import check_own_data
from tests.messages.message import Message
from tests.training.dataset_files import save


def option(text: str, error: type[Exception] = TaskError, *, name: str = "csv", **options: Any) -> Message:
    return Message(lambda folder: load_task(name, 0, 2, 0, options), error, text)


def csv_option(name: str, value: Any, expected: str) -> Message:
    options = {"path": "x.csv", "target": "y", name: value}
    return option(f"task 'csv': task option {name} = {value!r}: expected {expected}", **options)


def image_option(name: str, value: Any, expected: str) -> Message:
    text = f"task 'image-folder': task option {name} = {value!r}: expected {expected}"
    return option(text, **{"name": "image-folder", "path": "x", name: value})


def patients(text: str, choices: Choices, *, groups: int = 2, error: type[Exception] = PartitionError) -> Message:
    """A table is divided whose rows are of so many patients."""

    def cause(folder: Path) -> Any:
        forget()
        lines = [f"{n},p{n % (groups or 1)},{'ill' if n % 2 else 'well'}" for n in range(60)]
        (folder / "x.csv").write_text("\n".join(["a,who,y", *lines]))
        options = {"path": str(folder / "x.csv"), "target": "y", "classes": "ill,well"}
        return load_task("csv", 0, 2, 0, options | ({"group": "who"} if groups else {"ignore": "who"}), choices)

    return Message(cause, error, text)


def own(text: str, *peers: tuple[str, dict[str, Any]], partition: str | None = None) -> Message:
    return Message(lambda folder: check_own_data(peers, partition), TaskError, text)


def images(text: str, *names: str, error: type[Exception] = TaskError, **asked: Any) -> Message:
    """A folder is read that has an image at each of these places."""

    def cause(folder: Path) -> Any:
        for name in names:
            if name.endswith("/"):
                (folder / name).mkdir(parents=True)
            else:
                save(folder / name, (1, 2, 3))
        return image_folder(ImageFolder(str(folder), 8, **asked))

    return Message(cause, error, text)


def damaged_image(content: bytes, why: str) -> Message:
    def cause(folder: Path) -> Any:
        for name in ("a/0.png", "b/0.png"):
            save(folder / name, (1, 2, 3))
        (folder / "b/0.png").write_bytes(content)
        return image_folder(ImageFolder(str(folder), 8))

    return Message(cause, TaskError, f"task 'image-folder': the image {{folder}}/b/0.png cannot be read: {why}")


def labels(content: str, text: str, error: type[Exception] = TaskError) -> Message:
    """A folder of an image is read beside which a table lies."""

    def cause(folder: Path) -> Any:
        save(folder / "x.png", (1, 2, 3))
        (folder / "labels.csv").write_text(content)
        return image_folder(ImageFolder(str(folder), 8))

    return Message(cause, error, text)


NO_IMAGE = "task 'image-folder': class {!r} has no image (.png, .jpg, .jpeg, .webp, .bmp) directly in {{folder}}/{}; {}"
SAME = "--task {}: every rank would hold the same {}: divide them with --partition {}"

MESSAGES = {
    "no path": option("task 'csv' needs --task-option path=FILE.csv (site-{rank}.csv: a file a peer)"),
    "no target option": option("task 'csv' needs --task-option target=COLUMN, the column to predict (or …)",
        path="x.csv"),
    "true for a path": option("task 'csv': task option path = True: expected text, such as path=FILE.csv …", path=True),
    "a list for a group": csv_option("group", [], "text, such as group=COLUMN"),
    "an unknown kind option":
        option("unknown kind of task 'csv' 'regresion': did you mean 'regression'? valid: classification, regression",
        UnknownName, path="x.csv", target="y", kind="regresion"),
    "one class option": csv_option("classes", "a", "2 different names or more, such as classes=A,B"),
    "a class option twice": csv_option("classes", ["a", "a"], "2 different names or more, such as classes=A,B"),
    "a number for classes": csv_option("classes", 3, "2 different names or more, such as classes=A,B"),
    "no columns": csv_option("columns", [], "one name or more, such as columns=A,B"),
    "a table for columns": csv_option("ignore", {"a": 1}, "different names, such as ignore=A,B"),
    "class options of a number": option("task 'csv': classes= is for kind=classification; leave it out", path="x.csv",
        target="y", kind="regression", classes="a,b"),
    "an unknown option": option("unknown task option 'taget' in task 'csv': did you mean 'target'? valid: …",
        UnknownName, path="x.csv", taget="y"),
    "no file of a rank":
        option("task 'csv': 'site-0.csv' does not exist: with path = 'site-{rank}.csv' every rank, 0 to 1, reads one "
        "of its own; this is rank 0",
        path="site-{rank}.csv", target="y"),
    "a share of ones own": Message(lambda folder:
        load_task("csv", 1, 4, 0, {"path": "s-{rank}.csv", "target": "y"}, Choices(partition="iid")), TaskError,
        "task 'csv': with path = 's-{rank}.csv' every rank reads data of its own, of which --partition iid would "
        "leave it one share in 4: leave --partition out, or give all ranks one path"),
    "one group for training":
        patients("partition 'own': rank 0 gets 30 training and 30 test samples, those for training from one group: "
        "--validation has none to hold out; give it more data",
        Choices(validation=0.5)),
    "one group":
        patients("partition 'own': rank 0 gets 60 training and 0 test samples; it needs at least 10 and 2: give it "
        "more data",
        Choices(), groups=1),
    "a division of groups":
        patients("partition 'iid' would divide one group's samples among peers: use --partition group",
        Choices(partition="iid")),
    "groups that are not known":
        patients("partition 'group': the data do not say which group a sample is from (--task csv: name the column "
        "that does with group=)",
        Choices(partition="group"), groups=0),
    "the same rows":
        own(SAME.format("csv", "rows of 'x.csv'", "iid (or dirichlet:0.3), or give each rank its own with "
        "path=site-{rank}.csv"),
        *[("csv", {"path": "x.csv", "target": "y"})] * 3),
    "the same groups":
        own(SAME.format("csv", "rows of 'x.csv'", "group, or give each rank its own with path=site-{rank}.csv"),
        *[("csv", {"path": "x.csv", "group": "who"})] * 3),
    "the same images":
        own(SAME.format("image-folder", "images of 'x'", "iid (or dirichlet:0.3), or give each rank its own with "
        "path=site-{rank}"),
        *[("image-folder", {"path": "x"})] * 3),
    "the same digits": own(SAME.format("digits", "images", "iid (or dirichlet:0.3)"), *[("digits", {})] * 3,
        partition="own"),
    "some ranks with the same rows": Message(lambda folder:
        check_own_data([("csv", {"path": path}) for path in ("a", "site-{rank}", str(folder / "site-1"))], None),
        TaskError, "--task csv: ranks 1 and 2 would hold the same rows of '{folder}/site-1': divide them with …"),
    **{
        f"shares of different pools: {name}": own(
            f"--task {name}: ranks 0 and 1 read '{{folder}}/a' and '{{folder}}/b', of each of which --partition iid "
            "would leave "
            "them a share: use --partition own, or give all ranks one path",
            (name, {key: "a"}), (name, {key: "b"}), partition="iid",
        )
        for name, key in (("csv", "path"), ("har", "data"))
    },
    **{
        f"a placeholder: {word}": Message(
            lambda folder, word=word: load_task("csv", 1, 2, 0, {"path": f"s-{word}.csv", "target": "y"}), UnknownName,
            f"unknown placeholder '{word}' in task option path = 's-{word}.csv' of task 'csv': …valid: {{rank}}",
        )
        for word in ("{rnk}", "{}", "{rank:02d}")
    },
    "an image folder elsewhere": Message(lambda folder: image_folder(ImageFolder("no")), TaskError,
        "task 'image-folder': path = 'no' is not a folder; expected one with a folder a class in it"),
    "no folders of classes":
        images("task 'image-folder': expected a folder for each of two classes or more in {folder}; it has none"),
    "one folder of a class":
        images("task 'image-folder': expected a folder for each of two classes or more in {folder}; it has cat",
        "cat/0.png"),
    "folders without images":
        images("task 'image-folder': expected images (.png, .jpg, .jpeg, .webp, .bmp) in {folder}/a; it has none", "a/",
        "b/"),
    "test without train": images("task 'image-folder': the folder {folder}/test has no folder train beside it",
        "test/a/0.png", "test/b/0.png"),
    "a class without images":
        images(NO_IMAGE.format("ant", "ant", "remove the folder, and name all classes with classes="), "cat/0.png",
        "ant/"),
    "a folder of no class": images("task 'image-folder': the folder {folder}/ant is none of the classes cat, dog",
        "cat/0.png", "ant/", classes=("cat", "dog")),
    **{
        f"a class whose files are left out: {name}": images(
            NO_IMAGE.format("dog", "dog", f"left out: 1 {kind} (such as dog/{name})"), "cat/0.png", f"dog/{name}",
            classes=classes,
        )
        for name, kind, classes in (
            ("x.tiff", ".tiff", None), ("deep/x.png", "images in other places", ("cat", "dog")),
            ("._x.png", "hidden or of __MACOSX", None),
        )
    },
    "no image": damaged_image(b"no image", "UnidentifiedImageError: …"),
    "an empty image": damaged_image(b"", "UnidentifiedImageError: …"),
    "a table without labels": labels("file,class\nx.png,cat\n",
        "unknown column 'label' in '{folder}/labels.csv', which needs file and label: valid: file, class", UnknownName),
    "a table of no image": labels("file,label\nx.png,cat\nnone.png,dog\n",
        "task 'image-folder': '{folder}/labels.csv', row 3: no image '{folder}/none.png'"),
    "a table with a gap": labels("file,label,group\nx.png,cat,a\nx.png,dog,\n",
        "'{folder}/labels.csv', row 3, column 'group' is empty: fill it or drop the row"),
    "no path of images":
        option("task 'image-folder' needs --task-option path=DIR (site-{rank}: a folder a peer), with a folder for "
        "each class",
        name="image-folder"),
    "no pixels": image_option("image_size", 0, "1 to 1024 pixels"),
    "true pixels": image_option("image_size", True, "1 to 1024 pixels"),
    "two channels": image_option("channels", 2, "3 (RGB) or 1 (grey)"),
    "one class of images": image_option("classes", ["a"], "2 different names or more, such as classes=A,B"),
}  # fmt: skip
