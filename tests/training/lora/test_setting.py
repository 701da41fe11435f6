"""Parsing of `--lora`: equal meanings give one text."""

import pytest

from dpeer.training.lora import Lora, check_lora


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("r=16,alpha=32", Lora(16, 32.0)),
        ("alpha=32, r=16", Lora(16, 32.0)),
        ("r=4", Lora(4, 4.0)),
        ("r=8,alpha=0.1,targets=value+query+value", Lora(8, 0.1, ("query", "value"))),
    ],
)
def test_one_text_for_one_meaning(text: str, means: Lora) -> None:
    assert Lora.parse(text) == means
    assert Lora.parse(str(means)) == means
    assert check_lora(text) == str(means)


@pytest.mark.parametrize("text", ["16", "r=4,r=4", "r=0", "r=²", "alpha=32", "r=4,targets=a++b", "r=4,alpha=x"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected r=R\[,alpha=A\]"):
        check_lora(text)
