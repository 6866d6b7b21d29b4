"""Findings about waits, copies, tiny kernels, bandwidth and communication."""

from __future__ import annotations

import pytest

from gaptrace.measure.options import Options
from tests.builders import Event, kernel, launch, memcpy, op, overhead, runtime
from tests.measure.loops import ADD, COPY, GEMM, MUL, eager, eagers, ids, loop, the

# One kernel of 50,000 ns from 2,500 on; the host comes back at 53,000 from its wait.
WAIT_FROM, WAITED = 5_000, 48_000


def waiting(*around: str, call: str = "cudaStreamSynchronize"):
    """A step whose host waits for its only kernel, inside the given ops (outermost first)."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        ops = [
            op(name, at=at + 4_500 + 100 * depth, dur=49_000 - 200 * depth)
            for depth, name in enumerate(around)
        ]
        wait = runtime(call, at=at + WAIT_FROM, dur=WAITED)
        return [*eager(at, corr, dur=50_000), *ops, wait]

    return draw


KINDS = [
    (("aten::item", "aten::_local_scalar_dense"), "GT201"),
    (("aten::index", "aten::nonzero"), "GT202"),
    (("aten::to", "aten::_to_copy", "aten::copy_"), "GT203"),
    ((), "GT204"),
]


@pytest.mark.parametrize(("around", "name"), KINDS)
def test_waits_are_told_apart_by_the_op_that_waits(around: tuple[str, ...], name: str) -> None:
    found = loop(waiting(*around), period=100_000)
    waits = [f for f in found.result.findings if f.id in {"GT201", "GT202", "GT203", "GT204"}]
    assert [f.id for f in waits] == [name]
    # The host waited for 48,000; behind it the GPU was idle for 50,000.
    assert waits[0].ceiling_ns_per_token == WAITED
    assert waits[0].places == 5
    assert (around[-1] if around else "The program itself") in waits[0].text
    assert waits[0].evidence[0].call == "cudaStreamSynchronize"


def test_a_wait_wins_no_more_than_the_idle_behind_it() -> None:
    # The next step begins at 65,000, its kernel at 67,500: 15,000 of idle time.
    found = loop(waiting("aten::item"), period=65_000)
    assert the(found, "GT201").ceiling_ns_per_token == 15_000


def test_a_wait_wins_the_lead_it_costs_and_not_only_the_idle_inside_it() -> None:
    found = loop(waiting("aten::item"), period=100_000)
    sync = found.headline.idle_by_cause_ns["sync"]
    assert sync == 500
    assert the(found, "GT201").ceiling_ns_per_token > sync


def test_a_blocking_copy_call_waits_without_an_op_around_it() -> None:
    found = loop(waiting(call="cudaMemcpy"), period=100_000)
    assert the(found, "GT203").ceiling_ns_per_token == WAITED


def test_a_wait_behind_which_the_gpu_is_busy_costs_nothing() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        # The kernels of a step run while the next step is launched: the queue is never empty.
        return [
            launch(at=at, dur=500, corr=corr),
            kernel(GEMM, at=at + 150_000, dur=100_000, corr=corr),
            runtime("cudaEventSynchronize", at=at + 10_000, dur=60_000),
        ]

    assert ids(loop(draw, period=100_000)) == ["GT002"]


def test_where_the_recorder_saw_waits_the_line_is_named() -> None:
    seen = [{"op": "aten::item", "where": "loop.py:12", "count": 8}]
    run = {"schema": "gaptrace.run/1", "steadiness": {"synchronizations": seen}}
    found = the(loop(waiting("aten::item"), period=100_000, manifest=run), "GT201")
    assert "aten::item at loop.py:12" in found.text


def rare_waits(*steps: int):
    """In the given steps a wait of 88,000 with 10,000 of idle behind it; else 50,000 of idle."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        if step not in steps:
            return eager(at, corr, dur=50_000)
        wait = runtime("cudaStreamSynchronize", at=at + 5_000, dur=88_000)
        return [*eager(at, corr, dur=90_000), wait]

    return draw


def test_a_rare_wait_wins_no_more_than_the_idle_behind_it() -> None:
    # The steps before it are idle for longer than it waits, but they are over by then.
    found = the(loop(rare_waits(4), period=100_000), "GT204")
    assert found.ceiling_ns_per_token == 10_000 / 5


def test_idle_behind_one_wait_ends_where_the_next_begins() -> None:
    found = the(loop(rare_waits(3, 4), period=100_000), "GT204")
    assert found.ceiling_ns_per_token == 2 * 10_000 / 5


def test_a_lead_carries_over_into_steps_without_a_wait() -> None:
    # Step 2 gives 88,000: its own 10,000, and 78,000 of the 2 x 50,000 of steps 3 and 4.
    found = the(loop(rare_waits(2), period=100_000), "GT204")
    assert found.ceiling_ns_per_token == 88_000 / 5


def test_idle_of_the_profiler_behind_a_wait_is_not_won() -> None:
    plain = waiting("aten::item")

    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [*plain(at, corr, step), overhead(at=at + 55_000, dur=5_000)]

    found = loop(draw, period=65_000)
    assert the(found, "GT201").ceiling_ns_per_token == 15_000 - 5_000


# --- copies


def pageable(kind: str):
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *eager(at, corr, dur=50_000),
            op("aten::copy_", at=at + 58_000, dur=24_000),
            launch("cudaMemcpyAsync", at=at + 60_000, dur=20_000, corr=corr + 1),
            memcpy(kind, at=at + 79_000, dur=500, corr=corr + 1, nbytes=64),
        ]

    return draw


def test_copies_from_pageable_memory() -> None:
    found = loop(pageable("HtoD (Pageable -> Device)"), period=100_000)
    assert the(found, "GT205").ceiling_ns_per_token == 20_000
    assert "64.0 B per token" in the(found, "GT205").text
    assert "GT203" not in ids(found)


def test_a_copy_that_brings_results_back_is_a_blocking_copy() -> None:
    found = loop(pageable("DtoH (Device -> Pageable)"), period=100_000)
    assert the(found, "GT203").ceiling_ns_per_token == 20_000
    assert "GT205" not in ids(found)


def casts(count: int, *, dur: int = 1_500):
    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        for index in range(count):
            events += eager(at + 5_000 * index, corr + index, COPY, inside="aten::to", dur=dur)
        return events

    return draw


def test_casts_and_small_copies() -> None:
    found = loop(casts(15), period=100_000)
    # 15 ops of 3,000 on the host, 15 kernels of 1,500; there is more idle time than that.
    assert the(found, "GT206").ceiling_ns_per_token == 15 * (3_000 + 1_500)
    assert the(found, "GT206").places == 5 * 15
    assert "15 of them by a dtype or layout cast" in the(found, "GT206").text
    assert "captured piece" not in the(found, "GT206").text


def test_inputs_of_captured_pieces_are_told_from_casts() -> None:
    """The recorder itself copies what attention returned to where the next graph reads it."""
    manifest = {"schema": "gaptrace.run/1", "piecewise": {"copied_inputs": [{}] * 4}}
    text = the(loop(casts(15), period=100_000, manifest=manifest), "GT206").text
    assert "4 a step bring what a launched op returned into the next captured piece" in text


def test_a_few_copies_are_every_steps_business() -> None:
    assert "GT206" not in ids(loop(casts(7), period=100_000))


def test_copies_to_the_host_are_no_small_copies() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        for index in range(15):
            begin, own = at + 5_000 * index, corr + index
            events += [
                op("aten::to", at=begin, dur=3_000),
                launch("cudaMemcpyAsync", at=begin + 1_000, dur=1_000, corr=own),
                memcpy("DtoH (Device -> Pinned)", at=begin + 2_500, dur=1_500, corr=own),
            ]
        return events

    assert "GT206" not in ids(loop(draw, period=100_000))


# --- runs of tiny kernels


def test_many_tiny_kernels() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return eagers(at, corr, GEMM, *[ADD] * 14, GEMM, *[ADD] * 14)

    found = loop(draw, period=250_000)
    # Two runs of 14: 13 launches each are spared, 5,000 apart.
    assert the(found, "GT501").ceiling_ns_per_token == 2 * 13 * 5_000
    assert the(found, "GT501").places == 5 * 28
    assert "spare 26 launches" in the(found, "GT501").text


def test_tiny_kernels_win_no_more_than_the_idle_time() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return eagers(at, corr, GEMM, *[ADD] * 14, GEMM, *[ADD] * 14)

    # 30 gaps of 3,500.
    assert the(loop(draw, period=150_000), "GT501").ceiling_ns_per_token == 30 * 3_500


def test_kernels_longer_than_a_launch_are_not_tiny() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        for index in range(30):
            events += eager(at + 20_000 * index, corr + index, ADD, dur=12_000)
        return events

    assert "GT501" not in ids(loop(draw, period=600_000))


def test_a_wait_ends_a_run() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        waits = [
            runtime("cudaStreamSynchronize", at=at + 5_000 * k - 500, dur=10) for k in range(1, 30)
        ]
        return [*eagers(at, corr, *[ADD] * 30), *waits]

    assert "GT501" not in ids(loop(draw, period=250_000))


def test_matrix_products_alone_are_no_run() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return eagers(at, corr, *[GEMM] * 30)

    assert "GT501" not in ids(loop(draw, period=250_000))


CHAIN = (ADD, MUL, ADD, ADD, MUL, MUL)


def test_a_repeated_chain() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return eagers(at, corr, *((GEMM, *CHAIN) * 4))

    found = loop(draw, period=250_000)
    assert the(found, "GT502").ceiling_ns_per_token == 4 * 5 * 5_000
    assert "The same 6 kernels run 4 times per token" in the(found, "GT502").text
    assert the(found, "GT502").places == 5 * 4
    assert "GT501" in the(found, "GT502").overlaps


def test_chains_that_all_differ_are_not_repeated() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        names: list[str] = []
        for length in (4, 5, 6, 7, 8):
            names += [GEMM, *[ADD] * length]
        return eagers(at, corr, *names)

    found = ids(loop(draw, period=250_000))
    assert "GT501" in found
    assert "GT502" not in found


# --- the GPU's own time


def product(rows: int, dur: int):
    dims, types = [[rows, 4_096], [4_096, 4_096]], ["c10::BFloat16"] * 2

    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            op("aten::mm", at=at, dur=3_000, dims=dims, types=types),
            launch(at=at + 1_000, dur=1_000, corr=corr),
            kernel(GEMM, at=at + 2_500, dur=dur, corr=corr),
        ]

    return draw


SLOW_MEMORY = Options(peak_bandwidth=1e12)


def test_a_product_below_the_roofline() -> None:
    found = loop(product(1, 100_000), period=150_000, options=SLOW_MEMORY)
    # Weight, input and output, 2 bytes each; at 1 TB/s a byte takes a picosecond.
    least = (4_096 * 4_096 + 2 * 4_096) * 2 / 1_000
    assert the(found, "GT503").ceiling_ns_per_token == pytest.approx(100_000 - least)
    assert the(found, "GT503").places == 5


def test_a_product_near_the_roofline_is_fine() -> None:
    found = loop(product(1, 45_000), period=150_000, options=SLOW_MEMORY)
    assert "GT503" not in ids(found)


def test_a_product_of_many_rows_is_not_bound_by_bandwidth() -> None:
    found = loop(product(1_024, 200_000), period=250_000, options=SLOW_MEMORY)
    assert "GT503" not in ids(found)


def reduced(beside: int):
    """A collective of 20,000, of which `beside` run under a kernel of another stream."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        own = kernel(name, at=at + 10_000, dur=20_000, corr=corr, stream=20)
        other = kernel(GEMM, at=at + 10_000, dur=beside, corr=corr + 1)
        calls = [launch(at=at + 100 * k, dur=50, corr=corr + k) for k in range(2)]
        return [*calls, own, other]

    return draw


def test_exposed_communication() -> None:
    found = loop(reduced(5_000), period=50_000)
    assert the(found, "GT504").ceiling_ns_per_token == 15_000
    assert "run for 20.0 µs per token" in the(found, "GT504").text


def test_hidden_communication_is_fine() -> None:
    assert "GT504" not in ids(loop(reduced(20_000), period=50_000))
