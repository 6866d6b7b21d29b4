"""Text to parts: block after block in this process, or many blocks in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gaptrace.reading.blocks import BlockReader
from gaptrace.reading.inputs import FileInput, Input, Stream
from gaptrace.reading.workers import BlockTask, Pool, RangeTask, WorkerLostError

if TYPE_CHECKING:
    from gaptrace.reading.columns import Part
    from gaptrace.reading.layout import Layout
    from gaptrace.reading.settings import Settings

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
    if part.spent:
        part.note("given_up", part.stop)
    _finish(result, buffer, text.stream, settings)
    return result


def _finish(result: EventList, ahead: bytes, stream: Stream, settings: Settings) -> None:
    """Keep what follows the list, up to a limit, and find out how long the text is.

    `ahead` is what was read of it when reading the list; the stream has the rest.
    """
    last = result.parts[-1]
    if last.size:
        result.size, result.tail = last.size, last.tail
    else:
        tail = ahead + stream.read(max(0, settings.tail - len(ahead)))
        result.size = last.stop + len(tail)
        result.tail = tail[: settings.tail] if last.ended else b""
        while more := stream.read(settings.block):
            result.size += len(more)
    result.fault = stream.fault


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
                if part.wants or part.spent:
                    return None
                if part.stop == part.base and not part.ended:
                    continue
                if part.base != expected:
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
    if not (last.ended or last.size):
        return None
    stream = text.stream if last.size else Stream(text.source, expected)
    _finish(result, b"", stream, text.settings)
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
