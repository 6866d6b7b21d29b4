"""Which recordings lie under the paths that were named: traces, run folders, saved baselines."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gaptrace.errors import GaptraceError
from gaptrace.reading.runfolder import is_run_folder
from gaptrace.runs.saved import is_saved

TRACE, RUN, SAVED, WRITING = "trace", "run", "saved", "writing"
DEEPEST = 5
_ENDINGS = (".json", ".json.gz")
# Files that lie beside traces and are none.
_BESIDE = (".et.json", ".et.json.gz", ".inductor.json", ".inductor.json.gz")
_OWN = frozenset({"run.json", "collect.json", "short.json", "reference.json"})
# A compile cache in a run folder: thousands of files, none of them a recording.
_CACHE = "inductor_cache"
_PARTIAL = re.compile(r"\.(.+)\.partial")


@dataclass(frozen=True)
class Place:
    """One thing to analyse: a trace file, a run folder, a saved baseline, or a run being written.

    id: stable name for addresses, from the file's name and its path. path: as it was named, so
    that a report made from it equals the one of the command line. named: given by itself, not
    found in a folder. stamp: changes when the files do.
    """

    id: str
    kind: str
    path: str
    name: str
    named: bool
    stamp: tuple[tuple[str, int, int], ...]

    @property
    def newest_ns(self) -> int:
        """When the youngest of its files was last written, ns of the epoch."""
        return max((modified for _, _, modified in self.stamp), default=0)


def find_places(roots: Sequence[str]) -> list[Place]:
    """Everything under the roots, in their order, each path once.

    Raises:
        GaptraceError: a root does not exist.
    """
    found: dict[str, Place] = {}
    for root in roots:
        if not os.path.exists(root):
            raise GaptraceError(f"{root} does not exist", "name a trace, a run folder or a folder")
        for place in _under(root):
            found.setdefault(os.path.realpath(place.path), place)
    return list(found.values())


def still_there(place: Place) -> bool:
    """Whether the place's files exist."""
    return os.path.exists(place.path)


def _under(root: str) -> Iterator[Place]:
    if not os.path.isdir(root):
        yield _file(root, named=True)
    elif is_run_folder(root):
        yield _run(root, named=True)
        yield from _writing(root)
    else:
        yield from _walk(root, 0)


def _walk(folder: str, depth: int) -> Iterator[Place]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if entry.name.startswith(".") or entry.name == _CACHE:
                continue
            if is_run_folder(entry.path):
                yield _run(entry.path, named=False)
                yield from _writing(entry.path)
            elif depth < DEEPEST:
                yield from _walk(entry.path, depth + 1)
        elif _looks_like_a_trace(entry.name):
            yield _file(entry.path, named=False)
    yield from _writing(folder, deep=False)


def _looks_like_a_trace(name: str) -> bool:
    return (
        name.endswith(_ENDINGS)
        and not name.endswith(_BESIDE)
        and not name.startswith(".")
        and name not in _OWN
    )


def _writing(folder: str, *, deep: bool = True) -> Iterator[Place]:
    """Folders that a recorder is still filling (`.NAME.partial`)."""
    pattern = (".*.partial", "*/.*.partial") if deep else (".*.partial",)
    for one in pattern:
        for path in sorted(Path(folder).glob(one)):
            match = _PARTIAL.fullmatch(path.name)
            if match:
                # Path.absolute, so that a folder named `.` has a name too.
                name = " · ".join((*path.absolute().parts[-3:-1], match[1]))
                yield Place(_id(str(path)), WRITING, str(path), name, True, ())


def _file(path: str, *, named: bool) -> Place:
    kind = SAVED if is_saved(path) else TRACE
    return Place(_id(path), kind, path, _plain_name(path), named, _stamp([path]))


def _run(path: str, *, named: bool) -> Place:
    own = [file for file in _files(path) if not any(p.startswith(".") for p in Path(file).parts)]
    name = os.path.basename(os.path.abspath(path))
    return Place(_id(path), RUN, path, name, named, _stamp(own))


def _files(path: str) -> list[str]:
    """Every file of a run folder but those of its compile cache, in order."""
    found = []
    for folder, inner, names in os.walk(path):
        if _CACHE in inner:
            inner.remove(_CACHE)
        found += [os.path.join(folder, name) for name in names]
    return sorted(found)


def _stamp(files: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    found = []
    for file in files:
        try:
            seen = os.stat(file)
        except OSError:
            continue
        found.append((file, seen.st_size, seen.st_mtime_ns))
    return tuple(found)


def _id(path: str) -> str:
    """`llama4-eager-3f9a2c`: readable, and distinct for every path."""
    words = re.sub(r"[^a-zA-Z0-9]+", "-", _plain_name(path)).strip("-").lower()[:40] or "trace"
    digest = hashlib.sha256(os.path.realpath(path).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{words}-{digest[:6]}"


def _plain_name(path: str) -> str:
    """The file's name without the endings of traces and saved baselines."""
    name = os.path.basename(os.path.abspath(path))
    for ending in (".gz", ".json", ".gaptrace", ".trace", ".pt"):
        name = name.removesuffix(ending)
    return name
