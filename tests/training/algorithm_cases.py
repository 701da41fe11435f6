"""Every algorithm by name, some with other settings, and rounds on a complete graph."""

from collections.abc import Callable
from typing import Any

from dpeer.training import ALGORITHMS, Hyperparameters, Task, TorchLearner, build_learner, find_algorithm
from dpeer.training.algorithms.options import about_options
from dpeer.training.device import HOST, Compute
from tests.training.small import left_out, mix, small_task

SIZE = 3
ROW = dict.fromkeys(range(SIZE), 1 / SIZE)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ALGORITHMS},
    "dfedavgm compress=int8": ("dfedavgm", {"compress": "int8"}),
    "ditto compress=int4": ("ditto", {"compress": "int4"}),
    "dfedsmdc sam=both, clipped": ("dfedsmdc", {"sam": "both", "grad_clip": 0.5, "weight_decay": 0.01}),
    "dfedmdc local_steps=7": ("dfedmdc", {"local_steps": 7}),
    "fedrod grad_clip=0.5": ("fedrod", {"grad_clip": 0.5}),
    "fedrod personal=hypernetwork": ("fedrod", {"options": {"personal": "hypernetwork"}}),
    "fedadamw aggregate=full": ("fedadamw", {"options": {"aggregate": "full"}, "body_lr": 0.01}),
    **{
        f"{name} adamw": (
            name,
            {
                "optimizer": "adamw",
                "lr_schedule": "exponential+warmup:3",
                "body_lr": 1e-4,
                "head_lr": 1e-4,
                "weight_decay": 0.1,
            },
        )
        for name in ("dfedsmdc", "dis-pfl", "fedrod", "ditto")
    },
}
ROBUST = {f"dfedavgm robust={rule}": ("dfedavgm", {"robust": rule}) for rule in ("clip", "trimmed-mean:1", "median")}


def made(task: Task, algorithm: str, settings: dict[str, Any], **more: Any) -> TorchLearner:
    """A learner whose hyperparameters and options are among the settings; a decay may explode, epochs may be none."""
    h = Hyperparameters().model_copy(update={n: v for n, v in settings.items() if n in Hyperparameters.model_fields})
    named = {name: settings[name] for name in about_options(find_algorithm(algorithm)) if name in settings}
    return build_learner(task, algorithm, h, options=settings.get("options", named), **more)


def peers(
    case: str, *computes: Compute, keep: Any = "best", task: dict[str, Callable[[], Any]] | None = None, **changes: Any
) -> list[TorchLearner]:
    """The learners of a case, one for each device; on the host if none is named."""
    algorithm, settings = (CASES | ROBUST)[case]
    common = {"body_epochs": 1, "batch_size": 16, "rounds": 4, "lr_decay": 0.9}
    found = []
    for rank, compute in enumerate(computes or (HOST,) * SIZE):
        ours = small_task(rank, samples=20, **{name: value() for name, value in (task or {}).items()})
        ours.validation = ours.test
        settled = common | settings | changes
        found.append(made(ours, algorithm, settled, rank=rank, seed=0, keep=keep, compute=compute))
    return found


def rounds(learners: list[TorchLearner], count: int, start: int = 0) -> list[Any]:
    """Rounds in this thread; all that comes out of them."""
    seen: list[Any] = []
    for number in range(start, start + count):
        seen += [ours.train(number) for ours in learners]
        sent = [ours.release(number) for ours in learners]
        for rank, ours in enumerate(learners):
            if ours.about.shares:
                received = {j: sent[j] or [] for j in ROW if j != rank}
                assert [left_out(ours, j, payload) for j, payload in received.items()] == [None] * len(received)
                mix(ours, received, ROW)
            seen += [[bytes(part) for part in sent[rank] or []], ours.evaluate()]
    return seen
