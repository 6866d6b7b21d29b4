"""Names of generated kernels taken apart."""

from __future__ import annotations

import pytest

from gaptrace.knowledge.inductor_names import InductorName, inductor_parts


@pytest.mark.parametrize(
    ("name", "kind", "ops", "number"),
    [
        ("triton_poi_fused_mul_silu_2", "pointwise", ("mul", "silu"), 2),
        (
            "triton_red_fused__to_copy__unsafe_view_add_mean_mul_pow_rsqrt_10",
            "reduction",
            ("_to_copy", "_unsafe_view", "add", "mean", "mul", "pow", "rsqrt"),
            10,
        ),
        (
            "triton_per_fused_native_layer_norm_native_layer_norm_backward_view_3",
            "persistent_reduction",
            ("native_layer_norm", "native_layer_norm_backward", "view"),
            3,
        ),
        ("triton_poi_fused_add_copy__11", "pointwise", ("add", "copy_"), 11),
        ("triton_poi_fused_index_copy_select_1", "pointwise", ("index_copy", "select"), 1),
        ("triton_tem_fused_mm_silu_3", "template", ("mm", "silu"), 3),
        ("triton_tem_fused_0", "template", (), 0),
        ("triton_for_fused_5", "foreach", (), 5),
        ("triton_poi_fused_add_5_0d1d2de", "pointwise", ("add",), 5),
        ("triton_poi_fused_add", "pointwise", ("add",), None),
        ("triton_poi_fused", "pointwise", (), None),
        ("triton__0d1d2d3d4d5de6de7de", "unknown", (), None),
        ("triton_", "unknown", (), None),
    ],
)
def test_parts(name: str, kind: str, ops: tuple[str, ...], number: int | None) -> None:
    assert inductor_parts(name) == InductorName(kind, ops, number)


@pytest.mark.parametrize(
    "name",
    [
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
        "_fwd_kernel",
        "triton_scale_swizzle_per_group_3d",
        "triton_poisson_kernel",
        "my_triton_poi_fused_add_0",
        "void triton_poi_fused_add_0(int)",
        "",
    ],
)
def test_names_that_inductor_did_not_write(name: str) -> None:
    assert inductor_parts(name) is None


def test_an_unknown_op_with_an_underscore_falls_into_its_words() -> None:
    parts = inductor_parts("triton_poi_fused_acme_swizzle_mul_2")
    assert parts is not None
    assert parts.ops == ("acme", "swizzle", "mul")


def test_what_a_kernel_calculates_leaves_out_views_and_copies() -> None:
    parts = inductor_parts("triton_poi_fused__to_copy__unsafe_view_clone_mul_silu_transpose_4")
    assert parts is not None
    assert parts.computing == ("mul", "silu")
