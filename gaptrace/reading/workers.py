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

from gaptrace.errors import GaptraceError
from gaptrace.reading.blocks import BlockReader
from gaptrace.reading.columns import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from gaptrace.reading.inputs import FileInput
    from gaptrace.reading.layout import Cut, Layout
    from gaptrace.reading.settings import Settings


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
                return self._nothing(data, size)
            start = cut.next
        final, stop = self.last, len(data)
        if not self.last:
            data, cut = self._cut(layout, data, self.end - self.begin, settings)
            if cut is None and self.begin + len(data) < size:
                return self._nothing(data, size)
            final, stop = (True, len(data)) if cut is None else (False, cut.next)
        if stop <= start:
            return Part(self.begin + start, self.begin + start)
        return reader.read(data, self.begin, start=start, stop=stop, final=final)

    def _nothing(self, data: bytes, size: int) -> Part:
        """No event begins here, or none that can be seen with so little of the file in memory."""
        seen = self.begin + len(data)
        return Part(size, size) if seen >= size else Part(seen, seen, wants=True)

    def _cut(
        self, layout: Layout, data: bytes, at: int, settings: Settings
    ) -> tuple[bytes, Cut | None]:
        while True:
            cut = layout.first_cut(data, at, len(data))
            seen = self.begin + len(data)
            if cut or seen >= self.source.size or len(data) - at > settings.longest_event:
                return data, cut
            data += self.source.read(seen, len(data))


Task = BlockTask | RangeTask
_Todo = queue.SimpleQueue[tuple[int, Task] | None]
_Done = queue.SimpleQueue[tuple[int, Part] | None]


class Pool:
    """This process and some helpers. Use as a context manager; the helpers end with it."""

    def __init__(self, processes: int, layout: Layout, settings: Settings) -> None:
        self._layout = layout
        self._settings = settings
        self._helpers = processes - 1
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Pool:
        paths = [str(path) for path in sys.path]
        code = (
            f"import sys; sys.path[:] = {paths!r}\nfrom gaptrace.reading.worker import main\nmain()"
        )
        command = [sys.executable, "-c", code]
        try:
            for _ in range(self._helpers):
                self._processes.append(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
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
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def map(self, tasks: Iterable[Task]) -> Iterator[Part]:
        """The tasks' parts in the tasks' order.

        Tasks are taken only as fast as they are done, so that few blocks are in memory. This
        process works too while it would wait: helpers take a while to start.

        Raises:
            WorkerLostError: a helper ended without an answer, or the tasks could not be made.
        """
        todo, done = _Todo(), _Done()
        lines = [
            _Line(process, (self._layout, self._settings), todo, done)
            for process in self._processes
        ]
        feeder = _Feeder(tasks, todo, done, takers=len(lines) + 1)
        for line in lines:
            line.feeder = feeder
        threads = [threading.Thread(target=line.run, daemon=True) for line in lines]
        threads.append(threading.Thread(target=feeder.run, daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield from self._in_order(todo, done, feeder, len(lines))
        finally:
            feeder.stopped.set()
            self._end()
            for _ in threads:
                todo.put(None)
            for thread in threads:
                thread.join()

    def _in_order(self, todo: _Todo, done: _Done, feeder: _Feeder, running: int) -> Iterator[Part]:
        waiting: dict[int, Part] = {}
        following = 0
        working = True
        while working or running:
            if working and (item := todo.get()) is not None:
                feeder.slots.release()
                index, task = item
                reader = BlockReader(self._layout, self._settings)
                waiting[index] = task.run(reader, self._layout, self._settings)
            else:
                working = False
            while running and (not working or not done.empty()):
                answer = done.get()
                if answer is None:
                    running -= 1
                elif answer[0] < 0:
                    raise WorkerLostError
                else:
                    waiting[answer[0]] = answer[1]
                if following in waiting:
                    break
            while following in waiting:
                yield waiting.pop(following)
                following += 1


_LOST = (-1, Part(0))


class _Feeder:
    """Makes the tasks, in a thread of its own: inflating goes on while this process decodes."""

    def __init__(self, tasks: Iterable[Task], todo: _Todo, done: _Done, *, takers: int) -> None:
        self.slots = threading.Semaphore(1)
        self.stopped = threading.Event()
        self._tasks = tasks
        self._todo = todo
        self._done = done
        self._takers = takers

    def run(self) -> None:
        complete = False
        try:
            for item in enumerate(self._tasks):
                while not self.slots.acquire(timeout=0.2):
                    if self.stopped.is_set():
                        return
                self._todo.put(item)
            complete = True
        except (GaptraceError, OSError, MemoryError):
            pass  # the file is read again without help, and fails there with its own message
        finally:
            if not complete:
                self._done.put(_LOST)
            for _ in range(self._takers):
                self._todo.put(None)


class _Line:
    """The conversation with one helper."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        setup: tuple[Layout, Settings],
        todo: _Todo,
        done: _Done,
    ) -> None:
        self.feeder: _Feeder | None = None
        self._process = process
        self._setup = setup
        self._todo = todo
        self._done = done

    def run(self) -> None:
        tasks, answers = self._process.stdin, self._process.stdout
        assert tasks is not None
        assert answers is not None
        assert self.feeder is not None
        complete = False
        try:
            send(tasks, self._setup)
            while (item := self._todo.get()) is not None:
                self.feeder.slots.release()
                index, task = item
                send(tasks, task)
                self._done.put((index, pickle.load(answers)))
            complete = True
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            pass  # it died; what it was given is lost, and the parent is told
        finally:
            self._done.put(None if complete else _LOST)


def send(pipe: IO[bytes], value: object) -> None:
    """Write one pickled value to a pipe."""
    pickle.dump(value, pipe, protocol=5)
    pipe.flush()
