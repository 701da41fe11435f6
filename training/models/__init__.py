"""The built-in models, by the name that ``--model`` takes; each is imported when it is first used, torch as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from dpeer import plugins
from dpeer.exceptions import TaskError, UnknownName
from dpeer.optional_libraries import check_libraries
from dpeer.training.keyword_options import defaults, validated

if TYPE_CHECKING:
    from torch import nn

    from dpeer.training.data.text import Tokens

Takes = Literal["images", "series", "text", "anything"]
"""What one input is: an image (channels, height, width), a series (channels, length), token numbers (length,), which
are whole numbers, or numbers in any shape."""

_DIMENSIONS: Mapping[Takes, int] = {"images": 3, "series": 2, "text": 1}
_PLUGIN = plugins.Kind("model", "class", "CLASS", TaskError, lambda thing: hasattr(thing, "forward"))


@dataclass(frozen=True)
class Model:
    """A built-in model.

    Attributes:
        name: What ``--model`` calls it.
        where: ``module:maker``; the class or function makes it from (shape, outputs), and takes the model's options
            as keyword arguments. Empty for a user's own, whose name says where.
        takes: What one input is.
        least: The smallest height and width, or length, that it takes.
        defaults: Values of options that differ from those of the function, which several models may have in common.
    """

    name: str
    where: str
    takes: Takes
    least: int = 1
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether it is a user's own."""
        return not self.where

    @property
    def module(self) -> str:
        """The module that makes a built-in one."""
        return f"dpeer.training.models.{self.where.partition(':')[0]}"

    @property
    def library(self) -> str:
        """The library that it needs, by which its group of optional dependencies is called; empty without one."""
        return "transformers" if self.where.startswith("transformers:") else ""

    def maker(self) -> Callable[..., nn.Module]:
        """Import what makes it; a file is imported once in a process.

        Raises:
            TaskError: A user's own cannot be imported.
            ConfigurationError: The library that it needs is not installed.
        """
        if self.own:
            with plugins.load(_PLUGIN, self.name) as found:
                if callable(found):
                    return found  # type: ignore[no-any-return]
                raise TaskError(
                    f"model {self.name!r} is a {type(found).__name__}; it must be a class of torch.nn.Module"
                )
        if self.library:
            check_libraries(f"--model {self.name}", self.library, **{self.module: self.library})
        make: Callable[..., nn.Module] = getattr(import_module(self.module), self.where.partition(":")[2])
        return make

    def options(self) -> dict[str, Any]:
        """The default value of each of its options, by name."""
        return defaults(self.maker()) | dict(self.defaults)


def _transformer(name: str, maker: str, takes: Takes, least: int = 1, **defaults: Any) -> Model:
    return Model(name, f"transformers:{maker}", takes, least, defaults)


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("cnn", "networks:CNN", "images", 8),
        Model("digits", "networks:DigitsNet", "images", 5),
        Model("resnet18-gn", "networks:ResNet18", "images", 8),
        Model("dp-cnn", "networks:DPCNN", "images", 22),
        Model("emnist-cnn", "networks:EmnistCNN", "images", 6),
        Model("fedavg-cnn", "networks:FedAvgCNN", "images", 4),
        Model("cnn1d", "networks:CNN1d", "series", 8),
        Model("mlp", "networks:MLP", "anything"),
        Model("small-body", "networks:SmallBody", "anything"),
        _transformer("vit-tiny", "vit", "images"),
        _transformer("vit-base", "vit", "images", layers=12, width=768, heads=12),
        _transformer("swin-tiny", "swin", "images", 8),
        _transformer("swin-base", "swin", "images", 8, layers=[2, 2, 18, 2], width=128, heads=[4, 8, 16, 32]),
        _transformer("roberta", "roberta", "text"),
        _transformer("roberta-tiny", "roberta", "text", layers=2, width=64, heads=4),
        _transformer("bert", "bert", "text"),
    )
}
"""Every built-in model by its name."""


def build_model(
    name: str, shape: tuple[int, ...], outputs: int, options: Mapping[str, Any] | None = None, *, tokens: bool = False
) -> nn.Module:
    """Make a model with fresh weights from torch's global generator.

    Args:
        name: One of `MODELS`, or a user's own.
        shape: One input's shape.
        outputs: How many numbers it gives a sample: the classes, or 1.
        options: Those that differ from the model's defaults.
        tokens: Whether inputs are token numbers, shape (length,), which models for text take and no others.

    Raises:
        UnknownName: The model does not exist, or has no option of that name.
        TaskError: It does not take such inputs, or an option cannot have that value.
        ConfigurationError: A library that it needs is not installed.
    """
    from torch import nn

    from dpeer.training.errors import blame

    model = find_model(name)
    if not _fits(model, shape, tokens):
        fitting = ", ".join(other.name for other in MODELS.values() if _fits(other, shape, tokens))
        what = "token numbers of" if tokens else "inputs have"
        wanted = _WANTED[model.takes].format(model.least)
        raise TaskError(f"--model {name} takes {wanted}, the task's {what} shape {shape}; try {fitting}")
    make, chosen = model.maker(), model_options(name, options or {})
    with blame(f"model {name!r} failed", lambda: f"it is called with {shape}, an input's shape, and {outputs} outputs"):
        made = make(shape, outputs, **chosen)
    if not isinstance(made, nn.Module):
        raise TaskError(f"model {name!r} gave a {type(made).__name__}; it must give a torch.nn.Module")
    return made


def find_model(name: str) -> Model:
    """The built-in model of a name, or a user's own: ``path/to/file.py:CLASS`` or ``package.module:CLASS``.

    Raises:
        UnknownName: It does not exist.
    """
    if name in MODELS:
        return MODELS[name]
    if ":" in name or name.endswith(".py"):
        return Model(name, "", "anything")
    raise UnknownName("model", name, [*sorted(MODELS), "FILE.py:CLASS"])


def model_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all options of a model, by name: those that were given, and its defaults.

    Raises:
        UnknownName, TaskError, ConfigurationError: As in `build_model`.
    """
    model = find_model(name)
    known = model.options()
    for option in given:
        if option not in known:
            raise UnknownName(f"option of {name}", option, known or ["(none)"], "--model-option")
    return known | validated(
        model.maker(),
        given,
        lambda option, wrong: TaskError(f"--model-option {option}={given[option]}: {wrong} (--model {name})"),
    )


def _fits(model: Model, shape: tuple[int, ...], tokens: bool) -> bool:
    if model.own:
        return True
    if tokens != (model.takes == "text"):
        return False
    return len(shape) == _DIMENSIONS.get(model.takes, len(shape)) and all(
        size >= model.least for size in shape[0 if tokens else 1 :]
    )


_WANTED: Mapping[Takes, str] = {
    "images": "images (channels, height, width) of at least {0} x {0} pixels",
    "series": "series (channels, length) of at least {0} steps",
    "text": "texts as token numbers (length,)",
    "anything": "numbers, in any shape",
}


def drops(model: nn.Module) -> bool:
    """Whether a model draws random numbers in training, by layers of dropout; nothing else of built-in ones draws."""
    from torch import nn

    return any(isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0 for layer in model.modules())


def last_linear(model: nn.Module) -> str:
    """The name of the last linear layer, which is the head by default; a TaskError without such a layer."""
    if name := last_layer(model):
        return name
    raise TaskError("the model has no linear layer that could be the head: name the head with --head")


def last_layer(model: nn.Module) -> str:
    """The name of the last linear layer; an empty one without such a layer."""
    from torch import nn

    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return str(names[-1]) if names else ""


def with_tokens(model: str, tokens: Tokens | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model that the user has chosen, with those that follow from the tokenizer of its inputs.

    A chosen vocabulary may be larger than the tokenizer's, as it is of some pretrained weights.

    Raises:
        TaskError: Something was chosen that does not suit the tokenizer.
    """
    found = find_model(model)
    if tokens is None or not (found.own or found.takes == "text"):
        return dict(given)
    if chosen := next((name for name in ("padding", "separator") if name in given), None):
        raise TaskError(f"--model-option {chosen}={given[chosen]}: it follows from the tokenizer; leave it out")
    least = given.get("vocabulary", tokens.vocabulary)
    if isinstance(least, int) and least < tokens.vocabulary:
        raise TaskError(
            f"--model-option vocabulary={least}: the tokenizer ({tokens.label}) has {tokens.vocabulary} tokens: give "
            "as many or more, or leave it out"
        )
    follows = {"vocabulary": tokens.vocabulary, "padding": tokens.padding, "separator": tokens.separator}
    takes = found.options()
    return {name: value for name, value in follows.items() if name in takes} | dict(given)
