"""Every file in examples/papers is run with small flags, on made-up data in the formats of its data sets."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dpeer.experiments import comparison
from dpeer.experiments.cells import Condition
from dpeer.experiments.experiment import Experiment, load
from dpeer.experiments.launchers import find_launcher
from tests.experiments.conftest import silent
from tests.training.dataset_files import WRITERS, pixels

pytestmark = [pytest.mark.slow, pytest.mark.long]

PAPERS = Path(__file__).parents[2] / "examples" / "papers"
FILES = {path.relative_to(PAPERS).with_suffix("").as_posix(): path for path in sorted(PAPERS.rglob("*.toml"))}


def tiny_imagenet(folder: Path) -> None:
    """25 classes of the 200."""
    inner = folder / "tiny-imagenet-200"
    names = [f"n{number:08d}" for number in range(25)]
    (inner / "val" / "images").mkdir(parents=True)
    (inner / "wnids.txt").write_text("\n".join(names))
    images = iter(pixels(25 * 24, 64, 64, 3))
    lines = []
    for name in names:
        (inner / "train" / name / "images").mkdir(parents=True)
        for number in range(16):
            Image.fromarray(next(images)).save(inner / "train" / name / "images" / f"{name}_{number}.JPEG")
        for number in range(8):
            lines.append(f"{name}_{number}.JPEG\t{name}\t0\t0\t62\t62\n")
            Image.fromarray(next(images)).save(inner / "val" / "images" / f"{name}_{number}.JPEG")
    (inner / "val" / "val_annotations.txt").write_text("".join(lines))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder with a task's data, which is made once."""
    made: dict[str, Path] = {}

    def folder(task: str) -> Path:
        if task not in made:
            made[task] = tmp_path_factory.mktemp(task)
            (tiny_imagenet if task == "tiny-imagenet" else WRITERS[task])(made[task])
        return made[task]

    return folder


TRANSFORMERS = {
    "roberta": ("roberta-tiny", {"layers": 1, "width": 12}, "query+value+classifier.dense+classifier.out_proj"),
    "vit": ("vit-tiny", {"image": 64, "patch": 16, "layers": 1, "width": 12, "heads": 3}, "q_proj+v_proj+head"),
}
"""By kind, the small one with its options and the layers that have adapters."""


def small(name: str, content: dict[str, Any], data: Path) -> dict[str, Any]:
    """The flags with which a file takes seconds."""
    task, rows = content["task"], content["compare"]["algorithms"]
    listed = {key for one in content["compare"].get("conditions", []) for key in one}
    train, test = (250, 60) if task == "cifar100" else (120, 40)
    options = {"data": str(data), **({} if task == "femnist" else {"train_samples": train, "test_samples": test})}
    flags: dict[str, Any] = {"rounds": 1, "batch_size": 128, "size": 4, "model": "cnn"}
    if content.get("topology", "").startswith("random-regular"):
        flags["topology"] = "random-regular:2"
    if "participation" in content:
        flags["participation"] = 0.5  # a tenth of so few would be none
    if "local_steps" in content:  # each peer looks at a dozen records before its first step, and that takes longest
        flags |= {"size": 2, "local_steps": 1, "records": 500}
    elif not any("body_epochs" in row for row in rows):
        flags["body_epochs"] = 1
    if "lora" in content and (kind := "roberta" if task == "glue" else "vit" if "resnet" not in name else None):
        flags["model"], flags["model_options"], layers = TRANSFORMERS[kind]
        flags["lora"] = f"r=4,alpha=8,targets={layers}"
        if task == "glue":
            options["length"] = 64
    elif "lora" in content:
        flags["lora"] = "r=4,alpha=8"
    return {key: value for key, value in flags.items() if key not in listed} | {"task_options": options}


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("run_cells_here")
@pytest.mark.parametrize("name", FILES)
def test_it_runs_small(name, data, tmp_path):
    content = tomllib.loads(FILES[name].read_text())
    if "lora" in content:  # and the models of transformers that have them
        pytest.importorskip("peft")
        pytest.importorskip("transformers")
    rows = content["compare"]["algorithms"]
    whole = load(FILES[name], small(name, content, data(content["task"])), {"algorithms": rows, "seeds": "0"})
    if any("size" in one.values for one in whole.conditions):  # up to 500 peers
        few = [Condition({**one.values, "size": 4}) for one in whole.conditions[:1]]
        whole = dataclasses.replace(whole, conditions=few)

    def compare(found: Experiment) -> comparison.Compared:
        return comparison.Comparison(found, tmp_path, find_launcher("local", 1, tmp_path), silent).run()

    # All tables with the last row; then all rows in the first table.
    compare(dataclasses.replace(whole, variants=whole.variants[-1:], reference=rows[-1], baseline=None))
    made = {*tmp_path.glob("*/summary.json")}
    assert len(made) == len(whole.conditions)
    (table,) = compare(dataclasses.replace(whole, conditions=whole.conditions[:1])).figures["tables"]
    assert [*table["rows"]] == rows
    assert all(row["accuracy"]["mean"] is not None for row in table["rows"].values())
    assert len({*tmp_path.glob("*/summary.json")} - made) == len(rows) - 1
