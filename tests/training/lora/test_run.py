"""A federation that trains adapters: from the setting to the model that a stranger loads."""

import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import dpeer


@pytest.mark.slow
def test_a_run_is_saved_resumed_and_loaded_without_peft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(rounds: int, folder: str) -> dpeer.Settings:
        return dpeer.Settings(
            size=2, task="digits", algorithm="dfedmdc", optimizer="adamw", lora="alpha=8,r=4", rounds=rounds,
            local_steps=4, body_epochs=1, head_epochs=1, finish="none", alone="never", out=tmp_path / folder,
        )  # fmt: skip

    dpeer.run(settings(2, "whole"), mode="simulate")
    dpeer.run(settings(1, "parts"), mode="simulate")
    dpeer.run(settings(2, "parts"), mode="simulate", resume=True)
    one, other = (tmp_path / folder / "rank-0" / "model.safetensors" for folder in ("whole", "parts"))
    assert one.read_bytes() == other.read_bytes()
    with safe_open(one, framework="pt") as values:
        assert not any("lora" in name or "base" in name for name in values.keys())  # noqa: SIM118
    (saved,) = (tmp_path / "whole" / "rank-0" / "checkpoint").rglob("learner.safetensors")
    with safe_open(saved, framework="pt") as values:
        sizes = {name: values.get_tensor(name).numel() for name in values.keys()}  # noqa: SIM118
    assert sizes["last/body"] == 2084
    assert sum(sizes.values()) < 3 * (2084 + 1290), "frozen weights are in no checkpoint"
    for name in [name for name in sys.modules if name.partition(".")[0] == "peft"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "peft", None)  # an import of it fails
    model = dpeer.load_model(tmp_path / "whole" / "rank-0")
    assert model.card["lora"] == "r=4,alpha=8"
    assert len(model.module(torch.rand(5, 1, 8, 8)).argmax(1)) == 5
