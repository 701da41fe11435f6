"""A second device for machines that have none: everything is computed on the CPU, but tensors that were put "there"
are told from those on the host, and mixing both fails as it does with a GPU."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import dpeer.training

THERE = torch.device("cuda", 0)
HERE = torch.device("cpu")

_OURS = {str(Path(dpeer.training.__file__).parent), str(Path(dpeer.training.__file__).resolve().parent)}
_ON_THE_HOST = ("/models/", "/tasks/")
_FACTORIES = {
    torch.zeros, torch.ones, torch.empty, torch.full, torch.arange, torch.tensor, torch.as_tensor, torch.rand,
    torch.randn, torch.randperm, torch.linspace, torch.eye,
}  # fmt: skip
_INDEXING = ("aten.index.", "aten.index_put_.", "aten._index_put_impl_.")


class _Places:
    """Which storages are there; they are kept alive, so that no other gets their address."""

    def __init__(self) -> None:
        self._there: dict[int, Any] = {}

    def of(self, tensor: Tensor) -> torch.device:
        return THERE if tensor.untyped_storage()._cdata in self._there else HERE

    def put(self, tensor: Tensor, device: torch.device) -> Tensor:
        storage = tensor.untyped_storage()
        if device == THERE:
            self._there[storage._cdata] = storage
        else:
            self._there.pop(storage._cdata, None)
        return tensor


class _Calls(TorchFunctionMode):
    """What Python code asks about and does with devices."""

    def __init__(self, places: _Places) -> None:
        super().__init__()
        self.places = places

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.Tensor.to, torch.Tensor.cpu):
            return self._moved(func, *args, **kwargs)
        if func == torch.Tensor.device.__get__:
            return self.places.of(args[0])
        if func == torch.Tensor.is_cpu.__get__:
            return self.places.of(args[0]) == HERE
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and self.places.of(args[0]) == THERE:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if func in _FACTORIES:
            assert "device" in kwargs or not _called_by_dpeer(), f"{func.__name__} without a device"
        if "device" in kwargs:
            device = torch.device(kwargs.pop("device") or HERE)
            return self.places.put(func(*args, **kwargs), device)
        return func(*args, **kwargs)

    def _moved(self, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        device = HERE if func == torch.Tensor.cpu else None
        rest = []
        for arg in (*args, kwargs.pop("device", None)):
            if isinstance(arg, torch.device | str):
                device = torch.device(arg)
            elif isinstance(arg, Tensor):
                device = self.places.of(arg)
            elif isinstance(arg, torch.dtype):
                rest.append(arg)
        device = device or self.places.of(tensor)
        kwargs = {key: value for key, value in kwargs.items() if key in ("copy", "memory_format")}
        if device != self.places.of(tensor):
            kwargs["copy"] = True
        found = torch.Tensor.to(tensor, *(rest or [tensor.dtype]), **kwargs)  # type: ignore[call-overload]
        return self.places.put(found, device)


def _called_by_dpeer() -> bool:
    frame = sys._getframe(2)
    while frame is not None and "/torch/" in frame.f_code.co_filename:
        frame = frame.f_back
    file = frame.f_code.co_filename
    # Models, and metrics, are made on the host.
    return any(file.startswith(folder) for folder in _OURS) and not any(part in file for part in _ON_THE_HOST)


class _Operations(TorchDispatchMode):
    """Refuses what mixes places, and puts what is computed there, there."""

    def __init__(self, places: _Places) -> None:
        super().__init__()
        self.places = places

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if str(func).startswith(_INDEXING):
            index = [tensor for tensor in args[1] if tensor is not None]
            rest = [args[0], *(value for value in args[2:3] if isinstance(value, Tensor))]
            # An index may be on the host, whatever it is for.
            self._check(func, rest + [tensor for tensor in index if self.places.of(tensor) == THERE])
            place = self.places.of(args[0])
        elif func is torch.ops.aten.copy_.default:
            place = self.places.of(args[0])
        else:
            place = self._check(func, given)
        found = func(*args, **kwargs)
        known = {tensor.untyped_storage()._cdata for tensor in given}
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor) and leaf.untyped_storage()._cdata not in known:
                self.places.put(leaf, place)
        return found

    def _check(self, func: Any, tensors: list[Tensor]) -> torch.device:
        """Where they all are; numbers may come from the host."""
        places = {self.places.of(tensor) for tensor in tensors if tensor.ndim} or {self.places.of(t) for t in tensors}
        if len(places) > 1:
            raise RuntimeError(f"{func}: Expected all tensors to be on the same device, but found {places}")
        return next(iter(places), HERE)


class Elsewhere:
    """The second device, of this thread alone.

    Attributes:
        device: It.
        of: Says where a tensor is.
    """

    device = THERE

    def __init__(self) -> None:
        self._places = _Places()
        self.of = self._places.of
        self._modes = ExitStack()

    def __enter__(self) -> "Elsewhere":
        self._modes.enter_context(_Calls(self._places))
        self._modes.enter_context(_Operations(self._places))
        return self

    def __exit__(self, *_: object) -> None:
        self._modes.close()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.get_rng_state())
    with Elsewhere() as found:
        yield found
