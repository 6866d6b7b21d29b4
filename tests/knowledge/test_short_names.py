"""Demangling, heads, template arguments and short names."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from gaptrace.knowledge import symbols
from gaptrace.knowledge.short_names import frame_name, short_name, short_names
from tests.knowledge.names import LAMBDA, NAMES

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, "
RMSNORM = (
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_20Rmsnorm2dFwdPipelineINS_8sequenceIJLi1E"
    "Li3072EEEELb1EEEEEEEvv"
)


@pytest.mark.parametrize(
    ("mangled", "demangled"),
    [
        ("_Z6kernelPfi", "kernel"),
        ("_Z4axpyIfLi256EEvPT_S0_", "axpy<float, 256>"),
        ("_ZN2at6native4fillIN3c108BFloat16EEEvT_", "at::native::fill<c10::BFloat16>"),
        (
            "_ZN5aiter3addIDF16bDF16_Lb1ELb0EEEvPT_",
            "aiter::add<__bf16, _Float16, true, false>",
        ),
        ("_ZN1aIJiLj3EEE1bIPKfRiEEvv", "a<int, 3u>::b<float const*, int&>"),
        ("_ZN12_GLOBAL__N_16widgetIlEEvv", "widget<long>"),
        ("_Z3runISt4plusIfEEvT_", "run<std::plus<float>>"),
        ("_Z3runILin1EEvv", "run<-1>"),
        ("_Z3runIFvifEEvv", "run<void (int, float)>"),
        ("_Z3runIPFvifEEvv", "run<void (*)(int, float)>"),
        ("_ZN1aIiEC2Ev", "a<int>::a"),
        ("_Z3runIXadL_Z4siluIfEfT_EEEvv", "run<silu<float>>"),
        ("_ZN3foo3barEv.kd", "foo::bar"),
        (
            RMSNORM,
            "ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<ck_tile::Rmsnorm2dFwdPipeline<"
            "ck_tile::sequence<1, 3072>, true>>>",
        ),
    ],
)
def test_demangling(mangled: str, demangled: str) -> None:
    assert symbols.readable(mangled) == demangled


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="needs c++filt")
@pytest.mark.parametrize(
    "mangled",
    [
        RMSNORM,
        "_Z4axpyIfLi256EEvPT_S0_",
        "_ZN2at6native4fillIN3c108BFloat16EEEvT_",
        "_ZN1aIJiLj3EEE1bIPKfRiEEvv",
        "_Z3runISt4plusIfEEvT_",
        "_ZN1a1bINS_1cINS_1dEEENS_1eIS2_S3_EEEEvv",
        "_ZN1aIiE1bIS0_NS0_1cEEEvT_",
    ],
)
def test_demangling_agrees_with_binutils(mangled: str) -> None:
    done = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True)
    expected = re.sub(r"\s+>", ">", done.stdout).removeprefix("void ")
    assert expected.startswith(f"{symbols.readable(mangled)}(")


def test_a_mangled_name_that_is_cut_keeps_its_function_and_what_follows() -> None:
    text = symbols.readable(RMSNORM[:60])
    assert symbols.head(text) == "ck_tile::kentry"
    assert "Rmsnorm2dFwd" in text


@pytest.mark.parametrize("name", ["_Z", "_ZN", "_ZN99foo", "_ZQQ", "_zebra"])
def test_what_cannot_be_demangled_stays(name: str) -> None:
    assert symbols.readable(name) == name


def test_a_name_that_doubles_itself_is_given_up() -> None:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def substitution(index: int) -> str:
        if index == 0:
            return "S_"
        high, low = divmod(index - 1, 36)
        return f"S{digits[high] if high else ''}{digits[low]}_"

    def doubled(levels: int) -> str:
        name = "_Z1fI1aIiiE"
        for level in range(levels):
            inner = substitution(2 + 2 * level)
            name += f"1bI{inner}{inner}E"
        return f"{name}Evv"

    assert symbols.readable(doubled(1)) == "f<a<int, int>, b<a<int, int>, a<int, int>>>"
    assert len(symbols.readable(doubled(6))) > 1000
    # Each class holds the one before twice: forty of them would be 2^40 letters.
    text = symbols.readable(doubled(40))
    assert len(text) < 20_000
    assert symbols.head(text) == "f"


@pytest.mark.parametrize(
    ("text", "head", "arguments"),
    [
        ("a::b<int, c<d, e>, 3>(f<g>)", "a::b", ("int", "c<d, e>", "3")),
        ("plain", "plain", ()),
        ("a<b>::c<d>", "a::c", ("b",)),
        ("op<x::{lambda(int, int)#1}, y>(int)", "op", ("x::{lambda(int, int)#1}", "y")),
        ("a::operator()<int>(int)", "a::operator()", ("int",)),
    ],
)
def test_heads_and_arguments(text: str, head: str, arguments: tuple[str, ...]) -> None:
    assert symbols.head(text) == head
    assert symbols.arguments(text) == arguments


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            f"{ELEMENTWISE}at::native::(anonymous namespace)::silu_kernel(X&){LAMBDA}, X >(int)",
            "at::native::elementwise<silu>",
        ),
        (
            f"{ELEMENTWISE}at::native::CUDAFunctor_add<c10::BFloat16>, X >(int)",
            "at::native::elementwise<add>",
        ),
        (
            f"{ELEMENTWISE}at::native::BinaryFunctor<float, float, float, "
            "at::native::binary_internal::MulFunctor<float> >, X >(int)",
            "at::native::elementwise<mul>",
        ),
        (
            f"{ELEMENTWISE}at::native::FillFunctor<long>, X >(int)",
            "at::native::elementwise<fill>",
        ),
        (
            f"{ELEMENTWISE}at::native::direct_copy_kernel_cuda(X&){LAMBDA}, X >(int)",
            "at::native::elementwise<direct_copy>",
        ),
        (
            f"{ELEMENTWISE}at::native::GeluCUDAKernelImpl(at::native::GeluType){LAMBDA}, X >(X)",
            "at::native::elementwise<gelu>",
        ),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
            "at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(X)",
            "at::native::reduce<argmax>",
        ),
        (
            "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<"
            "at::native::index_put_kernel_impl<at::native::OpaqueType<2> >(X&)> >(long)",
            "at::native::elementwise<index_put>",
        ),
        (
            "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float> >(int)",
            "multi_tensor_apply<adam>",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)",
            "at::native::vectorized_layer_norm_kernel",
        ),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_bias_NNT", "nvjet 64x8 nnt splitK bias"),
        ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "nvjet 192x8 tnt"),
        (
            "ampere_bf16_s16816gemm_bf16_128x256_ldg8_relu_f2f_stages_64x3_tn",
            "ampere_bf16_s16816gemm_bf16 128x256 tn",
        ),
        (
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_K1",
            "Tensile bf16 256x192x64 tn",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_tn_align8>"
            "(P)",
            "cutlass_80_tensorop_bf16_s16816gemm_bf16 64x64 tn",
        ),
        (
            "igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_gkgs",
            "igemm fwd nhwc bf16 128x128x32",
        ),
        (
            "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_swiGlu_sm100f",
            "trtllm bmm_Bfloat16_MxE2m1MxE4m3_Fp32 128x16x256 swiGlu",
        ),
        (
            "kernel_cutlass_kernel_mypackageSm100BlockScaledGemmKernel_object_at__0",
            "CuTe Sm100BlockScaledGemmKernel",
        ),
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
            "nccl AllReduce_Sum_f32_RING_LL",
        ),
        (
            "triton_red_fused__to_copy__unsafe_view_mean_mul_pow_rsqrt_10",
            "triton_red mean_mul_pow_rsqrt",
        ),
        ("triton_poi_fused__to_copy_1", "triton_poi _to_copy"),
        ("triton_poi_fused_14", "triton_poi 14"),
        ("triton__0d1d2de", "triton (unnamed)"),
        ("_fwd_kernel_aligned_0d1d2d3d45d6de", "_fwd_kernel_aligned"),
        ("Memcpy DtoH (Device -> Pageable)", "Memcpy DtoH (Device -> Pageable)"),
        (RMSNORM, "ck_tile Rmsnorm2dFwd"),
        ("void acme::widget<int>(int)", "acme::widget"),
        ("plain_kernel", "plain_kernel"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


def test_short_names_are_short_and_never_empty() -> None:
    for name, _, _ in NAMES:
        short = short_name(name)
        assert len(short) <= 80
        assert bool(short) == bool(name)
    assert short_name("k" * 200) == "k" * 79 + "…"


def test_names_that_look_alike_keep_what_tells_them_apart() -> None:
    fill = f"{ELEMENTWISE}at::native::FillFunctor<{{}}>, X >(int)"
    mul = "_fused__to_copy_mul_"
    found = short_names(
        [
            "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
            "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT",
            fill.format("long"),
            fill.format("float"),
            f"triton_poi{mul}1",
            f"triton_poi{mul}12",
            "plain_kernel",
        ]
    )
    assert list(found.values()) == [
        "nvjet 64x8 tnt [2x1]",
        "nvjet 64x8 tnt [4x1]",
        "plain_kernel",
        "triton_poi mul [1]",
        "triton_poi mul [12]",
        "at::native::elementwise<fill> [float]",
        "at::native::elementwise<fill> [long]",
    ]


def test_the_launching_op_tells_apart_what_the_names_do_not() -> None:
    long = [f"void acme::widget<{'A' * 40}{letter}>(int)" for letter in "xy"]
    assert set(short_names(long).values()) == {"acme::widget [#1]", "acme::widget [#2]"}
    ops = dict(zip(long, ("aten::mul", "aten::add"), strict=True))
    assert short_names(long, ops)[long[1]] == "acme::widget [aten::add]"


def test_no_two_names_of_a_table_are_alike() -> None:
    found = short_names(name for name, _, _ in NAMES)
    assert len(set(found.values())) == len(found)
    assert max(map(len, found.values())) <= 80


@pytest.mark.parametrize(
    ("raw", "short"),
    [
        ("a/b/serve.py(40): wait", "wait (serve.py:40)"),
        ("serve.py(7): <module>", "<module> (serve.py:7)"),
        ("<built-in function sleep>", "sleep (built-in)"),
        ("<built-in method get of Queue object>", "get (built-in of Queue)"),
        ("<built-in method embedding of type object>", "embedding (built-in)"),
        ("nn.Module: Linear_3", "nn.Module: Linear_3"),
    ],
)
def test_a_frame_is_named_by_its_function(raw: str, short: str) -> None:
    assert frame_name(raw) == short
