"""Worker processes that read blocks, spoken to over pipes.

They are plain interpreters rather than multiprocessing's: those import the caller's main module
again, which a library must not ask of a script without a guard. Fork is unsafe once a program has
threads, and torch does.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from gaptrace.load.columns import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from gaptrace.load.blocks import BlockReader
    from gaptrace.load.inputs import FileInput
    from gaptrace.load.layout import Cut, Layout
    from gaptrace.load.settings import Settings


class WorkerLostError(Exception):
    """A worker ended without an answer: killed, or out of memory."""


@dataclass(frozen=True)
class BlockTask:
    """A block of text that begins with an element and, unless final, ends behind a comma."""

    data: bytes = field(repr=False)
    base: int
    final: bool

    def run(self, reader: BlockReader, layout: Layout, settings: Settings) -> Part:
        """Read the block."""
        return reader.read(self.data, self.base, stop=len(self.data), final=self.final)


@dataclass(frozen=True)
class RangeTask:
    """The elements between the first cut at or after `begin` and the first at or after `end`.

    Neighbouring tasks look for the same cut from the same place, so they meet.
    """

    source: FileInput
    begin: int
    end: int
    first: bool
    last: bool

    def run(self, reader: BlockReader, layout: Layout, settings: Settings) -> Part:
        """Find the cuts and read what is between them."""
        size = self.source.size
        slack = min(settings.slice, settings.block)
        data = self.source.read(self.begin, self.end - self.begin + slack)
        start = 0
        if not self.first:
            data, cut = self._cut(layout, data, 0, settings)
            if cut is None:
                return Part(size, size)
            start = cut.next
        final = self.last
        stop = len(data)
        if not self.last:
            data, cut = self._cut(layout, data, self.end - self.begin, settings)
            final = cut is None
            stop = len(data) if cut is None else cut.next
        if stop <= start:
            return Part(self.begin + start, self.begin + start)
        return reader.read(data, self.begin, start=start, stop=stop, final=final)

    def _cut(
        self, layout: Layout, data: bytes, at: int, settings: Settings
    ) -> tuple[bytes, Cut | None]:
        step = settings.slice
        while True:
            cut = layout.first_cut(data, at, len(data))
            if cut is not None or self.begin + len(data) >= self.source.size:
                return data, cut
            data += self.source.read(self.begin + len(data), step)
            step = len(data)


Task = BlockTask | RangeTask


class Pool:
    """A few workers. Use as a context manager; they end with it."""

    def __init__(self, workers: int, layout: Layout, settings: Settings) -> None:
        self._layout = layout
        self._settings = settings
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Pool:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}\nfrom gaptrace.load.worker import main\nmain()"
        )
        try:
            for _ in range(self._count):
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                    )
                )
        except OSError as error:
            self._end()
            raise WorkerLostError from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def map(self, tasks: Iterable[Task]) -> Iterator[Part]:
        """The tasks' parts in the tasks' order.

        Tasks are taken only as fast as workers finish them, so that few blocks are in memory.

        Raises:
            WorkerLostError: a worker ended without an answer.
        """
        todo: queue.Queue[tuple[int, Task] | None] = queue.Queue(1)
        done: queue.Queue[tuple[int, Part] | BaseException | None] = queue.Queue()
        stop = threading.Event()
        threads = [
            threading.Thread(target=_converse, args=(process, self._setup, todo, done), daemon=True)
            for process in self._processes
        ]
        feeder = threading.Thread(
            target=_feed, args=(tasks, todo, done, stop, len(threads)), daemon=True
        )
        for thread in (*threads, feeder):
            thread.start()
        try:
            yield from _in_order(done, len(threads))
        finally:
            stop.set()
            self._end()
            with contextlib.suppress(queue.Empty):
                while True:
                    todo.get_nowait()
            for thread in (*threads, feeder):
                thread.join(timeout=5)

    @property
    def _setup(self) -> tuple[Layout, Settings]:
        return self._layout, self._settings


def _in_order(
    done: queue.Queue[tuple[int, Part] | BaseException | None], running: int
) -> Iterator[Part]:
    waiting: dict[int, Part] = {}
    following = 0
    while running:
        item = done.get()
        if item is None:
            running -= 1
        elif isinstance(item, BaseException):
            raise item
        else:
            waiting[item[0]] = item[1]
            while following in waiting:
                yield waiting.pop(following)
                following += 1


def _feed(
    tasks: Iterable[Task],
    todo: queue.Queue[tuple[int, Task] | None],
    done: queue.Queue[tuple[int, Part] | BaseException | None],
    stop: threading.Event,
    workers: int,
) -> None:
    def put(item: tuple[int, Task] | None) -> None:
        while not stop.is_set():
            try:
                todo.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    try:
        for index, task in enumerate(tasks):
            put((index, task))
            if stop.is_set():
                return
    except (OSError, RuntimeError, MemoryError) as error:
        done.put(error)
    for _ in range(workers):
        put(None)


def _converse(
    process: subprocess.Popen[bytes],
    setup: tuple[Layout, Settings],
    todo: queue.Queue[tuple[int, Task] | None],
    done: queue.Queue[tuple[int, Part] | BaseException | None],
) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        send(process.stdin, setup)
        while (item := todo.get()) is not None:
            index, task = item
            send(process.stdin, task)
            done.put((index, pickle.load(process.stdout)))
    except (OSError, EOFError, ValueError, pickle.UnpicklingError):
        done.put(WorkerLostError())
    else:
        done.put(None)


def send(pipe: IO[bytes], value: object) -> None:
    """Write one pickled value to a pipe."""
    pickle.dump(value, pipe, protocol=5)
    pipe.flush()
