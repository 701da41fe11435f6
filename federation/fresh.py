"""The option `--fresh-neighbors K`, which stands for the topology of that name."""

from __future__ import annotations

from dpeer.exceptions import ConfigurationError

_PREFIX = "directed:"
_SAME = ("fresh-neighbors", "random-regular")
_DIRECTED = ("fresh-directed",)


def fresh_topology(text: str, asked: str | None) -> tuple[str, int]:
    """The topology that K or directed:K stands for, and its K.

    Args:
        text: The option's value.
        asked: The topology that was asked for beside it, if one was.

    Raises:
        ConfigurationError: The value is something else, or another topology was asked for.
    """
    directed = text.startswith(_PREFIX)
    number = text.removeprefix(_PREFIX)
    if not (number.isascii() and number.isdigit()):
        raise ConfigurationError(f"--fresh-neighbors {text!r}: write K or directed:K, for example 4")
    fitting = _DIRECTED if directed else _SAME
    if asked is not None and asked not in (*fitting, *_DIRECTED):
        raise ConfigurationError(
            f"fresh neighbors {text} make their own graphs, and topology {asked} is another: leave one of them out"
        )
    return (asked if asked in _DIRECTED else fitting[0]), int(number)
