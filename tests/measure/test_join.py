"""A light recording joined to a full one: its times, the ops of the other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from gaptrace.cli import main
from gaptrace.errors import OptionError
from gaptrace.measure.analyze import measure
from gaptrace.measure.join import joined
from gaptrace.measure.options import Options
from gaptrace.reading.loading import load
from gaptrace.trace import Cat, OpColumns, PyColumns, Trace

SAMPLES = Path(__file__).parents[2] / "sample_traces"
BARE = sorted(SAMPLES.glob("small_decoder_*.json.gz"))
MORE = [*BARE, SAMPLES / "bad_item/eager/1/trace.json.gz"]
EAGER = SAMPLES / "small_decoder_eager.json.gz"


def without_ops(trace: Trace) -> Trace:
    """What a light recording of the same moment would hold."""
    keep = np.flatnonzero((trace.cat != Cat.CPU_OP) & (trace.cat != Cat.PYTHON))
    place = np.full(len(trace), -1)
    place[keep] = np.arange(keep.size)
    none = np.zeros(0, np.int64)
    columns = ("start", "dur", "name", "cat", "lane", "corr", "ext")
    return dataclasses.replace(
        trace,
        **{name: getattr(trace, name)[keep] for name in columns},
        gpu=dataclasses.replace(trace.gpu, rows=place[trace.gpu.rows]),
        py=PyColumns(none, none, none),
        op=OpColumns(none, none, none.astype(np.int32)),
    )


def faster(trace: Trace, times: int) -> Trace:
    """The same recording with every time divided, as whole numbers."""
    end = trace.end // times
    start = trace.start // times
    return dataclasses.replace(trace, start=start, dur=end - start)


@pytest.mark.parametrize("path", MORE, ids=lambda path: path.name)
def test_a_recording_joined_to_itself_has_the_same_causes(path: Path) -> None:
    full = load(path)
    alone, found = measure(full), measure(joined(full, without_ops(full), Options()))
    assert alone.step_table is not None
    assert found.step_table is not None
    np.testing.assert_array_equal(found.step_table.cause_ns, alone.step_table.cause_ns)
    np.testing.assert_array_equal(found.step_table.host_ns, alone.step_table.host_ns)
    assert found.quality.verdict == alone.quality.verdict == "ok"


def test_times_are_those_of_the_light_recording() -> None:
    full = load(EAGER)
    light = faster(without_ops(full), 2)
    found, own = measure(joined(full, light, Options())), measure(light)
    for name in ("period_ns", "busy_ns", "idle_ns", "kernels"):
        assert found.headline.steps[name].median == own.headline.steps[name].median
    # Half the time between two calls, so half of each cause, to the rounding of each event.
    table, whole = found.step_table, measure(full).step_table
    assert table is not None
    assert whole is not None
    np.testing.assert_allclose(
        2 * table.cause_ns.sum(axis=0), whole.cause_ns.sum(axis=0), rtol=0.01, atol=20_000
    )


def test_order_and_nesting_of_ops_stay() -> None:
    full = load(EAGER)
    made = joined(full, faster(without_ops(full), 3), Options())
    ops = made.rows_of(Cat.CPU_OP)
    assert made.joined is not None
    assert made.joined.matched == made.joined.steps == 8
    order = np.lexsort((-made.dur[ops], made.start[ops]))
    open_until: list[int] = []
    for row in ops[order].tolist():
        while open_until and open_until[-1] <= int(made.start[row]):
            open_until.pop()
        assert not open_until or int(made.end[row]) <= open_until[-1]
        open_until.append(int(made.end[row]))


def test_events_are_read_from_the_recording_they_are_of() -> None:
    full = load(EAGER)
    made = joined(full, load(EAGER), Options())
    for cat in (Cat.KERNEL, Cat.RUNTIME, Cat.CPU_OP):
        row = int(made.rows_of(cat)[3])
        assert made.event(row)["name"] == made.name_of(row)


def test_recordings_of_other_steps_are_refused() -> None:
    with pytest.raises(OptionError, match="does not hold the steps"):
        joined(load(EAGER), load(SAMPLES / "small_decoder_compiled.json.gz"), Options())


def test_ops_laid_in_cost_the_light_recording_nothing() -> None:
    full = load(EAGER)
    light = without_ops(full)
    found, own = measure(joined(full, light, Options())), measure(light)
    assert found.predicted.step_ns == own.predicted.step_ns
    assert (own.predicted.step_ns or 0) > (measure(full).predicted.step_ns or 0)


def test_analyze_takes_the_times_of_another_recording(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyze", str(EAGER), "--times-from", str(EAGER), "--full", "--no-cache"]
    assert main(words) == 0
    assert "the same in 8 of 8 steps" in " ".join(capsys.readouterr().out.split())


def test_a_run_folder_takes_no_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(SAMPLES / "dense_1b"), "--times-from", str(EAGER)]) == 2
    assert "one trace file" in capsys.readouterr().err
