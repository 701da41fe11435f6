"""Virtual time: whole peers, unmodified, in one thread, on a clock that jumps from one timer to the next.

Waiting takes no real time, so ten minutes of silence cost nothing; and since no two callbacks run at the same time, a
seed of delays and faults gives the same run every time.

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())

Code that runs there must ask the loop for the time, not `time.monotonic`.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, Protocol, TypeVar, TypeVarTuple

from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.rounds import mix_received, sit_out, train_and_release
from dpeer.peer.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Job = Callable[..., Any]

_RESOLUTION = 1e-9
"""Seconds by which a timer may be called too early, as on most machines' clocks."""

_CURRENT: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still while anything is ready, and else jumps to the next timer.

    Where no timer is set either, it really waits: for another thread or a socket. While a timer is set the loop waits
    for nothing outside of it.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._held_for: list[tuple[Future[Any], asyncio.Future[None]]] = []
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """The virtual seconds since the loop was made."""
        return self._now

    async def hold(self, job: Future[T]) -> T:
        """Have the clock stand still until a job of another thread is done; returns the job's result.

        All jobs that are held for at the same time go on together, in the order of their submission, however long each
        took: so the run does not depend on the machine.
        """
        released = self.create_future()
        self._held_for.append((job, released))
        job.add_done_callback(lambda _: self.call_soon_threadsafe(lambda: None))  # which ends the selector's waiting
        await released
        return job.result()

    def jump(self, seconds: float) -> None:
        """Have time pass."""
        self._now += seconds
        # The loop calls timers that are due by now plus this; late on the clock a smaller one is lost in rounding, and
        # the loop would turn for ever without calling anything.
        self._clock_resolution = max(_RESOLUTION, math.ulp(self._now))

    def let_go(self) -> bool:
        """Whether all jobs that are held for are done, so that all go on."""
        if not self._held_for or not all(job.done() for job, _ in self._held_for):
            return False
        held, self._held_for = self._held_for, []
        for _, released in held:
            if not released.done():
                released.set_result(None)
        return True

    @property
    def holding(self) -> bool:
        """Whether the clock stands still for a job."""
        return bool(self._held_for)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As any loop does, but a callback of a frozen process is called only after its thaw."""
        step = _step(callback, args, context)
        if step is None:
            return super().call_soon(callback, *args, context=context)
        step.handle = super().call_soon(step, context=step.context)
        return step.handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As any loop does, but a callback of a frozen process is called only after its thaw."""
        step = _step(callback, args, context)
        if step is None:
            return super().call_at(when, callback, *args, context=context)
        step.handle = timer = super().call_at(when, step, context=step.context)
        return timer


class _Jumping(selectors.DefaultSelector):
    """A selector that advances the loop's clock by its timeout instead of waiting."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The events that are ready now. Time passes only if none is; while callbacks wait no socket is looked at."""
        if timeout is not None and timeout <= 0:
            return []
        if self._loop.let_go():
            return []  # their waiters are next
        if timeout is None or self._loop.holding:
            return super().select(None)  # for a signal, too
        found = super().select(0)
        if not found:
            self._loop.jump(timeout)
        return found


class Process:
    """One peer's simulated process: its coroutines can be stopped in the middle, or take longer.

    Attributes:
        dead: Whether it was killed: it has no effect on other processes or on its files any more.
        on_thaw: Called when it may go on.
        parked: Steps that wait for that.
    """

    def __init__(self) -> None:
        self.slowness = 1.0
        self.dead = False
        self.on_thaw: list[Callable[[], None]] = []
        self._freezes = 0
        self.parked: list[_Step] = []

    @property
    def frozen(self) -> bool:
        """Whether it stands still."""
        return self._freezes > 0

    def freeze(self) -> None:
        """Stop it, as SIGSTOP does: time passes, and its callbacks wait. Freezes add up."""
        self._freezes += 1

    def thaw(self) -> None:
        """End one freeze. After the last one the callbacks that have become due are called, in order."""
        self._freezes = max(self._freezes - 1, 0)
        if not self.frozen:
            self._go_on()

    def slow(self, times: float) -> None:
        """Multiply the time of its jobs."""
        self.slowness *= times

    def kill(self) -> None:
        """Note its death. The caller cancels its coroutines; until they have ended, they have no effect."""
        self.dead = True
        self._freezes = 0
        self._go_on()

    def _go_on(self) -> None:
        parked, self.parked = self.parked, []
        for step in parked:
            asyncio.get_running_loop().call_soon(step, context=step.context)
        for call in self.on_thaw:
            call()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine, and the tasks that it starts, as a part of this process."""
        context = contextvars.copy_context()
        context.run(_CURRENT.set, self)
        return asyncio.get_running_loop().create_task(coroutine, context=context)


class _Step:
    """A callback of a process, to be called in a context.

    Attributes:
        handle: The loop's handle, by which it may still be cancelled after it was put off; None once it was called. The
            handle knows the step, too: if both kept each other, every step would wait for the garbage collector.
    """

    __slots__ = ("_args", "_callback", "_process", "context", "handle")

    def __init__(
        self, process: Process, context: contextvars.Context, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self._process, self.context, self._callback, self._args = process, context, callback, args
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self._process.frozen:
            self._process.parked.append(self)
            return
        handle, self.handle = self.handle, None
        if handle is not None and not handle.cancelled():
            self._callback(*self._args)


def _step(callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None) -> _Step | None:
    """The callback as a step of its context's process; None if it belongs to none."""
    process = _CURRENT.get() if context is None else context.get(_CURRENT)
    if process is None:
        return None
    return _Step(process, contextvars.copy_context() if context is None else context, callback, args)


class Costs(Protocol):
    """The virtual seconds of jobs."""

    def before(self, job: Job) -> float:
        """The seconds from a job's start to its effect."""

    def after(self, job: Job) -> float:
        """The seconds from its effect to its return; asked when it has had its effect."""


class VirtualWorker(Worker):
    """A `Worker` whose jobs take virtual time; more of it where their process is slow.

    Args:
        process: The process of the jobs. The jobs of a dead process have no effect.
        pool: The threads in which jobs really run, when their effect is due; those that are due at the same time run
            beside each other, while the clock stands still. So a process that is killed before has done nothing, and
            the order is the same every time. None to run each on the loop's own thread.
    """

    def __init__(self, process: Process, costs: Costs, pool: Executor | None = None) -> None:
        self._process = process
        self._costs = costs
        self._pool = pool
        self._left: dict[str, asyncio.Future[Any]] = {}

    async def run(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the job and return its result. Cancelling the wait does not undo a job that has begun."""
        return await self._take("run", job, lambda: job(*args, **kwargs))

    async def write(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run`, beside the jobs of `run`."""
        return await self._take("write", job, lambda: job(*args, **kwargs))

    async def drain(self) -> BaseException | None:
        """Wait for the jobs that a cancelled `run` or `write` left behind; returns an error of one of them."""
        if self._process.dead:  # else it would log meanwhile that all others are silent
            return None
        outcomes = await asyncio.gather(*self._left.values(), return_exceptions=True)
        return next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)

    async def _take(self, kind: str, job: Job, call: Callable[[], T]) -> T:
        if self._process.dead:
            raise asyncio.CancelledError
        before = self._costs.before(job)
        self._left.pop(kind, None)
        if self._pool is None and before <= 0:
            return await self._finish(job, call)
        running = asyncio.ensure_future(self._begin(job, before, call))
        self._left[kind] = running
        return await asyncio.shield(running)

    async def _begin(self, job: Job, before: float, call: Callable[[], T]) -> T:
        await self._spend(before)
        return await self._finish(job, call)

    async def _finish(self, job: Job, call: Callable[[], T]) -> T:
        if self._process.dead:
            raise asyncio.CancelledError
        try:
            if self._pool is None:
                return call()
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop), "a pool's jobs need a clock that can stand still"
            return await loop.hold(self._pool.submit(call))
        finally:
            await self._spend(self._costs.after(job))

    async def _spend(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._process.slowness)


_TRAINING, _MIXING, _SAVING = 0.9, 0.1, 0.05


class RoundCosts:
    """Training and mixing last a round together, and saving a twentieth of one, beside the next round.

    All else takes no time: it is little beside training, and the costs of faults are counted in rounds. Nor does a
    round that the peer sits out. Training of a share of its steps takes as much of that time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._trained = False
        self.share: Callable[[], float] = lambda: 1.0

    def before(self, job: Job) -> float:
        """See `Costs`."""
        if job in (train_and_release, sit_out):
            self._trained = job is train_and_release
            return self.share() * _TRAINING * self._seconds if self._trained else 0.0
        if job is mix_received and self._trained:
            return _MIXING * self._seconds
        saves = getattr(job, "__func__", None) is RankFolder.save
        return _SAVING * self._seconds if saves else 0.0

    def after(self, job: Job) -> float:
        """See `Costs`."""
        return 0.0
