"""Points of a sweep: one batch size, one length, or both; each is a run folder of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

BATCH = "{batch}"


@dataclass(frozen=True)
class Point:
    """Where in a sweep a recording lies; both None outside of one."""

    batch: int | None = None
    length: int | None = None

    @property
    def folder(self) -> str:
        """Name of the point's folder, empty outside of a sweep."""
        parts = []
        if self.batch is not None:
            parts.append(f"batch-{self.batch}")
        if self.length is not None:
            parts.append(f"length-{self.length}")
        return "-".join(parts)

    def to_json(self) -> dict[str, int | None] | None:
        """The point as it stands in run.json."""
        return {"batch": self.batch, "length": self.length} if self.folder else None


def sizes(text: str | None) -> tuple[int, ...]:
    """Whole numbers from `1,8,64`, ascending and without doubles. Raises ValueError."""
    if not text:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch(r"\d+", word) and int(word) > 0 for word in words):
        raise ValueError(f"{text!r} is not a list of whole numbers like 1,8,64")
    return tuple(sorted({int(word) for word in words}))


def with_batch(args: tuple[str, ...], batch: int | None) -> tuple[str, ...]:
    """A script's arguments, with `{batch}` replaced by the batch size."""
    if batch is None:
        return args
    return tuple(word.replace(BATCH, str(batch)) for word in args)
