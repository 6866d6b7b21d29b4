"""The names of all objects and what they are: for `gaptrace schema` and whoever reads our JSON."""

from __future__ import annotations

import difflib
from typing import Any

from gaptrace.errors import OptionError
from gaptrace.results.analysis import ANALYSIS, AnalysisResult
from gaptrace.results.codec import json_schema
from gaptrace.results.comparison import COMPARISON, ComparisonResult
from gaptrace.results.gaps import GAPS, GapsResult
from gaptrace.results.manifest import COLLECT_SCHEMA, RUN_SCHEMA, CollectIndex, RunManifest
from gaptrace.results.prediction import PREDICTION, PredictionResult
from gaptrace.results.run import RUN, SWEEP, RunResult, SweepResult

SCHEMAS: dict[str, type] = {
    ANALYSIS: AnalysisResult,
    RUN: RunResult,
    SWEEP: SweepResult,
    COMPARISON: ComparisonResult,
    PREDICTION: PredictionResult,
    GAPS: GapsResult,
    RUN_SCHEMA: RunManifest,
    COLLECT_SCHEMA: CollectIndex,
}


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of an object, by its name with or without version and `gaptrace.`.

    Raises:
        OptionError: there is no such object; the hint names the nearest ones.
    """
    short = {full.removeprefix("gaptrace.").partition("/")[0]: full for full in SCHEMAS}
    key = name.strip().removeprefix("gaptrace.").partition("/")[0].lower()
    full = name if name in SCHEMAS else short.get(key)
    if full is None:
        near = difflib.get_close_matches(key, short, 3, 0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(SCHEMAS)}"
        raise OptionError(f"no schema is called {name!r}", hint)
    return json_schema(SCHEMAS[full], full)
