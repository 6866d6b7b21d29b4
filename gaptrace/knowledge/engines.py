"""What each serving engine writes into a trace, from engines.toml: label styles and host parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gaptrace.knowledge.tables import table

Role = Literal["step", "iteration", "draft", "verify", "draft_extend", "capture", "part"]


@dataclass(frozen=True)
class Beside:
    """How a label reads where the trace also has labels of `role` of its engine and batch."""

    role: Role
    phase: str
    becomes: Role | None


@dataclass(frozen=True, eq=False)
class LabelStyle:
    """One form of label; the keys of engines.toml, whose head says what each of them means."""

    engine: str | None
    style: str
    role: Role
    pattern: re.Pattern[str]
    phase: str | None
    phases: Mapping[str, str]
    fields: Mapping[str, tuple[str, ...]]
    tokens: Literal["one", "speculative", "unknown"]
    beside: Beside | None
    shared: bool
    example: str
    since: str


@dataclass(frozen=True, eq=False)
class EnginePart:
    """What shows that an engine does one part of a step.

    own_label: annotations that this engine alone writes. label: those and the ones that it shares
    with other programs. frame: Python frames.
    """

    engine: str
    part: str
    own_label: re.Pattern[str] | None
    label: re.Pattern[str] | None
    frame: re.Pattern[str] | None


@dataclass(frozen=True)
class Engine:
    """A serving engine, and what in a trace's process names and Python frames tells it.

    step_frame, idle_frame: frames that run one pass, with requests and without.
    """

    id: str
    process: str | None
    package: str
    step_frame: re.Pattern[str] | None
    idle_frame: re.Pattern[str] | None


@lru_cache(maxsize=1)
def engines() -> tuple[Engine, ...]:
    """Every engine known, in the order in which a trace is asked for them."""
    return tuple(
        Engine(
            id=row["id"],
            process=row.get("process"),
            package=row["package"],
            step_frame=_frames(row.get("steps", [])),
            idle_frame=_frames(row.get("idle", [])),
        )
        for row in table("engines.toml")["engine"]
    )


@lru_cache(maxsize=1)
def label_styles() -> tuple[LabelStyle, ...]:
    """Every form of label, in the order in which they are tried."""
    return tuple(
        LabelStyle(
            engine=row.get("engine"),
            style=row["style"],
            role=row["role"],
            pattern=re.compile(row["pattern"], re.ASCII),
            phase=row.get("phase"),
            phases=row.get("phases", {}),
            fields={fact: tuple(keys) for fact, keys in row.get("fields", {}).items()},
            tokens=row.get("tokens", "one"),
            beside=_beside(row.get("beside")),
            shared=row.get("shared", False),
            example=row["example"],
            since=row["since"],
        )
        for row in table("engines.toml")["label"]
    )


def _beside(row: Mapping[str, str] | None) -> Beside | None:
    if row is None:
        return None
    known: dict[str, Role] = {"step": "step", "verify": "verify", "draft": "draft"}
    becomes = row.get("becomes")
    return Beside(known[row["role"]], row["phase"], None if becomes is None else known[becomes])


@lru_cache(maxsize=1)
def engine_parts() -> tuple[EnginePart, ...]:
    """The parts of every engine, in the order of the file."""
    return tuple(
        EnginePart(
            engine=row["engine"],
            part=row["part"],
            own_label=_any(row.get("labels", [])),
            label=_any([*row.get("labels", []), *row.get("shared", [])]),
            frame=_frames(row.get("frames", [])),
        )
        for row in table("engines.toml")["part"]
    )


def part_titles() -> dict[str, str]:
    """Ids of the host parts and the words for them, in the order of every table."""
    return dict(table("engines.toml")["parts"])


def _any(patterns: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{p})" for p in patterns), re.ASCII) if patterns else None


def _frames(texts: list[str]) -> re.Pattern[str] | None:
    """Matches Kineto's text of such frames, `path/file.py(line): function`, by the path's end."""
    patterns = []
    for text in texts:
        file, _, functions = text.partition(": ")
        path = re.escape(file).replace(r"\*", "[^/]+")
        patterns.append(rf"(?:^|/){path}\(\d+\): (?:{functions})$")
    return _any(patterns)
