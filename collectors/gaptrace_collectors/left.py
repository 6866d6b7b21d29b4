"""What the processes of one cell have left: a recording per rank and bucket, or word of why not."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import Any

from gaptrace_collectors import folder as files
from gaptrace_collectors.points import Point

RUN = "run.json"
SHORT = "short.json"
# Folder beside the recordings for what the processes of a cell are told and tell each other.
WORD = ".cell"
_RANK = re.compile(r"rank-(\d+)")
_SAID_BY = re.compile(r"^on rank \d+: ")
# Of several ranks the cell is what the worst of them is.
# Kinds of failure that no rank has for itself.
_OF_ALL = ("no_device", "self_compiled", "captured_by_script", "ranks_differ")
_WORST = ("script_failed", "mode_failed", "ok")


@dataclass
class Recording:
    """One rank's recording of one point: its folder, and its run.json where it has one."""

    point: Point
    rank: int | None
    folder: str
    run: Any


def recordings(partial: str, batch: int | None, buckets: tuple[int, ...]) -> list[Recording]:
    """All recordings in a cell's unfinished folder, by point and rank."""
    found = []
    for rank, place in _ranks(partial):
        points = [(Point(batch, size), Point(None, size).folder) for size in buckets]
        inside = [(point, os.path.join(place, name)) for point, name in points]
        inside = [item for item in inside if os.path.isdir(item[1])] or [(Point(batch), place)]
        for point, folder in inside:
            run = files.read_json(os.path.join(folder, RUN))
            found.append(Recording(point, rank, folder, run))
    found.sort(key=lambda item: (item.point.length or 0, item.rank or 0))
    return found


def shortage(partial: str) -> dict[str, Any] | None:
    """What the rank with the fewest decode steps says of them; None where there were enough."""
    said = [files.read_json(os.path.join(place, SHORT)) for _, place in _ranks(partial)]
    short = [item for item in said if item is not None]
    return min(short, key=lambda item: int(item["decode_steps"])) if short else None


def error(partial: str) -> dict[str, Any] | None:
    """What gaptrace itself could not do in one of the processes, None where there is no such."""
    places = [partial, *(place for _, place in _ranks(partial))]
    for parent in places:
        for folder in (parent, *_subfolders(parent)):
            said: dict[str, Any] | None = files.read_json(os.path.join(folder, files.ERROR))
            if said is not None:
                return said
    return None


def out_of_step(found: list[Recording]) -> bool:
    """Whether the ranks fell apart, as they do where one makes fewer steps than another."""
    kinds = {(item.run["failure"] or {}).get("kind") for item in found if item.run}
    return kinds == {"ranks_differ"}


def first_failure(of_point: list[Recording]) -> dict[str, Any] | None:
    """The failure that the others follow from: that of the rank which wrote it down first."""
    first = next((item for item in by_time(of_point) if item.run["failure"]), None)
    if first is None:
        return None
    failure: dict[str, Any] = first.run["failure"]
    said = _SAID_BY.sub("", failure["reason"])
    if failure["kind"] in _OF_ALL:
        return failure | {"reason": said}
    if first.rank is None or said != failure["reason"]:
        return failure
    return failure | {"reason": f"on rank {first.rank}: {said}"}


def by_time(found: list[Recording]) -> list[Recording]:
    """Recordings in the order in which their run.json was written."""
    whole = [item for item in found if item.run]
    return sorted(whole, key=lambda item: os.stat(os.path.join(item.folder, RUN)).st_mtime_ns)


def status_of(of_point: list[Recording]) -> str:
    """The status of one point: that of its worst rank; `died` where one that was well is missing.

    Where one rank's script raised, a launcher ends the others before they can write anything.
    """
    statuses = {item.run["status"] for item in of_point if item.run}
    worst = next((status for status in _WORST if status in statuses), "died")
    missing = any(item.run is None for item in of_point)
    return "died" if missing and worst == "ok" else worst


def publish(of_point: list[Recording], final: str) -> None:
    """Give what is whole its name: the cell's folder itself, or `rank-N` within it."""
    for item in of_point:
        if item.run is None:
            shutil.rmtree(item.folder, ignore_errors=True)
            continue
        shutil.rmtree(os.path.join(item.folder, WORD), ignore_errors=True)
        target = final if item.rank is None else os.path.join(final, f"rank-{item.rank}")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        files.publish(item.folder, target)


def _ranks(partial: str) -> list[tuple[int | None, str]]:
    found = []
    for name in _names(partial):
        match = _RANK.fullmatch(name)
        if match:
            found.append((int(match[1]), os.path.join(partial, name)))
    return sorted(found) or [(None, partial)]


def _names(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def _subfolders(folder: str) -> list[str]:
    paths = [os.path.join(folder, name) for name in _names(folder)]
    return [path for path in paths if os.path.isdir(path)]
