"""Saved baselines: what later comparisons need of a run, small enough to live in a repository.

A file (`*.gaptrace.json`) has schema `gaptrace.saved/1` and holds no trace:

    {"schema": "gaptrace.saved/1", "gaptrace": version, "name", "names": [kernel names],
     "recordings": [{
        "mode", "repeat", "rule", "complete", "facts", "verdict", "reasons", "withheld",
        "steps": {"count", column: [one integer per counted step] or the one integer all share},
        "whole": {column: integer}, "unprofiled_ns", "unprofiled_samples", "issue_ns",
        "issue_samples", "peak_memory", "kernel_tokens", "captured", "generated",
        "kernels": [[index into names, op, class, executions, summed ns, median ns]]}]}

The same run gives the same bytes: no times of saving, no host, no user, no folder names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gaptrace import __version__
from gaptrace.compare.recording import COLUMNS, Recording, UsedKernel
from gaptrace.errors import GaptraceError
from gaptrace.trace import Ints

SCHEMA = "gaptrace.saved/1"
_FAMILY = "gaptrace.saved/"
ENDING = ".gaptrace.json"
# Beyond this many steps a recording keeps an even sample of them, so that files stay small.
MOST_STEPS = 1_000
MOST_SAMPLES = 1_000
_SNIFFED = 400


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
    names = sorted({kernel.name for r in recordings for kernel in r.kernels})
    index = {text: place for place, text in enumerate(names)}
    data = {
        "schema": SCHEMA,
        "gaptrace": __version__,
        "name": name,
        "names": names,
        "recordings": [_recording(recording, index) for recording in recordings],
    }
    return _pretty(data, 0) + "\n"


def _pretty(value: Any, depth: int) -> str:
    """JSON with a line per entry of the outer levels and lists of numbers on one line."""
    if isinstance(value, dict) and depth < 3:
        inner = ",\n".join(
            f"{' ' * (depth + 1)}{json.dumps(key)}: {_pretty(item, depth + 1)}"
            for key, item in value.items()
        )
        return f"{{\n{inner}\n{' ' * depth}}}"
    if isinstance(value, list) and value and not isinstance(value[0], (int, float)) and depth < 4:
        inner = ",\n".join(f"{' ' * (depth + 1)}{_pretty(item, depth + 1)}" for item in value)
        return f"[\n{inner}\n{' ' * depth}]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _recording(recording: Recording, index: Mapping[str, int]) -> dict[str, Any]:
    count = recording.steps["step"].size
    kept = _even(count, MOST_STEPS)
    return {
        "mode": recording.mode,
        "repeat": recording.repeat,
        "rule": recording.rule,
        "complete": recording.complete,
        "facts": dict(recording.facts),
        "verdict": recording.verdict,
        "reasons": list(recording.reasons),
        "withheld": sorted(recording.withheld),
        "steps": {
            "count": int(kept.size),
            **{name: _column(recording.steps[name][kept]) for name in COLUMNS},
        },
        "whole": dict(recording.whole),
        "unprofiled_ns": recording.unprofiled_ns,
        "unprofiled_samples": _sample(recording.unprofiled_samples),
        "issue_ns": recording.issue_ns,
        "issue_samples": _sample(recording.issue_samples),
        "peak_memory": recording.peak_memory,
        "kernel_tokens": recording.kernel_tokens,
        "captured": float(f"{recording.captured:.10g}"),
        "generated": float(f"{recording.generated:.10g}"),
        "kernels": [
            [index[k.name], k.op, k.op_class, k.count, k.total_ns, k.median_ns]
            for k in recording.kernels
        ],
    }


def _even(count: int, most: int) -> Ints:
    """Places of an even sample of at most `most` out of `count`, in order."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def _sample(values: Ints) -> list[int]:
    return [int(value) for value in values[_even(values.size, MOST_SAMPLES)]]


def _column(values: Ints) -> int | list[int]:
    """The values, or the one value that all steps share."""
    if values.size and bool((values == values[0]).all()):
        return int(values[0])
    return [int(value) for value in values]


def load_saved(path: str | Path) -> SavedRun:
    """The saved baseline at a path.

    Raises:
        GaptraceError: it cannot be read, is of a later version, or is not a saved baseline.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise GaptraceError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise GaptraceError(f"{path} is no saved baseline: {error}", _AGAIN) from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or not schema.startswith(_FAMILY):
        raise GaptraceError(f"{path} is no saved baseline", _AGAIN)
    if schema != SCHEMA:
        raise GaptraceError(
            f"{path} has schema {schema}, this version reads {SCHEMA}", "update gaptrace"
        )
    try:
        names = [str(name) for name in data["names"]]
        recordings = tuple(_read(item, names, str(path)) for item in data["recordings"])
        return SavedRun(str(data["name"]), str(data["gaptrace"]), recordings)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise GaptraceError(f"{path} is a damaged saved baseline: {error!r}", _AGAIN) from error


_AGAIN = f"write it with: gaptrace save RUN -o base{ENDING}"


def _read(item: Mapping[str, Any], names: Sequence[str], path: str) -> Recording:
    steps = item["steps"]
    count = int(steps["count"])
    columns = {}
    for name in COLUMNS:
        value = steps[name]
        column = np.full(count, value) if isinstance(value, int) else np.array(value, np.int64)
        if column.size != count:
            raise ValueError(f"column {name} has {column.size} of {count} steps")
        columns[name] = column.astype(np.int64)
    return Recording(
        path=path,
        run=str(item.get("run", "")),
        mode=item["mode"],
        repeat=int(item["repeat"]),
        facts=dict(item["facts"]),
        verdict=str(item["verdict"]),
        reasons=tuple(item["reasons"]),
        withheld=frozenset(item["withheld"]),
        rule=str(item["rule"]),
        complete=int(item["complete"]),
        steps=columns,
        whole={str(name): int(value) for name, value in item["whole"].items()},
        unprofiled_ns=item["unprofiled_ns"],
        unprofiled_samples=np.array(item["unprofiled_samples"], np.int64),
        issue_ns=item["issue_ns"],
        issue_samples=np.array(item["issue_samples"], np.int64),
        peak_memory=item["peak_memory"],
        kernels=tuple(
            UsedKernel(names[place], str(op), str(kind), int(times), int(total), int(median))
            for place, op, kind, times, total, median in item["kernels"]
        ),
        kernel_tokens=int(item["kernel_tokens"]),
        captured=float(item["captured"]),
        generated=float(item["generated"]),
    )
