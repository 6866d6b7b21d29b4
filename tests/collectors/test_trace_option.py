"""`--trace`: what is recorded under the profiler, in full, lightly, or each once."""

from __future__ import annotations

import dataclasses

import pytest

from gaptrace_collectors.options import Options
from gaptrace_collectors.plan import TooFewStepsError, fitted_plan, full_plan


def test_both_takes_the_steps_of_two_recordings() -> None:
    one, two = full_plan(Options()), full_plan(Options(trace="both"))
    assert (one.light, two.light) == (0, Options().steps)
    assert two.needed == one.needed + two.light + two.profiler_extra


def test_the_light_recording_is_left_out_where_there_are_too_few_steps() -> None:
    options = Options(trace="both")
    least = fitted_plan(options, 10_000)
    assert least.light
    available = next(n for n in range(200) if _fits(options, n))
    assert fitted_plan(options, available).light == 0
    room = next(n for n in range(300) if _fits(options, n) and fitted_plan(options, n).light)
    assert room > available
    alone = dataclasses.replace(fitted_plan(options, available), light=0)
    assert alone.needed <= available


def _fits(options: Options, available: int) -> bool:
    try:
        fitted_plan(options, available)
    except TooFewStepsError:
        return False
    return True


@pytest.mark.parametrize(("trace", "ops", "times"), [("light", 0, False), ("both", 1, True)])
def test_what_is_recorded(trace: str, ops: int, times: bool, tmp_path: object) -> None:
    pytest.importorskip("torch")
    import json
    import subprocess
    import sys
    from pathlib import Path

    from gaptrace.reading.loading import load
    from gaptrace.trace import Cat

    here = Path(__file__).parents[2]
    out = Path(str(tmp_path))
    script = here / "collectors/workloads/dense_decoder.py"
    words = ["--modes", "eager", "--repeats", "1", "--timed-steps", "10", "--trace", trace]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "gaptrace_collectors",
            *words,
            "-o",
            str(out),
            str(script),
            "--tiny",
        ],
        check=True,
        cwd=here / "collectors",
        capture_output=True,
    )
    folder = out / "dense_decoder/eager/1"
    made = json.loads((folder / "run.json").read_text())
    assert made["profiled"]["recorded"] == trace
    assert bool(load(folder / "trace.json.gz").rows_of(Cat.CPU_OP).size) == bool(ops)
    assert (made["files"]["times"] is not None) == times
    if times:
        light = load(folder / "times.json.gz")
        marks = [light.name_of(int(row)) for row in light.rows_of(Cat.ANNOTATION)]
        assert light.rows_of(Cat.CPU_OP).size == 0
        assert sum(name.startswith("gaptrace.step#") for name in marks) == 9
