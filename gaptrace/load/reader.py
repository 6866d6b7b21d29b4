"""Text to parts: block after block in this process, or many blocks in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gaptrace.load.blocks import BlockReader
from gaptrace.load.inputs import FileInput, Input, Stream
from gaptrace.load.workers import BlockTask, Pool, RangeTask, WorkerLostError

if TYPE_CHECKING:
    from gaptrace.load.columns import Part
    from gaptrace.load.layout import Layout
    from gaptrace.load.settings import Settings

Progress = Callable[[int, int], None]


@dataclass
class EventList:
    """The parts of a list of events in file order, and the text that follows the list."""

    parts: list[Part] = field(default_factory=list)
    tail: bytes = b""
    size: int = 0
    fault: str | None = None


@dataclass
class Text:
    """Where the events begin: `ahead` holds what was read from `stream` at and after `start`."""

    source: Input
    stream: Stream
    ahead: bytes
    start: int
    layout: Layout
    settings: Settings
    progress: Progress | None = None

    def report(self) -> None:
        """Tell how far the input has been read."""
        if self.progress is not None:
            self.progress(min(self.stream.done, self.source.size), self.source.size)


def read_here(text: Text) -> EventList:
    """Read everything in this process; memory is bounded by a block, or by the longest event."""
    settings = text.settings
    reader = BlockReader(text.layout, settings)
    result = EventList()
    buffer, base, want = text.ahead, text.start, settings.block
    final = False
    while True:
        if not final and len(buffer) < want:
            buffer = text.stream.extend(buffer, want)
            final = len(buffer) < want
        cut = None if final else text.layout.last_cut(buffer, 0, len(buffer))
        if cut is None and not final and len(buffer) < settings.longest_event:
            want = 2 * len(buffer)
            continue
        stop = len(buffer) if cut is None else cut.next
        part = reader.read(buffer, base, stop=stop, final=final)
        result.parts.append(part)
        text.report()
        buffer = buffer[part.stop - base :]
        base = part.stop
        if part.ended or part.spent or (final and not part.wants):
            break
        want = max(settings.block, 2 * len(buffer) if part.wants else 0)
    if part.ended:
        _take_tail(result, buffer, base, text.stream, settings)
    else:
        result.size = base + len(buffer)
    if part.spent:
        part.note("given_up", part.stop)
    result.fault = text.stream.fault
    return result


def _take_tail(
    result: EventList, ahead: bytes, base: int, stream: Stream, settings: Settings
) -> None:
    """Keep what follows the list, up to a limit, and measure the text to its end."""
    tail = ahead + stream.read(max(0, settings.tail - len(ahead)))
    result.size = base + len(tail)
    result.tail = tail[: settings.tail]
    if not stream.compressed:
        result.size = max(result.size, stream.source.size)
        return
    while len(tail) >= settings.block or tail is result.tail:
        tail = stream.read(settings.block)
        result.size += len(tail)
        if len(tail) < settings.block:
            return


def read_in_workers(text: Text, workers: int) -> EventList | None:
    """Read with several processes; None where a guess about a cut was wrong or a worker died."""
    result = EventList()
    expected = text.start
    failures = wasted = 0
    try:
        with Pool(workers, text.layout, text.settings) as pool:
            tasks = _ranges(text) if isinstance(text.source, FileInput) else None
            if text.stream.compressed or tasks is None:
                tasks = _blocks(text)
            for part in pool.map(tasks):
                if part.stop == part.base and not part.ended:
                    continue
                if part.base != expected or part.wants or part.spent:
                    return None
                # Each worker sees a part of the damage; whether it is too much is for all to say.
                failures, wasted = failures + part.damage[0], wasted + part.damage[1]
                if failures >= text.settings.failures or wasted >= text.settings.wasted:
                    return None
                result.parts.append(part)
                expected = part.stop
                if not text.stream.compressed:
                    text.stream.done = max(text.stream.done, part.stop)
                text.report()
                if part.ended:
                    break
    except WorkerLostError:
        return None
    if not result.parts:
        return None
    last = result.parts[-1]
    if last.ended:
        stream = Stream(text.source, expected)
        _take_tail(result, b"", expected, stream, text.settings)
        result.fault = stream.fault
    else:
        result.size = text.source.size if not text.stream.compressed else expected
        result.fault = text.stream.fault
    return result


def _ranges(text: Text) -> Iterator[RangeTask | BlockTask]:
    source = text.source
    assert isinstance(source, FileInput)
    step = text.settings.block
    begin = text.start
    while begin < source.size:
        end = begin + step
        yield RangeTask(source, begin, end, first=begin == text.start, last=end >= source.size)
        begin = end


def _blocks(text: Text) -> Iterator[RangeTask | BlockTask]:
    """Blocks that end behind a cut, and one last block."""
    buffer, base, want = text.ahead, text.start, text.settings.block
    while True:
        if len(buffer) < want:
            buffer = text.stream.extend(buffer, want)
            if len(buffer) < want:
                yield BlockTask(buffer, base, final=True)
                return
        cut = text.layout.last_cut(buffer, 0, len(buffer))
        if cut is None and len(buffer) < text.settings.longest_event:
            want = 2 * len(buffer)
            continue
        end = len(buffer) if cut is None else cut.next
        yield BlockTask(buffer[:end], base, final=False)
        buffer, base, want = buffer[end:], base + end, text.settings.block
