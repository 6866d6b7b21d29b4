"""Kernels matched by name, by what they fuse, by op and by class."""

from __future__ import annotations

import pytest

from gaptrace.compare.match import match_kernels
from gaptrace.compare.op_names import canonical, op_of, ops_of_compiled
from gaptrace.compare.recording import Recording, UsedKernel
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.kernels import OP_CLASSES
from tests.compare.recordings import recording

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, X>()"
MUL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> >, X>()"
)
RMS = "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0"
SILU = "triton_poi_fused_mul_silu_3"


def used(name: str, op: str, count: int, each_ns: int) -> UsedKernel:
    return UsedKernel(name, op, classify(name).op_class, count, count * each_ns, each_ns)


def side(*kernels: UsedKernel, tokens: int = 2) -> Recording:
    return recording([100] * 2, kernels=10, kernel_tokens=tokens, table=kernels)


def test_kernels_of_one_name_are_one_row() -> None:
    left = side(used("gemm_a", "aten::mm", 4, 100), used("gemm_b", "aten::mm", 2, 50))
    right = side(used("gemm_a", "", 4, 101), used("gemm_c", "", 2, 50))
    found = match_kernels([left], [right])
    status = {row.name: row.status for row in found.rows}
    assert status == {"gemm_a": "same", "gemm_b": "removed", "gemm_c": "added"}
    row = next(row for row in found.rows if row.name == "gemm_a")
    assert (row.delta_count, row.delta_ns) == (0, 2 * 1)
    assert row.baseline is not None
    assert (row.baseline.per_token, row.baseline.ns_per_token) == (2, 200)


def test_a_row_is_changed_by_its_count_or_by_its_time() -> None:
    left = side(used("a", "", 4, 100), used("b", "", 4, 100), used("c", "", 4, 100))
    right = side(used("a", "", 6, 100), used("b", "", 4, 110), used("c", "", 4, 104))
    found = match_kernels([left], [right])
    assert {row.name: row.status for row in found.rows} == {
        "a": "changed",
        "b": "changed",
        "c": "same",
    }


def test_another_kernel_of_the_same_op_stands_beside_the_one_it_replaced() -> None:
    left = side(used("old_gemm", "aten::mm", 4, 100), used("x_gemm", "aten::bmm", 2, 10))
    right = side(used("new_gemm", "aten::mm", 4, 60), used("y_gemm", "aten::bmm", 2, 10))
    found = match_kernels([left], [right])
    groups = {group.title: group for group in found.groups}
    assert set(groups) == {"aten::mm", "aten::bmm"}
    assert groups["aten::mm"].by == "op"
    assert groups["aten::mm"].delta_ns == 2 * (60 - 100)


def test_a_compiled_kernel_stands_beside_the_ops_it_fuses() -> None:
    left = side(
        used(ADD, "aten::add", 8, 10),
        used(MUL, "aten::mul", 8, 20),
        used("k_silu", "aten::silu", 4, 5),
    )
    right = side(used(RMS, "", 6, 12), used(SILU, "", 2, 9))
    found = match_kernels([left], [right])
    by_title = {group.title: group for group in found.groups}
    rms = by_title["fused: add, copy, mean, mul, pow, rsqrt"]
    silu = by_title["fused: mul, silu"]
    # `mul` is in both: 6 runs of one kernel and 2 of the other share its 8 executions out.
    assert [(m.op, m.per_token) for m in rms.baseline] == [("add", 4), ("mul", 3)]
    assert [(m.op, m.per_token) for m in silu.baseline] == [("mul", 1), ("silu", 2)]
    assert rms.by == silu.by == "fusion"
    row = next(row for row in found.rows if row.name == SILU)
    assert (row.fuses, row.group) == (("mul", "silu"), silu.id)


def test_what_was_removed_is_shared_out_once() -> None:
    left = side(used(ADD, "aten::add", 8, 10), used(MUL, "aten::mul", 8, 20))
    right = side(used(RMS, "", 6, 12), used(SILU, "", 2, 9), used("k_mul", "aten::mul", 4, 7))
    found = match_kernels([left], [right])
    removed = sum(m.ns_per_token for group in found.groups for m in group.baseline)
    assert removed == pytest.approx(4 * 10 + 4 * 20)
    added = sum(m.ns_per_token for group in found.groups for m in group.candidate)
    assert added == pytest.approx(3 * 12 + 1 * 9 + 2 * 7)


def test_it_works_the_other_way_round() -> None:
    left = side(used(SILU, "", 2, 9))
    right = side(used(MUL, "aten::mul", 2, 20), used("k_silu", "aten::silu", 2, 5))
    (group,) = match_kernels([left], [right]).groups
    assert [m.name for m in group.baseline] == [SILU]
    assert {m.op for m in group.candidate} == {"mul", "silu"}
    assert group.delta_ns == 25 - 9


def test_compiled_kernels_match_by_the_ops_they_fuse_whatever_their_number() -> None:
    left = side(used("triton_poi_fused_mul_silu_3", "", 2, 9))
    right = side(used("triton_poi_fused_mul_silu_7", "", 2, 8))
    (group,) = match_kernels([left], [right]).groups
    assert (group.by, group.title, group.delta_ns) == ("fusion", "fused: mul, silu", -1)
    near = side(used("triton_poi_fused_add_mul_silu_7", "", 2, 8))
    (group,) = match_kernels([left], [near]).groups
    assert group.title == "fused: add, mul, silu"


def test_a_replay_has_no_ops_and_learns_them_from_the_side_that_knows() -> None:
    eager = side(used("gemm_a", "aten::mm", 4, 100), used("odd_kernel", "aten::mul", 2, 10))
    replay = side(used("gemm_a", "", 4, 100), used("odd_kernel", "", 2, 10))
    assert all(row.status == "same" for row in match_kernels([eager], [replay]).rows)
    compiled = side(used(SILU, "", 2, 9))
    (group,) = match_kernels([replay], [compiled], {"odd_kernel": "aten::mul"}).groups
    assert [member.name for member in group.baseline] == ["odd_kernel"]


def test_a_replay_alone_is_matched_by_what_kernel_names_say() -> None:
    replay, compiled = side(used(MUL, "", 2, 20)), side(used(SILU, "", 2, 9))
    (group,) = match_kernels([replay], [compiled]).groups
    assert [member.op for member in group.baseline] == ["mul"]


def test_library_kernels_are_not_replaced_by_fused_ones() -> None:
    left = side(used("some_gemm", "aten::mm", 2, 50))
    right = side(used("triton_poi_fused_add_mm_0", "", 2, 9))
    assert match_kernels([left], [right]).groups == ()
    other = side(used("another_gemm", "", 2, 40))
    (group,) = match_kernels([left], [other]).groups
    assert (group.by, group.title) == ("class", "gemm")


def test_repeats_of_a_side_are_taken_together() -> None:
    one, two = side(used("a", "", 2, 100)), side(used("a", "", 2, 300))
    (row,) = match_kernels([one, two], [one]).rows
    assert row.baseline is not None
    assert (row.baseline.per_token, row.baseline.ns_per_token) == (1, 200)


def test_class_totals_hold_every_kernel_once() -> None:
    left = side(used("some_gemm", "aten::mm", 2, 50), used(ADD, "aten::add", 8, 10))
    found = match_kernels([left], [side(used(SILU, "", 2, 9))])
    assert list(found.by_class_ns) == list(OP_CLASSES)
    assert found.by_class_ns["gemm"] == (50, 0)
    assert found.by_class_ns["pointwise"] == (40, 9)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("aten::add_", "add"),
        ("aten::add.Tensor", "add"),
        ("aten::copy_", "copy"),
        ("_to_copy", "copy"),
        ("aten::embedding", "index_select"),
        ("aten::le", "compare"),
        ("aten::_softmax", "_softmax"),
        ("aten::softmax", "_softmax"),
        ("aten::zero_", "full"),
    ],
)
def test_one_spelling_for_eager_and_compiled(op: str, expected: str) -> None:
    assert canonical(op) == expected


def test_ops_of_names() -> None:
    assert op_of(ADD, "") == "add"
    assert op_of(ADD, "aten::sub") == "sub"
    assert op_of("Memcpy DtoD (Device -> Device)", "") == "copy"
    assert op_of("mystery", "") == ""
    assert op_of(SILU, SILU) == ""
    assert ops_of_compiled(SILU) == ("mul", "silu")
    assert ops_of_compiled("triton_poi_fused_copy__2") == ("copy",)
    assert ops_of_compiled(ADD) == ()
