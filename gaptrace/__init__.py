"""gaptrace: why is the GPU idle during LLM decode? Exact answers from torch.profiler traces.

import gaptrace

analysis = gaptrace.analyze(gaptrace.load("trace.json.gz"))
print(analysis.sentence)
analysis.steps, analysis.gaps  # pandas frames
analysis.result  # plain data; analysis.summary is what `gaptrace analyze --json` prints
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaptrace.errors import GaptraceError

if TYPE_CHECKING:
    from gaptrace.analysis import Analysis as Analysis
    from gaptrace.analysis import analyze as analyze
    from gaptrace.measure.options import Options as Options
    from gaptrace.reading.loading import load as load
    from gaptrace.results.comparison import ComparisonResult as ComparisonResult
    from gaptrace.runs.compared import compare as compare
    from gaptrace.trace import Trace as Trace

    __version__: str

__all__ = [
    "Analysis",
    "ComparisonResult",
    "GaptraceError",
    "Options",
    "Trace",
    "__version__",
    "analyze",
    "compare",
    "load",
]

# Found on first use, so that `import gaptrace` costs next to nothing.
_WHERE = {
    "Analysis": "gaptrace.analysis",
    "ComparisonResult": "gaptrace.results.comparison",
    "Options": "gaptrace.measure.options",
    "Trace": "gaptrace.trace",
    "analyze": "gaptrace.analysis",
    "compare": "gaptrace.runs.compared",
    "load": "gaptrace.reading.loading",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        # The version stands in pyproject.toml alone; an installed package carries it.
        from importlib.metadata import PackageNotFoundError, version

        try:
            globals()[name] = version("torch-gaptrace")
        except PackageNotFoundError:
            globals()[name] = "not installed"
        return globals()[name]
    if name not in _WHERE:
        raise AttributeError(f"module 'gaptrace' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
