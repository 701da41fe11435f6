"""Error messages of training/models/, training/lora/ and training/initial.py."""

import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import save_file
from torch import nn

from dpeer.exceptions import ConfigurationError, TaskError, UnknownName
from dpeer.plugins import reference
from dpeer.training import Choices, load_task
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.text import BYTES, read_tokens
from dpeer.training.initial import begin_from
from dpeer.training.lora import check_lora
from dpeer.training.lora.adapting import adapted
from dpeer.training.models import build_model, last_linear
from dpeer.training.tasks.pooled import pooled_task
from tests.messages.message import Message, file
from tests.training.lora.conftest import task_of, words


def model(name: str, shape: tuple[int, ...], text: str, error: type[Exception] = TaskError, **options: Any) -> Message:
    return Message(lambda folder: build_model(name, shape, 10, options), error, text)


def option(text: str, name: str = "vit-tiny", error: type[Exception] = TaskError, **options: Any) -> Message:
    return model(name, (1, 8, 8), f"--model-option {text}", error, **options)


def data_of_texts() -> Data:
    numbers = torch.randint(3, 259, (40, 12), generator=torch.Generator().manual_seed(0))
    return Data(Pool(numbers.int(), torch.arange(40) % 2), None, 2, tokens=BYTES)


def pooled(text: str, data: Data | None = None, *, default: str = "roberta-tiny", **choices: Any) -> Message:
    made = Choices(partition="own", **choices)
    return Message(lambda folder: pooled_task(data or data_of_texts(), 0, 1, 0, made, model=default), TaskError, text)


def without_library(folder: Path) -> Any:
    with mock.patch.dict(sys.modules, {"dpeer.training.models.library": None}):
        return build_model("vit-tiny", (1, 8, 8), 2)


def lora(text: str, expected: str) -> Message:
    """A task's model gets adapters."""
    cause = lambda folder: load_task(reference(words), 0, 2, 0, {}, Choices(lora=text))  # noqa: E731
    return Message(cause, TaskError, f"--lora {check_lora(text)}: {expected}")


def adapters(net: nn.Module, head: str, expected: str) -> Message:
    cause = lambda folder: adapted(task_of(net, torch.randn(9, 4), (head,)), "r=2", 0)  # noqa: E731
    return Message(cause, TaskError, f"--lora r=2: {expected}")


def tied() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))
    net[2].weight = net[0].weight
    return net


class Net(nn.Module):
    """A body with a frozen part, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fixed, self.head = nn.Linear(5, 4), nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 3)


def weights(text: str, **values: torch.Tensor) -> Message:
    """A model begins from a file of these tensors, whose names have a point for each underscore."""

    def cause(folder: Path) -> Any:
        save_file({name.replace("_", "."): value for name, value in values.items()}, folder / "w.safetensors")
        return begin_from(Net(), ("head",), folder / "w.safetensors")

    return Message(cause, TaskError, f"--init-from {{folder}}/w.safetensors: {text}")


def no_weights(name: str, content: bytes | None, text: str) -> Message:
    def cause(folder: Path) -> Any:
        if content is not None:
            (folder / name).write_bytes(content)
        return begin_from(Net(), ("head",), folder / name)

    return Message(cause, ConfigurationError, f"--init-from {{folder}}{'/' * bool(name)}{name}: {text}")


PIXELS = (
    "--model {} takes images (channels, height, width) of at least {} x {} pixels, the task's inputs have shape {}; …"
)
ADAPTABLE = "layers that can be adapted: tokens, query, key, value, out"
LORA = "expected r=R[,alpha=A][,targets=NAME+NAME...], for example r=16,alpha=32 or r=8,targets=query+value"
TORCH = "it is a file of torch.save, which may run code when it is read: convert it where you trust it, with …"
DAMAGED = "it is damaged, or no safetensors file (…); expected one, such as model.safetensors"
OTHER = "the file is of a model with other options (--model-option), or of another one"
VIT = "layers, width, heads, hidden, patch, image, dropout"

MESSAGES = {
    "images for a series": model("cnn", (9, 128), PIXELS.format("cnn", 8, 8, "(9, 128)")),
    "a narrow image": model("resnet18-gn", (3, 32, 7), PIXELS.format("resnet18-gn", 8, 8, "(3, 32, 7)")),
    "a short series": model("cnn1d", (3, 7),
        "--model cnn1d takes series (channels, length) of at least 8 steps, the task's inputs have shape (3, 7); try "
        "mlp, small-body"),
    "images for texts": model("roberta", (1, 8, 8),
        "--model roberta takes texts as token numbers (length,), the task's inputs have shape (1, 8, 8); …"),
    "tokens for numbers": Message(lambda folder: build_model("mlp", (16,), 2, tokens=True), TaskError,
        "--model mlp takes numbers, in any shape, the task's token numbers of shape (16,); try roberta, roberta-tiny, "
        "bert"),
    "a nearby model": model("resnet18gn", (3, 32, 32),
        "unknown model 'resnet18gn': did you mean 'resnet18-gn'? valid: bert, cnn, …", UnknownName),
    "a nearby option": model("mlp", (3,),
        "unknown option of mlp 'wdth' in --model-option: did you mean 'width'? valid: width", UnknownName, wdth=8),
    "an option of none": model("digits", (1, 8, 8), "unknown option of digits 'width' in --model-option: valid: (none)",
        UnknownName, width=8),
    "no width": option("width=0: input should be greater than or equal to 1 (--model mlp)", "mlp", width=0),
    "a width in words": option("width=8: input should be a valid integer (--model mlp)", "mlp", width="8"),
    "half a width": option("width=8.5: input should be a valid integer (--model mlp)", "mlp", width=8.5),
    "a width that is true": option("width=True: input should be a valid integer (--model mlp)", "mlp", width=True),
    "a patch that does not divide": option("patch=3: 8 x 8 pixels cannot be divided into such patches", patch=3),
    "heads that do not divide": option("heads: 5 heads cannot divide 192 features evenly", heads=5),
    "layers of another model": option("layers=[2, 2]: input should be a valid integer (--model vit-tiny)",
        layers=[2, 2]),
    "all dropped": option("dropout=1.0: input should be less than 1 (--model vit-tiny)", dropout=1.0),
    "windows of a ViT": model("vit-tiny", (1, 8, 8),
        f"unknown option of vit-tiny 'window' in --model-option: …valid: {VIT}", UnknownName, window=7),
    "stages without heads": option("layers=[2, 2], heads=[3, 6, 12, 24]: expected as many numbers, one for each stage",
        "swin-tiny", layers=[2, 2]),
    "heads that do not divide a stage": option("heads: 25 heads cannot divide 768 features evenly", "swin-tiny",
        heads=[3, 6, 12, 25]),
    "too many stages":
        option("layers=[2, 2, 6, 2]: 4 stages halve 4 x 4 patches too often: give fewer stages (layers and heads), a "
        "smaller patch, or image= to enlarge the images first",
        "swin-tiny", patch=2),
    "no stages": option("layers=[], heads=[]: expected as many numbers, one for each stage", "swin-tiny", layers=[],
        heads=[]),
    "no library": Message(without_library, ConfigurationError,
        "--model vit-tiny needs transformers: pip install 'dpeer[transformers]'"),
    "no linear layer": Message(lambda folder: last_linear(nn.Conv2d(3, 8, 3)), TaskError,
        "the model has no linear layer that could be the head: name the head with --head"),
    "a small vocabulary":
        pooled("--model-option vocabulary=99: the tokenizer (bytes) has 259 tokens: give as many or more, or leave it "
        "out",
        model_options={"vocabulary": 99}),
    "another padding": pooled("--model-option padding=0: it follows from the tokenizer; leave it out",
        model_options={"padding": 0}),
    "heads that do not divide a text model":
        pooled("--model-option heads=5 width=64: the width must be a multiple of the heads",
        model_options={"heads": 5}),
    "too few positions": pooled("--model-option positions=12: texts of this length need 14, or leave it out",
        model_options={"positions": 12}),
    "scaled tokens": pooled("--standardize scales numbers, and the task's inputs are token numbers: leave it out",
        standardize=True),
    "cropped series":
        pooled("--augment crops and flips images (channels, height, width), the task's inputs have shape (9, 128): "
        "leave it out",
        Data(Pool(torch.randn(40, 9, 128), torch.arange(40) % 2), None, 2), default="mlp", augment=True),
    "no tokenizer": Message(lambda folder: read_tokens("glue", "t.json"), TaskError,
        "task 'glue': tokenizer = 't.json' does not exist; expected a tokenizer.json"),
    "no json of a tokenizer": Message(file("t.json", '{"version": "1.0"}', lambda path: read_tokens("glue", str(path))),
        TaskError,
        "task 'glue': tokenizer = '{folder}/t.json' is no tokenizer.json, as the library tokenizers writes it: …"),
    **{
        f"--lora {text}": Message(lambda folder, text=text: check_lora(text), ValueError, LORA)
        for text in ("16", "r=0", "r=1.5", "r=²", "alpha=32", "r=4,r=4", "r=4,alpha=0", "r=4,alpha=inf", "r=4,alpha=x",
                     "r=4,targets=", "r=4,targets=a++b", "r=4,rank=3", "r=4,")
    },
    "a nearby target": lora("r=2,targets=qeury",
        f"the target 'qeury' is no layer of the model: did you mean 'query'? {ADAPTABLE}"),
    "a target in the head": lora("r=2,targets=head",
        "the target 'head' is in the head, which is trained as it is, or is used by torch.nn.MultiheadAttention "
        f"uncalled; {ADAPTABLE}"),
    "a norm for a target": lora("r=2,targets=norm",
        "the target 'norm' is a LayerNorm, and adapters are for linear layers, convolutions and embeddings; "
        f"{ADAPTABLE}"),
    "a model that is all head": adapters(nn.Sequential(nn.Linear(4, 3)), "0",
        "outside of its head the model has no linear layer or convolution that could be adapted: leave --lora out, or "
        "name a smaller head with --head"),
    "a tied weight": adapters(tied(), "3",
        "the weight of '0' is tied ('0.weight' and '2.weight' are one), so it cannot be adapted alone: name other "
        "layers with targets="),
    "another width": weights(f"'body.weight' has shape (9, 5), the model's 'body.weight' (4, 5): {OTHER}",
        body_weight=torch.ones(9, 5)),
    "a nearby name":
        weights("nothing in it fits the model's body: the file has bodi.weight; the model has body.weight, body.bias, "
        "fixed.weight and 1 more; nearest to 'body.weight' is 'bodi.weight'",
        bodi_weight=torch.ones(4, 5)),
    "a head alone":
        weights("nothing in it fits the model's body: the file has head.bias; the model has body.weight, body.bias, …",
        head_bias=torch.ones(3)),
    "no tensors": weights("nothing in it fits the model's body: the file has nothing; the model has …"),
    "whole numbers for weights": weights("'fixed.bias' is of type int8, the model's of float32",
        fixed_bias=torch.ones(4, dtype=torch.int8)),
    "weights that are not finite": weights("'fixed.bias' has values that are not finite", body_bias=torch.ones(4),
        fixed_bias=torch.tensor([1, 2, 3, float("nan")])),
    "a zip of torch": no_weights("w.bin", b"PK\x03\x04", TORCH),
    "an old file of torch": no_weights("w.pt", b"\x80\x02\x8a", TORCH),
    "an empty file": no_weights("w.safetensors", b"", DAMAGED),
    "words for weights": no_weights("w.safetensors", b"weights, to be written later\n", DAMAGED),
    "no file": no_weights("w.safetensors", None, "No such file or directory"),
    "a folder": no_weights("", None, "it is a folder; name the .safetensors file in it"),
}  # fmt: skip
