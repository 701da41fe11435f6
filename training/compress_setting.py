"""The setting `--compress`; imports no torch."""

from __future__ import annotations

BUILT_IN = ("float32", "bfloat16", "float16", "int16", "int8", "int4")
"""The codecs by name."""

EXPECTED = f"{', '.join(BUILT_IN)}, or a class: FILE.py:CLASS or MODULE:CLASS"


def is_class(text: str) -> bool:
    """Whether a codec's name is that of a class of the user's own; a class's name begins with no digit."""
    _, colon, name = text.rpartition(":")
    return (bool(colon) and not name[:1].isdigit()) or text.endswith(".py")


def check_compress(text: str) -> str:
    """The name of a codec.

    Raises:
        ValueError: It is neither a built-in codec nor a class.
    """
    if text not in BUILT_IN and not is_class(text):
        raise ValueError(f"expected {EXPECTED}")
    return text
