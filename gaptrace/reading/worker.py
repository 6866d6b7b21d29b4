"""What a worker process runs: tasks come in by its standard input, parts go out by its output."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sys

from gaptrace.reading.blocks import BlockReader
from gaptrace.reading.workers import send


def main() -> None:
    """Answer tasks until the input ends."""
    # Ctrl-C is for the parent, which then closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not end up among the answers
    gc.disable()  # the decoder's objects form no cycles
    tasks = sys.stdin.buffer
    with contextlib.suppress(EOFError, BrokenPipeError):
        layout, settings = pickle.load(tasks)
        while True:
            # A new reader for each task: no task's result may depend on another's.
            task = pickle.load(tasks)
            send(answers, task.run(BlockReader(layout, settings), layout, settings))
