"""A trace of any size, made by repeating a real one with its ids and times shifted.

    python tests/benchmarks/make_big_trace.py SOURCE OUT --mb 400

Each copy follows the one before in time; correlations, External ids, Python ids, event indices and
flow ids are moved by a stride, so that links hold inside a copy and never across two. The layout is
Kineto's own. Copies are streamed: memory does not depend on the size.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MB = 1_000_000
_IDS = (
    "correlation",
    "External id",
    "external id",
    "Python id",
    "Python parent id",
    "Ev Idx",
    "Record function id",
)
_NUMBER = re.compile(
    r'(?P<key>"(?:ts|id|' + "|".join(_IDS) + r')": )(?P<number>-?\d+(?:\.\d+)?)(?=[,\s}])'
)


def copies(template: str, stride: int, span_us: int) -> Iterator[str]:
    """The events' text again and again, each time shifted once more."""
    pieces: list[str] = []
    shifts: list[Callable[[int], str]] = []
    at = 0
    for match in _NUMBER.finditer(template):
        pieces.append(template[at : match.start("number")])
        shifts.append(_shifter(match["key"], match["number"], stride, span_us))
        at = match.end()
    rest = template[at:]
    n = 0
    while True:
        yield (
            "".join(
                [x for piece, shift in zip(pieces, shifts, strict=True) for x in (piece, shift(n))]
            )
            + rest
        )
        n += 1


def _shifter(key: str, number: str, stride: int, span_us: int) -> Callable[[int], str]:
    if key == '"ts": ':
        whole, dot, fraction = number.partition(".")
        start = int(whole)
        return lambda n: f"{start + n * span_us}{dot}{fraction}"
    value = int(float(number))
    if value == 0:
        return lambda _: number
    return lambda n: str(value + n * stride)


def _event(event: dict[str, Any]) -> str:
    """One event as Kineto lays it out."""
    event = dict(event)
    args = event.pop("args", None)
    first = {key: event.pop(key) for key in ("ph", "cat", "name", "pid", "tid") if key in event}
    lines = ["    " + _pairs(first)]
    if event:
        lines.append("    " + _pairs(event))
    if args is not None:
        lines.append('    "args": {\n      ' + _pairs(args) + "\n    }")
    return "  {\n" + ",\n".join(lines) + "\n  }"


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{json.dumps(key)}: {_value(value)}" for key, value in values.items())


def _value(value: Any) -> str:
    return value.text if isinstance(value, _Decimal) else json.dumps(value)


class _Decimal(float):
    """A number that remembers its text: times keep their three decimals."""

    text: str

    def __new__(cls, text: str) -> _Decimal:
        self = super().__new__(cls, text)
        self.text = text
        return self


def make(source: Path, out: Path, size: int) -> int:
    """Write about `size` bytes of JSON; gives the number of copies."""
    raw = source.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    document = json.loads(text, parse_float=_Decimal)
    if isinstance(document, list):
        document = {"traceEvents": document}
    events = document.pop("traceEvents")
    timed = [event for event in events if event.get("ph") != "M" and event.get("cat") != "Trace"]
    complete = [event for event in timed if event.get("ph") == "X"]
    begin = min(float(event["ts"]) for event in complete)
    end = max(float(event["ts"]) + float(event["dur"]) for event in complete)
    # A multiple of 1 ms, so that a shift never touches the decimals.
    span = (int(end - begin) // 1000 + 2) * 1000
    head = "{\n" + "".join(
        f"  {json.dumps(key)}: {json.dumps(value)},\n"
        for key, value in document.items()
        if key != "traceName"
    )
    metadata = [event for event in events if event.get("ph") == "M"]
    template = ",\n".join(map(_event, timed))
    stride = 1 + max(
        (
            int(float(match["number"]))
            for match in _NUMBER.finditer(template)
            if "ts" not in match["key"]
        ),
        default=0,
    )
    count = 0
    with gzip.open(out, "wt", compresslevel=6) if out.suffix == ".gz" else out.open("w") as file:
        written = file.write(head + '  "traceEvents": [\n' + ",\n".join(map(_event, metadata)))
        for copy in copies(template, stride, span):
            written += file.write(",\n" + copy)
            count += 1
            if written >= size:
                break
        file.write(f'\n  ],\n  "traceName": {json.dumps(out.name)}\n}}\n')
    return count


def main() -> None:
    """Read the options and make the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("source", type=Path, help="a real trace, .json or .json.gz")
    parser.add_argument("out", type=Path, help="where to write; .gz compresses")
    parser.add_argument("--mb", type=float, default=400, help="size of the JSON in 10^6 bytes")
    options = parser.parse_args()
    count = make(options.source, options.out, int(options.mb * MB))
    sys.stdout.write(f"Wrote {options.out}: {count} copies\n")


if __name__ == "__main__":
    main()
