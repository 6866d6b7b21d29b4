"""Asking Inductor in this process, of files: what `gaptrace predict` does by way of a child."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from gaptrace.predict.eager import eager_data
from gaptrace.reading.loading import load
from gaptrace_inductor import eager, execution_trace


def eager_of(trace: Path) -> eager.Eager:
    """The eager recording of a Kineto trace, through the file that the child gets."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(eager_data(load(trace)), file)
        file.flush()
        return eager.read(file.name)


def predict(path: Path, trace: Path | None = None, **options: Any) -> dict[str, Any]:
    """The `gaptrace.inductor/1` object for an execution trace and the Kineto trace beside it."""
    from gaptrace_inductor import prediction

    recording = None if trace is None else eager_of(trace)
    return prediction.predict(execution_trace.read(path), recording, **options)
