"""The only place that turns numbers into text: three significant digits, one unit, thin spaces.

Times come in as integer nanoseconds. Microseconds are used below 10 ms and milliseconds above,
so that a step and its gaps can be read side by side.
"""

from __future__ import annotations

import textwrap

THIN = "\u2009"
MISSING = "–"

_MS_FROM_NS = 10_000_000
_S_FROM_NS = 10_000_000_000


def digits(value: float, significant: int = 3) -> str:
    """Text of `value` with `significant` digits and thin spaces between thousands."""
    if value != value or value in (float("inf"), float("-inf")):
        return MISSING
    if value == 0:
        return "0"
    magnitude = abs(value)
    places = significant - 1
    while magnitude >= 10 and places > 0:
        magnitude /= 10
        places -= 1
    if abs(value) < 1:
        magnitude = abs(value)
        while magnitude < 0.1 and places < 9:
            magnitude *= 10
            places += 1
    return f"{value:,.{places}f}".replace(",", THIN)


def count(value: float | None) -> str:
    """Text of a count: exact when whole, else three significant digits."""
    if value is None:
        return MISSING
    if float(value).is_integer():
        return f"{int(value):,}".replace(",", THIN)
    return digits(float(value))


def time_unit(ns: float) -> str:
    """The unit in which a time of `ns` nanoseconds is printed: `µs` under 10 ms, then `ms`, `s`."""
    magnitude = abs(ns)
    if magnitude < _MS_FROM_NS:
        return "µs"
    return "ms" if magnitude < _S_FROM_NS else "s"


def time(ns: float | None, unit: str | None = None) -> str:
    """Text of a duration in nanoseconds with its unit; `unit` fixes it for a whole column."""
    if ns is None:
        return MISSING
    unit = unit or time_unit(ns)
    return f"{time_value(ns, unit)} {unit}"


def time_value(ns: float | None, unit: str) -> str:
    """Text of a duration in nanoseconds expressed in `unit`, without the unit."""
    if ns is None:
        return MISSING
    scale = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    return digits(ns / scale)


def share(part: float | None, whole: float | None) -> str:
    """Text of `part / whole` as a percentage: `63 %`; a non-zero share never reads `0 %`."""
    if part is None or not whole:
        return MISSING
    percent = 100.0 * part / whole
    if percent == 0:
        return "0 %"
    if abs(percent) < 0.1:
        return "< 0.1 %"
    if abs(percent) < 9.95 or 99 < abs(percent) < 100:
        return f"{percent:.1f} %"
    return f"{percent:.0f} %"


def rate(tokens_per_s: float | None) -> str:
    """Text of a token rate: `41.2 tok/s`."""
    return MISSING if tokens_per_s is None else f"{digits(tokens_per_s)} tok/s"


def size(value: float | None) -> str:
    """Text of a byte count in powers of ten: `1.84 MB`."""
    if value is None:
        return MISSING
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(amount) < 1000:
            return f"{digits(amount)} {unit}"
        amount /= 1000
    return f"{digits(amount)} TB"


def bandwidth(bytes_per_s: float | None) -> str:
    """Text of a bandwidth in powers of ten: `4.80 TB/s`."""
    return MISSING if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def middle_elided(text: str, width: int) -> str:
    """`text` cut in the middle to `width` characters, so that both ends stay readable."""
    if len(text) <= width:
        return text
    head = (width - 1 + 1) // 2
    tail = width - 1 - head
    return f"{text[:head]}…{text[-tail:] if tail else ''}"


def two_lines(text: str, width: int) -> list[str]:
    """`text` in at most two lines of `width` characters; the second may lose its middle.

    An empty text has no line.
    """
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    return lines if len(lines) <= 2 else [lines[0], middle_elided(" ".join(lines[1:]), width)]
