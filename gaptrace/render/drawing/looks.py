"""The vocabulary's looks as CSS and SVG: every cause by hue, by pattern and by word.

A look's class is its vocabulary's letter and its id: `k-sync`, `o-gemm`, `m-eager`, `h-decode`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gaptrace.render.elements import Child, Element, asset, element
from gaptrace.vocabulary import (
    CAUSES,
    HOST_CLASSES,
    LOOKS,
    MODES,
    OP_CLASSES,
    Look,
    Word,
    word_of,
)

TINT = 0.34
# The neutral colours that drawings need, (light, dark).
NEUTRALS = {
    "bg": ("#ffffff", "#14181b"),
    "ink": ("#1b1f22", "#e9ecee"),
    "soft": ("#586067", "#a3acb3"),
    "line": ("#d9dde0", "#343b41"),
    "block": ("#d8dee2", "#333c42"),
    "accent": ("#4a3fb5", "#b0a8ff"),
}
_LETTERS = {"cause": "k", "host": "k", "class": "o", "mode": "m", "phase": "h"}
PLAIN = "plain"
# Solid fills that are dark on a light page and light on a dark one.
_DEEP = frozenset({"k-busy", "k-dispatch", "o-gemm", "o-attention"})


def word(key: str, look: str = "cause") -> tuple[str, Word | None]:
    """The class and the entry of a key: of the vocabulary `look`, else of any that holds it."""
    name, entry = word_of(key, look)
    return (f"{_LETTERS[name]}-{key}" if name else PLAIN), entry


def css(key: str, look: str = "cause") -> str:
    """The class that draws a key; `plain` where no vocabulary holds it."""
    return word(key, look)[0]


def on(name: str) -> str:
    """The class of text on a fill: light or dark on plain colour, with a halo on a pattern."""
    return "inv" if name in _DEEP else "dark" if name.startswith("o-") else "halo"


@cache
def all_looks() -> Mapping[str, Look]:
    """Every look that fills a shape, by its class; modes are strokes and markers."""
    return {
        f"{_LETTERS[name]}-{key}": entry.look
        for name, entries in LOOKS.items()
        if name != "mode"
        for key, entry in entries.items()
    }


_DIAGONAL = "M-1 1l2-2M0 6L6 0M5 7l2-2"
# A pattern's tile: its size, its path, and how wide to stroke that; 0 to fill it.
TILES: Mapping[str, tuple[int, str, float]] = {
    "diagonal-dense": (6, _DIAGONAL, 2.2),
    "diagonal-wide": (12, "M-2 10l4 4M0 0l12 12M10-2l4 4", 3),
    "vertical": (4, "M0 0h1.7v4h-1.7z", 0),
    "horizontal": (4, "M0 0h4v1.5h-4z", 0),
    "cross": (7, "M0 3.5h7M3.5 0v7", 1.7),
    "dotted": (5, "M1 1h2v2h-2z", 0),
    "dots-large": (8, "M.1 2a1.9 1.9 0 1 0 3.8 0a1.9 1.9 0 1 0 -3.8 0z"
                      "M4.1 6a1.9 1.9 0 1 0 3.8 0a1.9 1.9 0 1 0 -3.8 0z", 0),
    "dots-small": (4, "M1 2a1 1 0 1 0 2 0a1 1 0 1 0 -2 0z", 0),
    "checker": (8, "M0 0h4v4h-4zM4 4h4v4h-4z", 0),
    "hatched-outline": (6, _DIAGONAL, 1),
}  # fmt: skip


def _tint(pattern: str) -> float:
    """How strong the colour is under a pattern."""
    return 0 if pattern == "hatched-outline" else TINT


def pattern_defs() -> Element:
    """The `<defs>`: `p-` + class for each look that is not solid, and `p-hatch`.

    What is predicted lies under `p-hatch`: strokes of the page's ground over its own colour.
    """
    tiles = [
        _tile(name, look.pattern) for name, look in all_looks().items() if look.pattern in TILES
    ]
    hatching = element("path", d=_DIAGONAL, class_="hatching")
    return element("defs", tiles, _pattern("hatch", 6, hatching))


def _tile(name: str, pattern: str) -> Element:
    size, d, stroke = TILES[pattern]
    fill, tint = f"f-{name}", _tint(pattern)
    ground = element("rect", width=size, height=size, class_=fill, fill_opacity=tint)
    ink = element("path", d=d, class_=f"s-{name}" if stroke else fill, stroke_width=stroke or None)
    return _pattern(name, size, ground if tint else None, ink)


def _pattern(name: str, size: int, *shapes: Child) -> Element:
    room = {"width": size, "height": size, "patternUnits": "userSpaceOnUse"}
    return element("pattern", shapes, id=f"p-{name}", **room)


def colour_rules() -> str:
    """CSS rules that need only the variables.

    `.k-sync` fills a shape with colour and pattern, `.l-k-sync` strokes a line with them,
    `.f-k-sync` and `.s-k-sync` are the plain colour as fill and stroke. `.m-eager` is a mode's
    curve and marker.
    """
    rules = [".l-call{stroke:var(--soft)}.l-op{stroke:var(--block)}.plain{fill:var(--block)}"]
    for name, look in all_looks().items():
        if look.pattern == "outline":
            rules.append(
                f".{name}{{fill:var(--bg);fill-opacity:.01;stroke:var(--soft);"
                "vector-effect:non-scaling-stroke}"
            )
            continue
        patterned = look.pattern in TILES
        fill = f"url(#p-{name})" if patterned else f"var(--{name})"
        rules.append(f".{name}{{fill:{fill}}}.l-{name}{{stroke:{fill}}}")
        if patterned:
            rules.append(
                f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name});fill:none}}"
            )
    rules += [f".m-{name}{{stroke:var(--m-{name});fill:var(--m-{name})}}" for name in MODES]
    rules.append(_SHAPES)
    return "\n".join(rules)


# How drawings look, the same on a page and in a file.
_SHAPES = """\
svg text{font-size:12px;fill:var(--ink);font-variant-numeric:tabular-nums}
svg text.soft{fill:var(--soft)}
svg text.strong{font-weight:600}
svg text.big{font-size:26px;font-weight:600}
svg .large{font-size:26px}
svg .small{font-size:12px;font-weight:400}
svg text.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
svg text.inv{fill:var(--bg)}
svg text.dark{fill:#0d1113}
.end{text-anchor:end}
.mid{text-anchor:middle}
.halo{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}
.hatch{fill:url(#p-hatch)}
.hatching{stroke:var(--bg);stroke-width:2.4;fill:none}
.rule,.axis,.grid{stroke:var(--line);fill:none}
.link,.zero{stroke:var(--soft)}
.ceiling{stroke:var(--ink);stroke-width:2}
.ceiling.dashed{stroke-dasharray:6 4}
.beyond{fill:var(--block);fill-opacity:.6}
.measured{fill:var(--accent)}
.range{stroke:var(--ink);stroke-width:1.5;fill:none}
.call{fill:var(--soft)}
.op{fill:var(--block)}
.edge{stroke:var(--soft);stroke-dasharray:3 3;vector-effect:non-scaling-stroke;fill:none}
.hit{fill:transparent}
.cut{stroke:var(--bg);stroke-width:3;fill:none}
.faded{opacity:.38}
.arrow{display:none;stroke:var(--ink);stroke-width:1.5;fill:none;vector-effect:non-scaling-stroke}
.names text{font-size:10.5px}
.curve{stroke-width:2;fill:none}
.curve.dashed{stroke-width:1.5;stroke-dasharray:6 4}
.curve.dotted{stroke-width:1.5;stroke-dasharray:1.5 4}
.mark.hollow{fill:var(--bg);stroke-width:2}
"""


def variables(scheme: str) -> str:
    """The CSS variables of one scheme, `light` or `dark`: neutrals and every look."""
    index = ("light", "dark").index(scheme)
    return "".join(f"--{name}:{value};" for name, value in _values(index))


def _values(index: int) -> Iterator[tuple[str, str]]:
    for name, pair in NEUTRALS.items():
        yield name, pair[index]
    looks = {**all_looks(), **{f"m-{key}": entry.look for key, entry in MODES.items()}}
    for name, look in looks.items():
        colour = (look.light, look.dark)[index]
        if colour != "none":
            yield name, colour


def standalone_style() -> Element:
    """The `<style>` of an SVG file: both schemes, chosen by the reader's system."""
    rules = (
        f"svg{{{variables('light')}}}"
        f"@media(prefers-color-scheme:dark){{svg{{{variables('dark')}}}}}"
        "text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif}"
        ".page{fill:var(--bg)}\n"
        f"{colour_rules()}\nsvg text.h{{font-size:16px;font-weight:600}}"
    )
    return asset("style", rules)


def canvas_looks() -> dict[str, list[dict[str, Any]]]:
    """The looks as plain data for the canvas, in the order that timeline data counts them.

    tile: of a look that is not plain colour, `TILES`' size, path and stroke, and the tint below.
    """
    from gaptrace.timeline.columns import CAUSES as ORDER
    from gaptrace.timeline.columns import CLASSES, HOST_STATES

    def plain(entry: Word) -> dict[str, Any]:
        look = entry.look
        tile = [*TILES[look.pattern], _tint(look.pattern)] if look.pattern in TILES else None
        colours = {"light": look.light, "dark": look.dark}
        return {"id": entry.id, "word": entry.label, **colours, "tile": tile}

    return {
        "causes": [plain(CAUSES[name]) for name in ORDER],
        "states": [plain(HOST_CLASSES[name]) for name in HOST_STATES],
        "classes": [plain(OP_CLASSES[name]) for name in CLASSES],
    }
