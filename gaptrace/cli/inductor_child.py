"""Starts the process that asks Inductor, with a Python that has torch."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaptrace.errors import GaptraceError
from gaptrace.predict.eager import eager_data
from gaptrace.predict.saved import checked
from gaptrace.trace import Trace

PACKAGE = "gaptrace_inductor"
TICK_S, GRACE_S = 0.5, 2.0
# The name of every message of the child, so that it can be told from torch's own chatter.
_SPEAKER = f"{PACKAGE}: "
NO_TORCH = "pip install 'torch-gaptrace[predict]', or name a Python that has torch with --python"


@dataclass(frozen=True)
class Question:
    """What Inductor is asked. Empty texts leave the child's own choice."""

    execution_trace: Path
    trace: Trace | None
    what_if: tuple[str, ...] = ("auto",)
    region: str = ""
    step: str = ""
    recorded_torch: str = ""


class NoTorchError(GaptraceError):
    """The chosen Python has no torch, so that Inductor cannot be asked."""


def ask(
    question: Question, python: str | None, waited: Callable[[float], None] | None = None
) -> Mapping[str, Any]:
    """Inductor's answer, the `gaptrace.inductor/1` object; `waited` is told the seconds so far.

    Whatever ends the wait, an interrupt too, ends the child.

    Raises:
        NoTorchError: that Python has no torch.
        GaptraceError: the child could not answer; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="gaptrace-") as name:
        folder = Path(name)
        _copy_package(folder)
        answer = folder / "answer.json"
        command = [python or sys.executable, "-m", PACKAGE, *_words(question, folder)]
        command += ["-o", str(answer)]
        paths = [name, *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        code, said = _run(command, env, waited)
        if code != 0:
            raise _refusal(said)
        return checked(json.loads(answer.read_text(encoding="utf-8")), "Inductor's answer")


def _run(
    command: Sequence[str], env: Mapping[str, str], waited: Callable[[float], None] | None
) -> tuple[int, str]:
    """The exit code of a command and what it wrote to stderr."""
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise GaptraceError(f"cannot run {command[0]}: {error.strerror}", NO_TORCH) from error
    try:
        while True:
            try:
                _, said = child.communicate(timeout=TICK_S)
            except subprocess.TimeoutExpired:
                if waited is not None:
                    waited(time.monotonic() - began)
            else:
                return child.returncode, said
    finally:
        _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    """End a child that still runs: it is asked first, so that it can end its own children."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _copy_package(folder: Path) -> None:
    """Puts the child's package where it alone can be imported from.

    The folder that it is installed in holds this Python's numpy beside it, which another Python
    must not find.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise GaptraceError(f"the package {PACKAGE} is not installed", "pip install torch-gaptrace")
    unread = shutil.ignore_patterns("__pycache__")
    shutil.copytree(os.path.dirname(spec.origin), folder / PACKAGE, ignore=unread)


def _words(question: Question, folder: Path) -> list[str]:
    words = [str(question.execution_trace)]
    if question.trace is not None:
        eager = folder / "eager.json"
        eager.write_text(json.dumps(eager_data(question.trace)), encoding="utf-8")
        words += ["--eager", str(eager)]
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


def _refusal(stderr: str) -> GaptraceError:
    lines: Sequence[str] = stderr.strip().splitlines()
    said = [line.removeprefix(_SPEAKER) for line in lines if line.startswith(_SPEAKER)]
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    if any("No module named 'torch'" in line for line in lines):
        return NoTorchError("there is no torch in the Python that would ask Inductor", NO_TORCH)
    message = errors[0] if errors else (lines[-1] if lines else "no message")
    return GaptraceError(
        f"Inductor could not be asked: {message}", "use --shapes for an estimate without it"
    )
