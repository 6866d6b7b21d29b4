"""gaptrace: why is the GPU idle during LLM decode? Exact answers from torch.profiler traces.

import gaptrace

analysis = gaptrace.analyze(gaptrace.load("trace.json.gz"))
print(analysis.sentence)
analysis.steps, analysis.gaps  # pandas frames
analysis.summary  # what `gaptrace analyze --json` prints
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaptrace.errors import GaptraceError

if TYPE_CHECKING:
    from gaptrace.analysis.analyze import analyze as analyze
    from gaptrace.analysis.compare.compare import compare as compare
    from gaptrace.analysis.compare.result import Comparison as Comparison
    from gaptrace.analysis.options import Options as Options
    from gaptrace.analysis.result import Analysis as Analysis
    from gaptrace.load import load as load
    from gaptrace.trace import Trace as Trace

__version__ = "0.1.0"
__all__ = [
    "Analysis",
    "Comparison",
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
    "Analysis": "gaptrace.analysis.result",
    "Comparison": "gaptrace.analysis.compare.result",
    "Options": "gaptrace.analysis.options",
    "Trace": "gaptrace.trace",
    "analyze": "gaptrace.analysis.analyze",
    "compare": "gaptrace.analysis.compare.compare",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "load":
        return import_module("gaptrace.load").load
    if name not in _WHERE:
        raise AttributeError(f"module 'gaptrace' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
