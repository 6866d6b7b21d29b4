"""Starts the Inductor oracle as a child of its own, with a Python that has torch."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaptrace.errors import GaptraceError
from gaptrace.predict.saved import checked

# The name of every message of the child, so that it can be told from torch's own chatter.
_SPEAKER = "gaptrace_collectors.inductor: "
NO_TORCH = "pip install 'torch-gaptrace[predict]', or name a Python that has torch with --python"


@dataclass(frozen=True)
class Question:
    """What the oracle is asked. Empty texts leave the child's own choice."""

    execution_trace: Path
    trace: Path | None
    what_if: tuple[str, ...] = ("auto",)
    region: str = ""
    step: str = ""
    recorded_torch: str = ""


class NoTorchError(GaptraceError):
    """The chosen Python has no torch, so that Inductor cannot be asked."""


def ask(question: Question, python: str | None) -> Mapping[str, Any]:
    """The oracle's `gaptrace.inductor/1` object.

    Raises:
        NoTorchError: that Python has no torch.
        GaptraceError: the child could not answer; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="gaptrace-") as folder:
        answer = Path(folder) / "answer.json"
        command = [python or sys.executable, "-m", "gaptrace_collectors.inductor"]
        command += _words(question, answer)
        try:
            done = subprocess.run(
                command, env=_environment(), capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise GaptraceError(f"cannot run {command[0]}: {error.strerror}", NO_TORCH) from error
        if done.returncode != 0:
            raise _refusal(done.stderr)
        return checked(json.loads(answer.read_text(encoding="utf-8")), "the oracle's answer")


def _words(question: Question, answer: Path) -> list[str]:
    words = [str(question.execution_trace), "-o", str(answer)]
    if question.trace is not None:
        words += ["--trace", str(question.trace)]
    for flag, value in (
        ("--region", question.region),
        ("--step", question.step),
        ("--recorded-torch", question.recorded_torch),
    ):
        if value:
            words += [flag, value]
    for change in question.what_if:
        words += ["--what-if", change]
    return words


def _environment() -> dict[str, str]:
    """The child's environment: another Python must find the package where this one does."""
    spec = importlib.util.find_spec("gaptrace_collectors")
    if spec is None or spec.origin is None:
        raise GaptraceError(
            "the package gaptrace_collectors is not installed", "pip install torch-gaptrace"
        )
    root = os.path.dirname(os.path.dirname(spec.origin))
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _refusal(stderr: str) -> GaptraceError:
    lines: Sequence[str] = stderr.strip().splitlines()
    said = [line.removeprefix(_SPEAKER) for line in lines if line.startswith(_SPEAKER)]
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    if any("No module named 'torch'" in line for line in lines):
        return NoTorchError("there is no torch in the Python that would ask Inductor", NO_TORCH)
    message = errors[0] if errors else (lines[-1] if lines else "no message")
    return GaptraceError(
        f"Inductor could not be asked: {message}",
        "use --shapes for an estimate without it",
    )
