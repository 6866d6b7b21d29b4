"""`build()` and its steps without the recorder, as a control."""

from __future__ import annotations

import json
import sys

import torch

from gaptrace_collectors.build_run import call_build
from gaptrace_collectors.cell import namespace, use_path_of
from gaptrace_collectors.points import BATCH, with_batch
from gaptrace_collectors.targets import Target

# As many as a recording without options makes, and some.
_STEPS = 200
# Between two resets, as between two phases of a recording.
_PHASE = 50


def main(path: str, more: list[str]) -> int:
    """Run the steps of the script that a specification names; 0 where none of them raised."""
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    words = (*more, *spec["target"]["args"])
    batch = spec["batch"]
    target = Target(spec["target"]["kind"], spec["target"]["value"], with_batch(words, batch), ())
    use_path_of(target)
    sys.argv = [target.value, *target.args]
    build = namespace(target, "__gaptrace__")["build"]
    step = call_build(build, batch, in_arguments=any(BATCH in word for word in words))
    reset = getattr(step, "reset", None)
    with torch.no_grad():
        for number in range(_STEPS):
            if reset is not None and number % _PHASE == 0:
                reset()
            step()
    return 0
