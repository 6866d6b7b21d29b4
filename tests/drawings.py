"""All drawings: device figures and gap causes (`DRAWINGS`), steps (`STEP_DRAWINGS`).

The analyzer and the slow reference are held against the same ones.
"""

from __future__ import annotations

from tests import drawings_device as device
from tests import drawings_host as host
from tests import drawings_waits as waits
from tests.drawing import Drawing, GapRow
from tests.drawings_steps import STEP_DRAWINGS, StepDrawing

DRAWINGS: tuple[Drawing, ...] = (
    *device.COUNTS,
    *device.GRAPHS,
    *device.LINKS,
    *device.DEVICES,
    *host.LATE,
    *host.SYNC,
    *host.OVERHEAD,
    *host.NAMES,
    *waits.WAITS,
)

__all__ = ["DRAWINGS", "STEP_DRAWINGS", "Drawing", "GapRow", "StepDrawing"]
