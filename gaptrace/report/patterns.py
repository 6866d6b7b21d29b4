"""Colours and patterns as SVG and CSS: every cause by hue, by pattern and by word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gaptrace.report import palette
from gaptrace.report.markup import Markup, element, markup
from gaptrace.report.palette import Look

TINT = 0.34
# The neutral colours that drawings need, (light, dark); pages define the same names.
NEUTRALS = {
    "bg": ("#ffffff", "#14181b"),
    "ink": ("#1b1f22", "#e9ecee"),
    "soft": ("#586067", "#a3acb3"),
    "line": ("#d9dde0", "#343b41"),
    "block": ("#d8dee2", "#333c42"),
    "accent": ("#4a3fb5", "#b0a8ff"),
}


def looks() -> Mapping[str, Look]:
    """Every look by the name of its CSS variable and class: causes, host states, op classes."""
    found = {f"k-{name}": look for name, look in palette.HOST.items()}
    found["k-busy"] = palette.BUSY
    found.update({f"o-{name}": look for name, look in palette.OP_CLASSES.items()})
    return found


def pattern_defs() -> Markup:
    """The `<defs>` with one pattern for each look that is not solid; ids are `p-` + name."""
    tiles = [
        _pattern(name, look.pattern)
        for name, look in looks().items()
        if look.pattern not in ("solid", "outline")
    ]
    # What is predicted is hatched in the colour that the measured has.
    return element("defs", *tiles, _pattern("k-busy", "diagonal-dense"))


def _pattern(name: str, kind: str) -> Markup:
    size, tint, shapes = _TILES[kind]
    colour = f"f-{name}"
    ground = element("rect", width=size, height=size, class_=colour, fill_opacity=tint)
    drawn = [
        element(tag, class_=colour if tag != "path" else f"s-{name}", **attributes)
        for tag, attributes in shapes
    ]
    return element(
        "pattern",
        ground if tint else None,
        *drawn,
        id=f"p-{name}",
        width=size,
        height=size,
        patternUnits="userSpaceOnUse",
    )


_TILES: dict[str, tuple[int, float, tuple[tuple[str, dict[str, object]], ...]]] = {
    "diagonal-dense": (
        6,
        TINT,
        (("path", {"d": "M-1 1l2-2M0 6L6 0M5 7l2-2", "stroke_width": 2.2}),),
    ),
    "diagonal-wide": (
        12,
        TINT,
        (("path", {"d": "M-2 10l4 4M0 0l12 12M10-2l4 4", "stroke_width": 3}),),
    ),
    "vertical": (4, TINT, (("rect", {"width": 1.7, "height": 4}),)),
    "horizontal": (4, TINT, (("rect", {"width": 4, "height": 1.5}),)),
    "cross": (7, TINT, (("path", {"d": "M0 3.5h7M3.5 0v7", "stroke_width": 1.7}),)),
    "dots-large": (
        8,
        TINT,
        (("circle", {"cx": 2, "cy": 2, "r": 1.9}), ("circle", {"cx": 6, "cy": 6, "r": 1.9})),
    ),
    "dots-small": (4, TINT, (("circle", {"cx": 2, "cy": 2, "r": 1}),)),
    "checker": (
        8,
        TINT,
        (
            ("rect", {"width": 4, "height": 4}),
            ("rect", {"x": 4, "y": 4, "width": 4, "height": 4}),
        ),
    ),
    "hatched-outline": (6, 0, (("path", {"d": "M-1 1l2-2M0 6L6 0M5 7l2-2", "stroke_width": 1}),)),
}


def colour_rules() -> str:
    """CSS rules that need only the variables.

    `.k-sync` fills a shape with colour and pattern, `.l-k-sync` strokes a line with them,
    `.f-k-sync` and `.s-k-sync` are the plain colour as fill and stroke. `.m-eager` is a mode's
    curve and marker.
    """
    rules = [".l-call{stroke:var(--soft)}", ".l-op{stroke:var(--block)}"]
    for name, look in looks().items():
        if look.pattern == "outline":
            rules.append(f".{name}{{fill:var(--bg);fill-opacity:.01;stroke:var(--soft)}}")
            continue
        fill = f"var(--{name})" if look.pattern == "solid" else f"url(#p-{name})"
        rules.append(f".{name}{{fill:{fill}}}")
        rules.append(f".l-{name}{{stroke:{fill}}}")
        if look.pattern != "solid" or name == "k-busy":
            rules.append(f".f-{name}{{fill:var(--{name})}}")
            rules.append(f".s-{name}{{stroke:var(--{name});fill:none}}")
    rules += [f".m-{name}{{stroke:var(--m-{name});fill:var(--m-{name})}}" for name in palette.MODES]
    rules += [
        ".curve{stroke-width:2;fill:none}",
        ".curve.launch{stroke-width:1.5;stroke-dasharray:6 4}",
        ".curve.bandwidth{stroke-width:1.5;stroke-dasharray:1.5 4}",
        ".curve.predicted{stroke-dasharray:4 3}",
        ".mark.predicted{fill:var(--bg);stroke-width:2}",
        ".grid{stroke:var(--line);fill:none}",
    ]
    return "\n".join(rules)


def variables(scheme: str) -> str:
    """The CSS variables of one scheme, `light` or `dark`: neutrals and every look."""
    index = ("light", "dark").index(scheme)
    return "".join(f"--{name}:{value};" for name, value in _values(index))


def _values(index: int) -> Iterator[tuple[str, str]]:
    for name, pair in NEUTRALS.items():
        yield name, pair[index]
    for name, look in looks().items():
        colour = (look.light, look.dark)[index]
        if colour != "none":
            yield name, colour
    for name, look in palette.MODES.items():
        yield f"m-{name}", (look.light, look.dark)[index]


def standalone_style() -> Markup:
    """The `<style>` of an SVG file: both schemes, chosen by the reader's system."""
    rules = (
        f"svg{{{variables('light')}}}"
        f"@media(prefers-color-scheme:dark){{svg{{{variables('dark')}}}}}"
        "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:var(--ink);"
        "font-variant-numeric:tabular-nums}"
        ".h{font-size:16px;font-weight:600}.soft{fill:var(--soft)}.end{text-anchor:end}"
        ".mid{text-anchor:middle}.page{fill:var(--bg)}.rule{stroke:var(--line);fill:none}"
        ".call{fill:var(--soft)}.op{fill:var(--block)}.strong{font-weight:600}"
        ".edge{stroke:var(--soft);stroke-dasharray:3 3}.link{stroke:var(--soft)}"
        ".arrow{display:none}.hit{fill:transparent}"
        ".halo{paint-order:stroke;stroke:var(--bg);stroke-width:3px}"
        f"{colour_rules()}"
    )
    return markup(Markup(f"<style>{rules}</style>"))


def canvas_looks() -> dict[str, list[dict[str, str]]]:
    """The looks as plain data for the canvas, in the order that timeline data counts them."""
    from gaptrace.measure.gaps import CAUSES
    from gaptrace.measure.kernels import OP_CLASSES
    from gaptrace.report.timeline_data import HOST_STATES

    def plain(name: str, look: Look) -> dict[str, str]:
        return {
            "id": name,
            "word": look.word,
            "light": look.light,
            "dark": look.dark,
            "pattern": look.pattern,
        }

    return {
        "causes": [plain(name, palette.CAUSES[name]) for name in CAUSES],
        "states": [plain(name, palette.HOST[name]) for name in HOST_STATES],
        "classes": [plain(name, palette.OP_CLASSES[name]) for name in OP_CLASSES],
    }
