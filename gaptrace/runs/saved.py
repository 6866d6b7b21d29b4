"""Saved baselines: what later comparisons need of a run, small enough to live in a repository.

A file (`*.gaptrace.json`) is a `SavedFile` and holds no trace. The same run gives the same bytes:
no times of saving, no host, no user, no folder names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field

from gaptrace import __version__
from gaptrace.compare.recording import CAUSE_COLUMNS, CLASS_COLUMNS, COLUMNS, Recording, UsedKernel
from gaptrace.errors import GaptraceError
from gaptrace.quantity import Number
from gaptrace.trace import Ints

SAVED = "gaptrace.saved/1"
_FAMILY = "gaptrace.saved/"
ENDING = ".gaptrace.json"
# Beyond this many steps a recording keeps an even sample of them, so that files stay small.
MOST_STEPS = 1_000
MOST_SAMPLES = 1_000
_SNIFFED = 400
# Columns that a whole recording has, too.
WHOLE = ("period_ns", *CAUSE_COLUMNS, *CLASS_COLUMNS)
_AGAIN = f"write it with: gaptrace save RUN -o base{ENDING}"


class SavedKernel(Struct, frozen=True, array_like=True):
    """One GPU op name: its place in `SavedFile.names`, executions, summed and median ns."""

    name: int
    op: str
    op_class: str
    count: int
    total_ns: int
    median_ns: int


class SavedRecording(Struct, frozen=True):
    """One recording; see `Recording`. steps: `count`, and per column one value a step, or one."""

    mode: str | None
    repeat: int
    rule: str
    complete: int
    facts: dict[str, str | None]
    verdict: str
    reasons: tuple[str, ...]
    withheld: tuple[str, ...]
    steps: dict[str, int | tuple[int, ...]]
    whole: dict[str, int]
    unprofiled_ns: int | None
    unprofiled_samples: tuple[int, ...]
    issue_ns: int | None
    issue_samples: tuple[int, ...]
    peak_memory: int | None
    kernel_tokens: Number
    captured: float
    generated: float
    kernels: tuple[SavedKernel, ...]
    given: bool = False
    predicted_ns: int | None = None
    predicted_range: tuple[int, int] | None = None


class SavedFile(Struct, frozen=True):
    """A saved run: its recordings by mode in the order saved, repeats in order."""

    schema: str
    version: str = field(name="gaptrace")
    name: str
    names: tuple[str, ...]
    recordings: tuple[SavedRecording, ...]


@dataclass(frozen=True)
class SavedRun:
    """The recordings of one saved run, by mode in the order saved, repeats in order."""

    name: str
    version: str
    recordings: tuple[Recording, ...]

    @property
    def modes(self) -> dict[str | None, tuple[Recording, ...]]:
        """Recordings by mode; None for bare traces."""
        found: dict[str | None, list[Recording]] = {}
        for recording in self.recordings:
            found.setdefault(recording.mode, []).append(recording)
        return {mode: tuple(recordings) for mode, recordings in found.items()}


def is_saved(path: str | Path) -> bool:
    """Whether the file at a path says of itself that it is a saved baseline."""
    try:
        with open(path, "rb") as file:
            return _FAMILY.encode() in file.read(_SNIFFED)
    except OSError:
        return False


def saved_text(name: str, recordings: Sequence[Recording]) -> str:
    """The file for these recordings, the same text for the same recordings."""
    names = tuple(sorted({kernel.name for r in recordings for kernel in r.kernels}))
    index = {text: place for place, text in enumerate(names)}
    kept = tuple(_recording(recording, index) for recording in recordings)
    data = SavedFile(SAVED, __version__, name, names, kept)
    return _pretty(msgspec.to_builtins(data), 0) + "\n"


def _pretty(value: Any, depth: int) -> str:
    """JSON with a line per entry of the outer levels and lists of numbers on one line."""
    if isinstance(value, dict) and depth < 3:
        inner = ",\n".join(
            f"{' ' * (depth + 1)}{json.dumps(key)}: {_pretty(item, depth + 1)}"
            for key, item in value.items()
        )
        return f"{{\n{inner}\n{' ' * depth}}}"
    lines = isinstance(value, (list, tuple)) and value and depth < 4
    if lines and not isinstance(value[0], (int, float)):
        inner = ",\n".join(f"{' ' * (depth + 1)}{_pretty(item, depth + 1)}" for item in value)
        return f"[\n{inner}\n{' ' * depth}]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _recording(recording: Recording, index: Mapping[str, int]) -> SavedRecording:
    kept = _even(recording.steps["step"].size, MOST_STEPS)
    alike = {name: getattr(recording, name) for name in SavedRecording.__struct_fields__}
    written = {
        "facts": dict(recording.facts),
        "withheld": tuple(sorted(recording.withheld)),
        "steps": {
            "count": int(kept.size),
            **{name: _column(recording.steps[name][kept]) for name in COLUMNS},
        },
        "whole": dict(recording.whole),
        "unprofiled_samples": _sample(recording.unprofiled_samples),
        "issue_samples": _sample(recording.issue_samples),
        "captured": float(f"{recording.captured:.10g}"),
        "generated": float(f"{recording.generated:.10g}"),
        "kernels": tuple(
            SavedKernel(index[k.name], k.op, k.op_class, k.count, k.total_ns, k.median_ns)
            for k in recording.kernels
        ),
    }
    return SavedRecording(**{**alike, **written})


def _even(count: int, most: int) -> Ints:
    """Places of an even sample of at most `most` out of `count`, in order."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def _sample(values: Ints) -> tuple[int, ...]:
    return tuple(int(value) for value in values[_even(values.size, MOST_SAMPLES)])


def _column(values: Ints) -> int | tuple[int, ...]:
    """The values, or the one value that all steps share."""
    if values.size and bool((values == values[0]).all()):
        return int(values[0])
    return tuple(int(value) for value in values)


def load_saved(path: str | Path) -> SavedRun:
    """The saved baseline at a path.

    Raises:
        GaptraceError: it cannot be read, is of a later version, or is not a saved baseline.
    """
    try:
        text = Path(path).read_bytes()
        schema = msgspec.json.decode(text, type=_Head).schema
    except OSError as error:
        raise GaptraceError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise GaptraceError(f"{path} is no saved baseline: {error}", _AGAIN) from error
    if not schema.startswith(_FAMILY):
        raise GaptraceError(f"{path} is no saved baseline", _AGAIN)
    if schema != SAVED:
        raise GaptraceError(
            f"{path} has schema {schema}, this version reads {SAVED}", "update gaptrace"
        )
    try:
        data = msgspec.json.decode(text, type=SavedFile)
        recordings = tuple(_read(item, data.names, str(path)) for item in data.recordings)
    except (msgspec.MsgspecError, ValueError, LookupError) as error:
        raise GaptraceError(f"{path} is a damaged saved baseline: {error}", _AGAIN) from error
    return SavedRun(data.name, data.version, recordings)


class _Head(Struct):
    schema: str


def _read(item: SavedRecording, names: Sequence[str], path: str) -> Recording:
    count = item.steps["count"]
    if not isinstance(count, int):
        raise ValueError("the number of steps is not a number")
    read = {
        "withheld": frozenset(item.withheld),
        "steps": {name: _values(item.steps, name, count) for name in COLUMNS},
        "whole": {name: item.whole.get(name, 0) for name in WHOLE},
        "unprofiled_samples": np.array(item.unprofiled_samples, np.int64),
        "issue_samples": np.array(item.issue_samples, np.int64),
        "kernels": tuple(
            UsedKernel(names[k.name], k.op, k.op_class, k.count, k.total_ns, k.median_ns)
            for k in item.kernels
        ),
    }
    return Recording(path=path, run="", **{**msgspec.structs.asdict(item), **read})


def _values(steps: Mapping[str, int | tuple[int, ...]], name: str, count: int) -> Ints:
    """A column of the steps; a cause that the version before did not know is 0."""
    value = steps.get(name, 0) if name.startswith("idle_") else steps[name]
    column = np.full(count, value) if isinstance(value, int) else np.array(value, np.int64)
    if column.size != count:
        raise ValueError(f"column {name} has {column.size} of {count} steps")
    return column.astype(np.int64)
