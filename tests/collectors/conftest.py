"""Running the recorder as a user would, and reading back what it left."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.warm_python import WarmPython

ROOT = Path(__file__).resolve().parents[2]
COLLECTORS = ROOT / "collectors"
WORKLOADS = COLLECTORS / "workloads"
QUICK = ("--repeats", "1", "--timed-steps", "10", "--steps", "5", "--warmup", "5")

# One linear layer and an embedding: a decode step that compiles in seconds.
MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16)

    def forward(self, ids):
        return self.head(torch.relu(self.embed(ids)))
"""

# An unmodified script: prompt, then one token at a time.
LOOP = (
    MODEL
    + """
import sys

model = Model().eval()
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
with torch.no_grad():
    token = model(torch.arange(4)[None])[:, -1:].argmax(-1)
    for _ in range(steps):
        token = model(token)[:, -1:].argmax(-1)
print("last token", token.item())
"""
)


def environment() -> dict[str, str]:
    """The environment of a recorded process: the recorder importable, one thread."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(COLLECTORS), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
        # Else Inductor compiles a program for each cache folder to see whether vectors work.
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
    }


@dataclass
class Collected:
    """How a call of the recorder ended, and its run folder."""

    code: int
    stdout: str
    stderr: str
    root: Path

    def run(self, mode: str, repeat: int = 1) -> dict[str, Any]:
        """The parsed run.json of one cell."""
        return json.loads((self.root / mode / str(repeat) / "run.json").read_text())

    def trace(self, mode: str, repeat: int = 1) -> list[dict[str, Any]]:
        """The events of one cell's trace."""
        with gzip.open(self.root / mode / str(repeat) / "trace.json.gz") as file:
            return json.load(file)["traceEvents"]

    def marks(self, mode: str, repeat: int = 1) -> list[str]:
        """Names of the step marks in one cell's trace, in order of time."""
        found = [
            e for e in self.trace(mode, repeat) if str(e.get("name")).startswith("gaptrace.step")
        ]
        spans = [e for e in found if e.get("cat") == "user_annotation"]
        return [e["name"] for e in sorted(spans, key=lambda e: float(e["ts"]))]


@cache
def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


class Bench:
    """A folder to write scripts into and record them from."""

    def __init__(self, folder: Path, warm: Callable[[], WarmPython]) -> None:
        self.folder = folder
        self._warm = warm
        self._started: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """Kill what a failed test left running."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def script(self, text: str, name: str = "script.py") -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def collect(self, *words: object, name: str = "run", timeout: int = 300) -> Collected:
        """`python -m gaptrace_collectors -o runs --name NAME WORDS...`, torch imported before.

        With a GPU in interpreters of its own: CUDA cannot be used in forks of a process that did.
        """
        if _has_gpu():
            return self.collect_fresh(*words, name=name, timeout=timeout)
        command = self._command(words, name)[1:]
        done = self._warm().run(command, cwd=self.folder, env=environment(), timeout=timeout)
        return Collected(done.returncode, done.stdout, done.stderr, self.folder / "runs" / name)

    def collect_fresh(
        self, *words: object, name: str = "run", timeout: int = 300, **how: Any
    ) -> Collected:
        """The same in interpreters of its own; `how`: for the process."""
        done = subprocess.run(
            self._command(words, name),
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **how,
        )
        return Collected(done.returncode, done.stdout, done.stderr, self.folder / "runs" / name)

    def start(self, *words: object, name: str = "run") -> subprocess.Popen[str]:
        """The same, not waited for, in a session of its own."""
        process = subprocess.Popen(
            self._command(words, name),
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def _command(self, words: Sequence[object], name: str) -> list[str]:
        out = self.folder / "runs"
        command = [sys.executable, "-m", "gaptrace_collectors", "-o", str(out), "--name", name]
        return [*command, *map(str, words)]


@pytest.fixture(scope="session")
def warm_python() -> Iterator[Callable[[], WarmPython]]:
    """Gives the one warm Python of the session, started by the first who asks."""
    started: list[WarmPython] = []

    def get() -> WarmPython:
        if not started:
            started.append(WarmPython(environment()))
        return started[0]

    yield get
    for python in started:
        python.close()


@pytest.fixture
def bench(tmp_path: Path, warm_python: Callable[[], WarmPython]) -> Iterator[Bench]:
    made = Bench(tmp_path, warm_python)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_bench(
    tmp_path_factory: pytest.TempPathFactory, warm_python: Callable[[], WarmPython]
) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"), warm_python)
