"""What a learner saved: the copy that is written, and reading it without torch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dpeer.training import Task, build_learner, store
from dpeer.training.state_files import REST, TENSORS, saved_body


def save(folder: Path, body: Tensor) -> None:
    folder.mkdir()
    best = store.State(body - 1, torch.ones(2), {})
    store.save(folder, {"best": best, "last": store.State(body, torch.ones(2), {"mean": torch.ones(1)})}, {"round": 3})


def test_the_body_is_the_last_states_bit_by_bit(tmp_path: Path) -> None:
    body = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    save(tmp_path / "learner", body)
    found = saved_body(tmp_path / "learner")
    assert found is not None
    assert (found.dtype, found.tobytes()) == (np.float32, body.numpy().tobytes())
    assert torch.equal(torch.from_numpy(found), store.load(tmp_path / "learner", {})[0]["last"].body)


def test_who_shares_nothing_has_no_body(tmp_path: Path) -> None:
    save(tmp_path / "learner", torch.zeros(0))
    assert saved_body(tmp_path / "learner") is None


def test_a_copy_stays_as_it_is_while_the_learner_goes_on_and_the_next_has_its_memory(
    make_task: Callable[..., Task], tmp_path: Path
) -> None:
    ours = build_learner(make_task(), "ditto", rank=0, seed=1)
    copies = []
    for number in range(2):
        ours.train(number)
        expected = tmp_path / f"expected-{number}"
        expected.mkdir()
        ours.save(expected)
        save, last = ours.copied(), ours.checkpoints.room
        assert last is not None
        ours.train(number + 1)
        found = tmp_path / f"found-{number}"
        found.mkdir()
        save(found)
        for name in (TENSORS, REST):
            assert (found / name).read_bytes() == (expected / name).read_bytes()
        assert not torch.equal(last.body, ours.body)
        copies.append({name: tensor.data_ptr() for name, tensor in last.tensors("").items()})
        ours.load(found)
    assert copies[0] == copies[1]
