"""The modes in which a step is recorded: the recorder's one list of them.

`Mode.id` is the `mode` of run.json and the name of the mode's folder.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """One way to run a step: whether the recorder compiles it, and what is captured.

    `captures` is `step` (the recorder captures the whole step into a CUDA graph), `pieces` (what
    lies between operators left outside), `trees` (torch.compile captures by itself, through its
    CUDA-graph trees), or empty. `default` modes are recorded where none is named.
    """

    id: str
    compiles: bool = False
    captures: str = ""
    default: bool = False

    @property
    def captures_step(self) -> bool:
        """Whether the recorder captures the whole step itself."""
        return self.captures == "step"

    @property
    def has_trees(self) -> bool:
        """Whether torch.compile captures by itself; the mode is then named as torch names it."""
        return self.captures == "trees"


EAGER = Mode("eager", default=True)
COMPILED = Mode("compiled", compiles=True, default=True)
GRAPH = Mode("graph", captures="step", default=True)
COMPILED_GRAPH = Mode("compiled-graph", compiles=True, captures="step", default=True)
PIECEWISE = Mode("piecewise", compiles=True, captures="pieces")
REDUCE_OVERHEAD = Mode("reduce-overhead", compiles=True, captures="trees")
MAX_AUTOTUNE = Mode("max-autotune", compiles=True, captures="trees")
# What the script does by itself, compiling and capturing included.
AS_IS = Mode("as-is")

MODES = {
    mode.id: mode
    for mode in (
        EAGER,
        COMPILED,
        GRAPH,
        COMPILED_GRAPH,
        PIECEWISE,
        REDUCE_OVERHEAD,
        MAX_AUTOTUNE,
        AS_IS,
    )
}
DEFAULT_MODES = tuple(mode.id for mode in MODES.values() if mode.default)


def recorded_as_is(reason: str) -> str:
    """What is said where a script is recorded as it is for that reason."""
    return f"{reason}; it is recorded as-is instead"
