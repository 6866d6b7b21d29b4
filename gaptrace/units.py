"""The only place that turns numbers into text: three significant digits and one unit.

Times come in as nanoseconds. No thin spaces: they break copying, searching and wrapping. A comma
stands between thousands from 10,000 on.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from math import floor, isfinite, log10

from gaptrace.quantity import (
    BITS,
    BYTES,
    BYTES_PER_S,
    COUNT,
    JOULE,
    MEGAHERTZ,
    NS,
    POINTS,
    RANGE,
    SHARE,
    STEPS_PER_S,
    TIMES,
    TOKENS_PER_S,
    WATT,
    Quantity,
)

# What is printed for a number that is not there and whose reason stands elsewhere.
MISSING = "–"
MINUS = "−"

_TIMES = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))
_SIZES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))
_SCALES: dict[str, tuple[tuple[str, float], ...]] = {
    NS: _TIMES,
    BYTES: _SIZES,
    BYTES_PER_S: tuple((f"{name}/s", scale) for name, scale in _SIZES),
    SHARE: (("%", 0.01),),
    TOKENS_PER_S: (("tok/s", 1.0),),
    STEPS_PER_S: (("steps/s", 1.0),),
    COUNT: (("", 1.0),),
    TIMES: (("x", 1.0),),
    POINTS: (("points", 0.01),),
    BITS: (("bits", 1.0),),
    WATT: (("W", 1.0),),
    MEGAHERTZ: (("MHz", 1.0),),
    JOULE: (("J", 1.0),),
}
_SCALE_OF = {name: scale for scales in _SCALES.values() for name, scale in scales}
_BOUNDS = {"at_most": "≤ ", "at_least": "≥ ", "about": "~ "}


def _grouped(value: float, places: int) -> str:
    """A comma between thousands, but only from 10,000 on."""
    text = f"{value:,.{places}f}"
    return text if abs(value) >= 10_000 else text.replace(",", "")


def digits(value: float, significant: int = 3) -> str:
    """Text of `value` rounded to `significant` digits."""
    if not isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    places = significant - 1 - floor(log10(abs(value)))
    rounded = round(value, places)
    # 9.996 has become 10.00: one place less.
    places = significant - 1 - floor(log10(abs(rounded))) if rounded else places
    return _grouped(rounded, max(places, 0))


def count(value: float | None) -> str:
    """Text of a count: exact when whole, else three significant digits."""
    if value is None:
        return MISSING
    if isfinite(value) and float(value).is_integer():
        return _grouped(int(value), 0)
    return digits(float(value))


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun in the right number: `1 note`, `2 notes`."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def _fit(scales: tuple[tuple[str, float], ...], magnitude: float) -> str:
    """The largest unit in which the value is at least 1 (after rounding to three digits)."""
    shown = scales[0][0]
    for name, scale in scales:
        if magnitude >= 0.9995 * scale:
            shown = name
    return shown


def time_unit(ns: float) -> str:
    """The unit in which a time of `ns` nanoseconds is printed: `ns`, `µs`, `ms` or `s`."""
    return _fit(_TIMES, abs(ns))


def time(ns: float | None, unit: str | None = None) -> str:
    """Text of a duration in nanoseconds with its unit; `unit` fixes it for a whole column."""
    if ns is None:
        return MISSING
    unit = unit or time_unit(ns)
    return f"{time_value(ns, unit)} {unit}"


def time_value(ns: float | None, unit: str) -> str:
    """Text of a duration in nanoseconds expressed in `unit`, without the unit."""
    return MISSING if ns is None else digits(ns / _SCALE_OF[unit])


def share(part: float | None, whole: float | None) -> str:
    """Text of `part / whole` as a percentage: `63 %`; a non-zero share never reads `0 %`."""
    if part is None or not whole:
        return MISSING
    return f"{_percent(part / whole)} %"


def _percent(value: float) -> str:
    percent = 100.0 * value
    if percent == 0:
        return "0"
    if abs(percent) < 0.1:
        return "< 0.1" if percent > 0 else f"> {MINUS}0.1"
    if abs(percent) < 9.95 or 99 < abs(percent) < 100:
        return f"{percent:.1f}"
    return f"{percent:.0f}" if abs(percent) < 1000 else digits(percent)


def rate(tokens_per_s: float | None) -> str:
    """Text of a token rate: `41.2 tok/s`."""
    return MISSING if tokens_per_s is None else f"{digits(tokens_per_s)} tok/s"


def size(value: float | None) -> str:
    """Text of a byte count in powers of ten: `1.84 MB`."""
    if value is None:
        return MISSING
    unit = _fit(_SIZES, abs(value))
    return f"{digits(value / _SCALE_OF[unit])} {unit}"


def bandwidth(bytes_per_s: float | None) -> str:
    """Text of a bandwidth in powers of ten: `4.80 TB/s`."""
    return MISSING if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def shown_unit(values: Iterable[Quantity], unit: str) -> str:
    """The unit that a column of `unit` is shown in, chosen by the median size of its values."""
    scales = _SCALES[unit]
    if len(scales) == 1:
        return scales[0][0]
    sizes = sorted(
        abs(v)
        for q in values
        if q.unit == unit
        if (v := q.value if q.value is not None else q.high) is not None and v
    )
    return _fit(scales, sizes[len(sizes) // 2] if sizes else 0)


def number(value: float, unit: str, shown: str, *, signed: bool = False) -> str:
    """Text of one value of `unit` in the unit shown, without the unit's name."""
    scaled = value / _SCALE_OF[shown]
    if unit == COUNT:
        text = count(abs(scaled))
    elif unit == SHARE:
        text = _percent(abs(value))
        if text.startswith("<"):
            return f"> {MINUS}0.1" if value < 0 else f"< {'+' if signed else ''}0.1"
    else:
        text = digits(abs(scaled))
    sign = MINUS if value < 0 else "+" if signed and value > 0 else ""
    return f"{sign}{text}"


def value_text(quantity: Quantity, shown: str | None = None) -> str:
    """A quantity without its unit, for a column whose header names it; else its reason.

    `≤`, `≥` and `~` say a bound; a range reads `low to high`, with the value before it where one
    is known.
    """
    if not quantity.known:
        return quantity.reason or MISSING
    shown = shown or shown_unit([quantity], quantity.unit)
    if quantity.bound == RANGE and quantity.low is not None and quantity.high is not None:
        ends = " to ".join(
            number(end, quantity.unit, shown, signed=quantity.signed)
            for end in (quantity.low, quantity.high)
        )
        if quantity.value is None:
            return ends
        return f"{number(quantity.value, quantity.unit, shown)} ({ends})"
    assert quantity.value is not None
    text = number(quantity.value, quantity.unit, shown, signed=quantity.signed)
    return f"{_BOUNDS.get(quantity.bound, '')}{text}"


def text(quantity: Quantity, shown: str | None = None) -> str:
    """A quantity with its unit: `4.74 ms`, `≤ 5.89 ms`, `490 µs (471 to 547)`, `63 %`."""
    if not quantity.known:
        return quantity.reason or MISSING
    shown = shown or shown_unit([quantity], quantity.unit)
    if not shown:
        return value_text(quantity, shown)
    joint = "" if shown == "x" else " "
    if quantity.bound == RANGE and quantity.low is not None and quantity.value is not None:
        value, _, rest = value_text(quantity, shown).partition(" (")
        return f"{value}{joint}{shown} ({rest}"
    return f"{value_text(quantity, shown)}{joint}{shown}"


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
