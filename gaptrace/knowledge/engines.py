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
    """What shows that an engine does one part of a step: annotations, and Python frames."""

    engine: str
    part: str
    label: re.Pattern[str] | None
    frame: re.Pattern[str] | None


@dataclass(frozen=True)
class Engine:
    """A serving engine, and what in a trace's process names and frame paths tells it."""

    id: str
    package: str
    process: str | None = None


@lru_cache(maxsize=1)
def engines() -> tuple[Engine, ...]:
    """Every engine known, in the order of the file."""
    return tuple(Engine(**row) for row in table("engines.toml")["engine"])


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
            label=_any(row.get("labels", ())),
            frame=_any([_frame(text) for text in row.get("frames", ())]),
        )
        for row in table("engines.toml")["part"]
    )


def part_titles() -> dict[str, str]:
    """Ids of the host parts and the words for them, in the order of every table."""
    return dict(table("engines.toml")["parts"])


def _any(patterns: list[str] | tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{p})" for p in patterns), re.ASCII) if patterns else None


def _frame(text: str) -> str:
    """A pattern for Kineto's text of a frame, `path/file.py(line): function`, by its path's end."""
    file, _, functions = text.partition(": ")
    return rf"(?:^|/){re.escape(file)}\(\d+\): (?:{functions})$"
