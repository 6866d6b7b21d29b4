"""Who imports whom: no circle among modules, and the layers as drawn in gaptrace/README.md.

Imports inside functions and for type checking count: a circle that only a type checker sees is a
circle that a reader has to follow. The one exception is the command line, which finds the module
of a command when it is asked for, by name.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "gaptrace": ROOT / "gaptrace",
    "gaptrace_collectors": ROOT / "collectors/gaptrace_collectors",
    "gaptrace_inductor": ROOT / "collectors/gaptrace_inductor",
    "gaptrace_dashboards": ROOT / "dashboards/gaptrace_dashboards",
}


def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of ours that a module imports, wherever in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in known:
                    yield inner
                elif base in known:
                    yield base


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: set(imports(name, path, known)) - {name} for name, path in known.items()}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (strongly connected components, Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def test_a_circle_is_found_in_a_drawing() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_there_is_no_circle_among_modules(graph: Mapping[str, set[str]]) -> None:
    assert len(graph) > 200
    assert circles(graph) == []


# Who may import whom, the highest room first: a room may import only rooms below it.
LAYERS = (
    ("gaptrace_dashboards",),
    ("gaptrace.cli",),
    ("gaptrace.render",),
    ("gaptrace.runs",),
    ("gaptrace.analysis",),
    ("gaptrace.document",),
    ("gaptrace.timeline",),
    ("gaptrace.predict",),
    ("gaptrace.findings",),
    ("gaptrace.compare",),
    ("gaptrace.measure",),
    ("gaptrace.reading",),
    ("gaptrace.results",),
    ("gaptrace.knowledge",),
    ("gaptrace.vocabulary", "gaptrace.units"),
    ("gaptrace.quantity", "gaptrace.trace"),
    ("gaptrace.intervals", "gaptrace.errors"),
)


def layer(module: str) -> int | None:
    """How high a module stands, the highest 0; None for what stands beside the house."""
    for i, rooms in enumerate(LAYERS):
        if any(module == room or module.startswith(f"{room}.") for room in rooms):
            return i
    return None


def test_rooms_import_only_rooms_below_them(graph: Mapping[str, set[str]]) -> None:
    wrong = [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if (own := layer(name)) is not None
        and (theirs := layer(other)) is not None
        and own > theirs
        # The dashboard is a command like any other, found when it is asked for.
        and name != "gaptrace.cli.dashboard"
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ["compare", "measure", "reading"])
def test_measurements_know_no_units(room: str, graph: Mapping[str, set[str]]) -> None:
    importers = [
        name
        for name, others in graph.items()
        if name.startswith(f"gaptrace.{room}") and "gaptrace.units" in others
    ]
    assert importers == []


def test_the_recorder_knows_nothing_of_the_library(graph: Mapping[str, set[str]]) -> None:
    wrong = {
        other
        for name, others in graph.items()
        if name.startswith("gaptrace_collectors")
        for other in others
        if not other.startswith("gaptrace_collectors")
    }
    assert wrong == set()


def test_importing_gaptrace_imports_nothing_heavy() -> None:
    code = (
        "import sys, gaptrace\n"
        "heavy = {'numpy', 'pandas', 'torch', 'dash', 'plotly', 'click', 'msgspec'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
