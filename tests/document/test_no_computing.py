"""A document words what a result holds: it computes no figure and reads no trace."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gaptrace.results.codec import to_json
from tests.document.material import sample

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "gaptrace/document"
# Pictures ask the trace; everything else is a function of plain data.
FILES = sorted(path for path in FOLDER.glob("*.py") if path.name != "pictures.py")
ARITHMETIC = (ast.Mult, ast.Div, ast.FloorDiv, ast.Pow)
# What is not a figure: seconds of the recorder in ns.
ALLOWED = {("tables.py", "seconds")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_figure_is_computed(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [
        (path.name, function.name)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC)
    ]
    assert set(found) <= ALLOWED


def test_a_document_needs_neither_trace_nor_measurement(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(to_json(sample()), encoding="utf-8")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from gaptrace.document.build import document\n"
        "from gaptrace.results.analysis import AnalysisResult\n"
        "from gaptrace.results.codec import from_json\n"
        "result = from_json(Path(sys.argv[1]).read_text(), AnalysisResult, 'it')\n"
        "print(len(document(result).sections) > 10)\n"
        "rooms = ['measure', 'reading', 'predict', 'findings', 'timeline']\n"
        "heavy = ('numpy', *(f'gaptrace.{room}' for room in rooms))\n"
        "print(sorted(m for m in sys.modules if m.startswith(heavy)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["True", "[]"]
