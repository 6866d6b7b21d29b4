"""Bytes from wherever they come: a path, an open file, standard input, memory; gzip undone."""

from __future__ import annotations

import os
import stat
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from gaptrace.errors import GaptraceError, NotATraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    from isal import igzip_lib, isal_zlib

    ISAL = True
except ImportError:  # no isal for this platform: the standard library does, at a third the speed
    ISAL = False

GZIP = b"\x1f\x8b"
READ = 1 << 18


class Input(Protocol):
    """Bytes that can be read again from any position."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str | None: ...

    @property
    def size(self) -> int: ...

    def read(self, offset: int, count: int) -> bytes: ...


@dataclass(frozen=True)
class MemoryInput:
    """Bytes kept in memory."""

    name: str
    data: bytes = field(repr=False)
    path: str | None = None

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, count: int) -> bytes:
        return self.data[offset : offset + count]


@dataclass(frozen=True)
class FileInput:
    """A file by its path, as it was when it was first looked at."""

    path: str
    size: int
    mtime_ns: int
    inode: int

    @property
    def name(self) -> str:
        return self.path

    def read(self, offset: int, count: int) -> bytes:
        """The bytes at a position.

        Raises:
            GaptraceError: the file has changed since it was loaded, or cannot be read any more.
        """
        try:
            with open(self.path, "rb", buffering=0) as file:
                now = os.fstat(file.fileno())
                if (now.st_size, now.st_mtime_ns) != (self.size, self.mtime_ns):
                    raise GaptraceError(
                        f"{self.path} has changed since it was opened", "Load it again."
                    )
                file.seek(offset)
                parts = []
                while count > 0 and (part := file.read(count)):
                    parts.append(part)
                    count -= len(part)
        except OSError as error:
            raise GaptraceError(f"cannot read {self.path}: {error.strerror}") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)


def open_input(source: str | os.PathLike[str] | bytes | BinaryIO) -> FileInput | MemoryInput:
    """The source as bytes that can be read more than once; streams are read to their end.

    Raises:
        NotATraceError: there is no such file, or it is a folder.
        GaptraceError: the file cannot be read.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return MemoryInput("<bytes>", bytes(source))
    if isinstance(source, str) and source == "-":
        return MemoryInput("-", sys.stdin.buffer.read())
    if isinstance(source, str | os.PathLike):
        return _open_path(os.fspath(source))
    name = getattr(source, "name", None)
    content: bytes | str = source.read()
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    return MemoryInput(name if isinstance(name, str) else "<stream>", content)


def _open_path(path: str) -> FileInput | MemoryInput:
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            raise NotATraceError(
                f"{path} is a folder, not a trace",
                "Name one trace file (*.json or *.json.gz) in it.",
            )
        if not stat.S_ISREG(found.st_mode):
            # A pipe, such as a shell's <(...): it can be read only once.
            return MemoryInput(path, Path(path).read_bytes())
        with open(path, "rb"):
            pass
    except FileNotFoundError as error:
        raise NotATraceError(f"there is no file {path}", "Check the path.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GaptraceError(f"cannot read {path}: {reason}") from error
    return FileInput(path, found.st_size, found.st_mtime_ns, found.st_ino)


class Stream:
    """The JSON text of an input, front to back.

    `done` counts bytes of the input, not of the text. `fault` names what was wrong with the
    compression, in one word.
    """

    def __init__(self, source: Input, offset: int = 0) -> None:
        self.source = source
        self.done = 0
        self.fault: str | None = None
        self.compressed = source.read(0, 2) == GZIP
        self._ready: list[bytes] = []
        if self.compressed:
            self._chunks: Iterator[bytes] = self._inflate()
            self._skip(offset)
        else:
            self.done = offset

    def read(self, count: int) -> bytes:
        """Up to `count` bytes, fewer only at the end of the text."""
        return self.extend(b"", count)

    def extend(self, ahead: bytes, count: int) -> bytes:
        """What was read last and not used, and as much more as makes `count` bytes of it."""
        if not self.compressed:
            # Reading the rest again is cheaper than putting two large pieces together.
            data = self.source.read(self.done - len(ahead), count)
            self.done += len(data) - len(ahead)
            return data
        parts = [ahead, *self._ready]
        have = sum(map(len, parts))
        while have < count and (part := next(self._chunks, b"")):
            parts.append(part)
            have += len(part)
        self._ready = []
        if have > count:
            keep = len(parts[-1]) - (have - count)
            self._ready = [parts[-1][keep:]]
            parts[-1] = parts[-1][:keep]
        return b"".join(parts)

    def _skip(self, count: int) -> None:
        while count > 0:
            part = next(self._chunks, None)
            if part is None:
                return
            if len(part) > count:
                self._ready = [part[count:]]
            count -= len(part)

    def _inflate(self) -> Iterator[bytes]:
        held = b""
        while True:
            header = _gzip_header(held)
            while header == 0 and (more := self._take()):
                held += more
                header = _gzip_header(held)
            if header <= 0:
                # Padding after the last member is no fault; a header cut short is.
                if header == 0 and held.startswith(GZIP):
                    self.fault = "truncated"
                return
            held = held[header:]
            crc = length = 0
            engine = _IsalInflater() if ISAL else _Inflater()
            while not engine.finished:
                if not held and engine.hungry:
                    held = self._take()
                try:
                    part = engine.feed(held)
                except tuple(_FLATE_ERRORS):
                    self.fault = "corrupt"
                    return
                if not (held or part or engine.finished):
                    self.fault = "truncated"
                    return
                held = b""
                crc = _crc32(part, crc)
                length += len(part)
                if part:
                    yield part
            held = engine.unused
            while len(held) < 8 and (more := self._take()):
                held += more
            want = crc.to_bytes(4, "little") + (length & 0xFFFFFFFF).to_bytes(4, "little")
            if len(held) < 8:
                self.fault = "truncated"
                return
            if held[:8] != want:
                self.fault = "corrupt"
            held = held[8:]

    def _take(self) -> bytes:
        data = self.source.read(self.done, READ)
        self.done += len(data)
        return data


def _crc32(data: bytes, value: int) -> int:
    return int(isal_zlib.crc32(data, value) if ISAL else zlib.crc32(data, value))


class _Inflater:
    """Raw deflate. The gzip frame is handled outside: an engine that checks the sum itself throws
    away the text it has when the sum is wrong."""

    LIMIT = 1 << 20

    def __init__(self) -> None:
        self._engine = zlib.decompressobj(wbits=-15)

    @property
    def finished(self) -> bool:
        return self._engine.eof

    @property
    def hungry(self) -> bool:
        return not self._engine.unconsumed_tail

    @property
    def unused(self) -> bytes:
        return self._engine.unused_data

    def feed(self, data: bytes) -> bytes:
        return self._engine.decompress(self._engine.unconsumed_tail + data, self.LIMIT)


class _IsalInflater:
    LIMIT = 1 << 20

    def __init__(self) -> None:
        self._engine = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)

    @property
    def finished(self) -> bool:
        return bool(self._engine.eof)

    @property
    def hungry(self) -> bool:
        return bool(self._engine.needs_input)

    @property
    def unused(self) -> bytes:
        return bytes(self._engine.unused_data)

    def feed(self, data: bytes) -> bytes:
        return bytes(self._engine.decompress(data, self.LIMIT))


_FLATE_ERRORS: list[type[Exception]] = [zlib.error]
if ISAL:
    _FLATE_ERRORS.append(cast(type[Exception], igzip_lib.IsalError))


def _gzip_header(data: bytes) -> int:
    """Length of the gzip header, 0 where more bytes are needed, -1 where there is none."""
    if len(data) < 10:
        return 0 if data[:2] == GZIP[: len(data[:2])] else -1
    if data[:2] != GZIP:
        return -1
    flags, at = data[3], 10
    if flags & 4:
        if len(data) < at + 2:
            return 0
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (8, 16):
        if flags & flag:
            end = data.find(b"\0", at)
            if end < 0:
                return 0
            at = end + 1
    if flags & 2:
        at += 2
    return at if at <= len(data) else 0
