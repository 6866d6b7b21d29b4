"""The document of a run: its first sentence, its modes by basis, what each cost to start."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gaptrace.document.answers import plain, run_answer
from gaptrace.document.blocks import Chart, Note, Sentence
from gaptrace.document.build import document
from gaptrace.quantity import AT_MOST, NS, PREDICTED, TRACED, UNPROFILED, Quantity
from gaptrace.results.manifest import Autotune, Buckets, Choice, GraphTrees, Pieces, Prepared
from gaptrace.results.prediction import SquareCell
from gaptrace.results.run import ModeStart, Recorded, RunResult, SeamPrice, Tuned, TuningGain
from gaptrace.units import text
from tests.document.material import (
    BRIEF,
    FULL,
    column,
    row,
    run,
    said,
    sample,
    section,
    table,
    values,
)

EAGER = row("eager", 60_000, times_slower=1.5)
BEST = row("compiled", 40_000, fastest=True, times_slower=1.0)
FAILED = row("graph", None, status="mode_failed", reason="step.pos moved", verdict=None)


def sentences(result: RunResult, id_: str) -> list[str]:
    return [plain(b.parts) for b in section(result, id_) if isinstance(b, Sentence)]


# ---------------------------------------------------------------- answer


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([FAILED], "decoder: no mode of this run could be measured."),
        ([BEST, FAILED], "decoder: only compiled could be measured: 25,000 tok/s, 40.0 µs per "
                         "step."),
        ([EAGER, BEST], "decoder: compiled is fastest at 25,000 tok/s, 40.0 µs per step, 1.50 "
                        "times as fast as eager."),
        ([replace(EAGER, as_fast_as_best=True), BEST],
         "decoder: compiled is fastest at 25,000 tok/s, 40.0 µs per step; eager is as fast within "
         "the spread of the repeats."),
        ([replace(EAGER, fastest=True, times_slower=1.0),
          row("compiled", 14_340_000, times_slower=239.0)],
         "decoder: eager is fastest at 16,700 tok/s, 60.0 µs per step; compiled is 239 times "
         "slower."),
        ([replace(EAGER, fastest=True, times_slower=1.0),
          row("compiled", 61_000, times_slower=1.02, as_fast_as_best=True)],
         "decoder: eager is fastest at 16,700 tok/s, 60.0 µs per step; compiled is as fast within "
         "the spread of the repeats."),
        ([replace(BEST, basis=TRACED)],
         "decoder: only compiled could be measured: 25,000 tok/s, 40.0 µs per step (as profiled)."),
        ([row("graph", 50_000, times_slower=1.25), BEST],
         "decoder: compiled is fastest at 25,000 tok/s, 40.0 µs per step, 1.25 times as fast as "
         "graph."),
    ],
)  # fmt: skip
def test_faster_is_beyond_the_spread(rows: list[Any], words: str) -> None:
    assert plain(run_answer(run(*rows))) == words


# ---------------------------------------------------------------- modes


def test_no_column_mixes_profiled_with_unprofiled_times() -> None:
    found = table(run(EAGER, replace(BEST, basis=TRACED, idle_share=0.1, idle_basis=TRACED)),
                  "recordings")  # fmt: skip
    assert values(column(found, "step", UNPROFILED)) == [60_000, None]
    assert values(column(found, "step", TRACED)) == [None, 40_000]
    assert [c.basis for c in found.columns if c.label == "GPU idle"] == [TRACED]
    assert any("slows the host" in note for note in found.notes)


def test_the_host_has_its_bound_and_basis() -> None:
    rows = (
        replace(EAGER, host_dispatch_ns=5_000_000, host_bound=AT_MOST),
        replace(BEST, host_dispatch_ns=40_000, host_basis=TRACED),
    )
    found = table(run(*rows), "recordings")
    assert column(found, "host", UNPROFILED) == [
        Quantity(5_000_000, NS, UNPROFILED, AT_MOST), None,
    ]  # fmt: skip
    assert text(column(found, "host", UNPROFILED)[0]) == "≤ 5.00 ms"
    assert text(column(found, "host", TRACED)[1]) == "40.0 µs"


def test_a_failed_mode_says_why_and_a_close_one_that_it_is() -> None:
    found = table(
        run(replace(EAGER, as_fast_as_best=True, repeats=3), BEST, FAILED), "recordings", 0
    )
    assert values(column(found, "trace")) == ["ok", "ok", "mode failed"]
    assert [r.weak for r in found.rows] == [False, False, True]
    assert "graph: step.pos moved" in found.notes
    assert (
        "eager: as fast as the fastest within the spread of the repeats; median of 3 repeats"
        in found.notes
    )


def test_counts_are_per_step_and_said_to_be() -> None:
    found = table(run(replace(BEST, kernels=126, launches=1)), "recordings")
    assert (values(column(found, "kernels")), values(column(found, "launches"))) == ([126], [1])
    assert found.notes[0].startswith("all per step")


def test_the_square_keeps_measured_and_predicted_apart() -> None:
    square = {
        "eager": SquareCell("measured", 60_000, None, 16_667.0, source="unprofiled"),
        "graph": SquareCell("predicted", 30_000, (28_000, 33_000), 33_333.0,
                            rate_range=(30_303.0, 35_714.0)),
        "compiled": SquareCell("measured", 50_000, None, 20_000.0, source="as profiled"),
        "compiled-graph": SquareCell("not recorded", note="could not run: step.pos moved"),
    }  # fmt: skip
    result = run(EAGER, BEST, square=square)
    found = table(result, "modes")
    assert values(column(found, "step", UNPROFILED)) == [60_000, None, None, None]
    assert values(column(found, "step", TRACED)) == [None, None, 50_000, None]
    assert text(column(found, "step", PREDICTED)[1]) == "30.0 µs (28.0 to 33.0)"
    assert "compiled, captured: could not run: step.pos moved" in found.notes
    assert "compiled, launched: measured under the profiler, which slows the host" in found.notes
    (chart,) = [b for b in section(result, "modes") if isinstance(b, Chart)]
    rates = chart.panels[0].series[0].points
    assert [(p.key, p.hatched) for p in rates] == [
        ("eager", False), ("graph", True), ("compiled", False),
    ]  # fmt: skip
    one = {name: SquareCell("not recorded") for name in square} | {"eager": square["eager"]}
    assert section(run(EAGER, square=one), "modes") == ()


def test_the_largest_finding_of_each_mode() -> None:
    first = sample().findings[0]
    found = table(run(EAGER, BEST, FAILED), "findings")
    assert values(column(found, "mode")) == ["eager", "compiled"]
    assert values(column(found, "finding")) == [first.id, first.id]
    assert column(found, "up to, per token")[0].value == first.ceiling_ns_per_token


# ---------------------------------------------------------------- what the recorder saw


@pytest.mark.parametrize(
    ("start", "labels"),
    [
        ({"uncached_ns": 5e8}, ["nothing to cache"]),
        ({"cold_ns": 2e10, "warm_ns": 3e9}, ["cold", "warm"]),
        ({"partly_ns": 3e9}, ["partly warm"]),
        ({"cold_ns": 2e10, "compile_ns": 1e9}, ["cold", "compile"]),
    ],
)
def test_a_start_is_said_by_the_state_of_the_cache(
    start: dict[str, float], labels: list[str]
) -> None:
    names = ("cold_ns", "warm_ns", "partly_ns", "uncached_ns", "compile_ns", "autotune_ns",
             "capture_ns")  # fmt: skip
    own = ModeStart(**{**dict.fromkeys(names), "starts": 2, **start})  # type: ignore[arg-type]
    found = table(run(BEST, startup={"compiled": own}), "start-up")
    assert [c.label for c in found.columns] == ["mode", *labels, "starts"]
    assert values(column(found, labels[0])) == [next(iter(start.values()))]


def everything() -> RunResult:
    """A run whose compiled mode recorded something of everything."""
    pieces = Pieces(split_at=("attention",), pieces=5, captured=5, pool_bytes=64_000_000,
                    copied_bytes=2_000, copied_inputs=(), note="a note")  # fmt: skip
    buckets = Buckets(
        sizes=(128, 512, 1024), median_ns={"128": 400_000}, padding_share=0.25,
        prepared=(Prepared(512, first_call_ns=3_000_000_000, compile_seconds=2.5,
                           capture_ns=40_000_000, memory_bytes=64_000_000),),
    )  # fmt: skip
    choice = Choice(
        op="mm",
        shapes=([1, 2048], [2048, 4096]),
        chosen="kernel_1",
        kind="Triton template",
        ns=2_000,
        best_extern_ns=4_000,
        candidates=20,
    )
    tuned = Tuned(3, {"Triton template": 2, "cuBLAS": 1}, 1, 0, 1)
    autotune = Autotune(choices=(choice,), note="tuned once")
    trees = GraphTrees(recordings=3, rerecordings=0, partitions=2, skips=1)
    return run(
        EAGER, BEST, recorded={"compiled": Recorded(pieces, buckets, autotune, trees, tuned)}
    )


def test_pieces_as_the_recorder_saw_them() -> None:
    assert sentences(everything(), "pieces") == [
        "compiled: 5 pieces, 5 captured, split at attention; 2.00 kB copied into static inputs "
        "each step (0 inputs); graphs hold 64.0 MB. a note"
    ]


def test_buckets_say_what_each_costs() -> None:
    found = table(everything(), "buckets")
    assert values(column(found, "length")) == [128, 512]
    assert values(column(found, "step")) == [400_000, None]
    assert values(column(found, "compile")) == [None, 2_500_000_000]
    assert values(column(found, "memory")) == [None, 64_000_000]
    padding = "compiled: 25 % of the positions read are padding."
    assert sentences(everything(), "buckets") == [padding]


def test_choices_and_templates_of_autotuning() -> None:
    found = table(everything(), "autotuning")
    assert column(found, "product") == ["mm 1×2048 by 2048×4096"]
    assert values(column(found, "of")) == [20]
    assert sentences(everything(), "autotuning") == [
        "compiled: 3 products tuned: Triton template 2, cuBLAS 1",
        "compiled: 1 template kernel, 0 with a prologue and 1 with an epilogue",
        "compiled: tuned once",
    ]


def test_nothing_was_tuned_is_said_with_the_reason() -> None:
    own = Recorded(autotune=Autotune(skipped="the batch is large", choices=()))
    assert sentences(run(BEST, recorded={"compiled": own}), "autotuning") == [
        "compiled: nothing was tuned: the batch is large"
    ]


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (TuningGain("compiled-graph", 5e10, "autotuning", 10_000, 5e6, ""),
         "Tuning took 50.0 s (autotuning) and saves 10.0 µs per token against compiled-graph: "
         "earned back after 5,000,000 tokens."),
        (TuningGain("compiled-graph", None, "not recorded", 10_000, None, "no seconds recorded"),
         "Tuning took a time not recorded (not recorded); no break-even: no seconds recorded."),
    ],
)  # fmt: skip
def test_when_tuning_is_earned_back(gain: TuningGain, words: str) -> None:
    assert sentences(run(BEST, autotuning=gain), "autotuning") == [words]


def test_the_price_of_gaps_between_pieces_has_its_sign() -> None:
    price = SeamPrice("piecewise", "compiled-graph", 900, 800, 16, False, 6.25, 100)
    assert sentences(run(BEST, seam_prices=(price,)), "pieces") == [
        "piecewise against compiled-graph, unprofiled: +100 ns per step over 16 gaps between "
        "pieces, +6.25 ns each. That is within the spread of the repeats."
    ]


def test_graph_trees_are_counted() -> None:
    found = table(everything(), "graph-trees")
    labels = ("recorded", "recorded again", "partitions", "given up")
    assert [values(column(found, label)) for label in labels] == [[3], [0], [2], [1]]


@pytest.mark.parametrize(
    "half",
    [
        Recorded(buckets=Buckets()),
        Recorded(buckets=Buckets(sizes=(128,), prepared=(Prepared(128),))),
        Recorded(autotune=Autotune(choices=(Choice(),))),
        Recorded(piecewise=Pieces()),
        Recorded(piecewise=Pieces(pieces=3)),
        Recorded(cudagraph_trees=GraphTrees()),
    ],
)
def test_half_a_manifest_is_no_error(half: Recorded) -> None:
    assert "None" not in said(document(run(BEST, recorded={"compiled": half}), FULL))


# ---------------------------------------------------------------- the whole


def test_a_stopped_recording_names_what_is_missing() -> None:
    (note,) = [b for b in section(run(BEST, missing=("graph/1",)), "recording") if
               isinstance(b, Note)]  # fmt: skip
    assert plain(note.parts) == "stopped before it was complete; missing: graph/1"


def test_each_mode_is_a_part_of_the_full_form_alone() -> None:
    result = run(EAGER, BEST, FAILED)
    assert document(result, BRIEF).parts == ()
    parts = document(result, FULL).parts
    assert [part.title for part in parts] == ["eager", "compiled"]
    ids = [s.id for part in parts for s in part.sections]
    assert len(ids) == len(set(ids))
    assert ids[0] == "eager-trust"


def test_what_to_type_next_is_the_fastest_mode() -> None:
    result = run(EAGER, replace(BEST, path="runs/my x/compiled/1"))
    (note,) = section(result, "next")
    assert isinstance(note, Note)
    assert note.commands == ("gaptrace analyze 'runs/my x/compiled/1'",)
    (short,) = section(result, "next", BRIEF)
    assert isinstance(short, Note)
    assert short.commands[0] == "gaptrace analyze runs/x --full"
