"""Which mode is fastest: said only where the repeats say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gaptrace.document.answers import plain
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.measure.options import Options
from gaptrace.runs.read import read_run
from tests.compare.runs import manifest, write_run


@pytest.mark.parametrize(
    ("eager", "compiled", "said"),
    [
        ([60_000, 62_000], [45_000, 46_000], "compiled is fastest"),
        ([60_000, 62_000], [45_000, 46_000], "1.33 times as fast as eager"),
        ([50_000, 62_000], [45_000, 51_000], "eager is as fast within the spread of the repeats"),
        ([45_000, 51_000], [50_000, 62_000], "compiled is as fast within the spread"),
        ([45_000, 46_000], [60_000, 62_000], "compiled is 1.33 times slower"),
    ],
)
def test_faster_is_beyond_the_spread(
    tmp_path: Path, eager: list[int], compiled: list[int], said: str
) -> None:
    """Two repeats of each mode with these unprofiled step times."""
    folder = write_run(tmp_path / "run", modes=("eager", "compiled"), repeats=2)
    for mode, times in (("eager", eager), ("compiled", compiled)):
        for repeat, ns in enumerate(times, 1):
            body = manifest(mode, repeat, step_ns=ns)
            (folder / mode / str(repeat) / "run.json").write_text(json.dumps(body))
    found = read_run(str(folder), Options(), use_cache=False).result
    assert said in plain(document(found, Context()).answer.parts)


def test_what_to_call_next_can_be_pasted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "my run", modes=("eager",), repeats=2)
    found = read_run(str(folder), Options(), use_cache=False).result
    (note,) = document(found, Context()).sections[-1].blocks
    assert any(f"gaptrace analyze '{folder}/eager/1'" in line for line in note.commands)
