"""The start looks at models away from factors that begin at zero, which would hide what is behind them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import Trainer
from dpeer.training.dpsgd import supported_layers
from dpeer.training.dpsgd.choosing import WAYS
from dpeer.training.dpsgd.gradient import TOGETHER, PrivateGradient
from dpeer.training.dpsgd.layers import by_layers
from dpeer.training.dpsgd.stirred import stirred

N, PLACES = 6, 48


class Positions(nn.Module):
    """Adds embeddings of positions, the same for all examples, in front of a layer that begins at zero.

    There are several times as many positions as examples, so the rows of these look like rows of examples.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places, self.out = nn.Embedding(PLACES, 4), nn.Linear(4, 3)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out((x + self.places(torch.arange(PLACES))).tanh().mean(1))
        return out


def test_what_a_zero_hides_is_seen(make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supported_layers, "_SOURCES", (__name__,))
    torch.manual_seed(0)
    x, y = torch.randn(N, PLACES, 4), torch.arange(N) % 3
    peer = make_trainer(Positions(), x, y)
    with peer.training(peer.model):
        found = by_layers(peer, peer.model, x, y, N).sums(torch.eye(N))
        assert not found[:, : PLACES * 4].any(), "behind the zero all ways agree, this wrong one too"
    rule = PrivateGradient(ClippedSum(1.0, 1.0, 0.5, 2 * TOGETHER))
    before = peer.model.data.clone()
    rule.start(peer, peer.model)
    assert rule._ways["model"] is WAYS["vectorized"]
    assert torch.equal(peer.model.data, before)
    assert all(p.data_ptr() == peer.model.data[place].data_ptr() for _, p, place in peer.model.layout)


def test_only_what_is_zero_throughout_is_changed_and_always_alike(make_trainer: Callable[..., Trainer]) -> None:
    torch.manual_seed(0)
    peer = make_trainer(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)), torch.randn(N, 4), torch.arange(N) % 3)
    with torch.no_grad():
        for name in ("0.bias", "1.weight"):
            peer.module.get_parameter(name).zero_()
        peer.module.get_parameter("1.bias")[1:] = 0
    before, state = peer.model.data.clone(), torch.get_rng_state()
    found = []
    for _ in range(2):
        with stirred(peer):
            found.append(peer.model.data.clone())
    assert torch.equal(peer.model.data, before)
    assert torch.equal(*found)
    assert torch.equal(torch.get_rng_state(), state)
    changed = {name for name, _, place in peer.model.layout if not torch.equal(found[0][place], before[place])}
    assert changed == {"0.bias", "1.weight"}
    assert 0.2 < found[0][peer.model.layout[2][2]].abs().max() <= 5**-0.5
