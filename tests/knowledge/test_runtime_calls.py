"""Families of runtime calls, and what counts as compile work."""

from __future__ import annotations

import pytest

from gaptrace.knowledge import runtime_calls as calls

LAUNCHES = (
    "cudaLaunchKernel",
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernel_ptsz",
    "cudaLaunchKernelExC",
    "cudaLaunchKernelExC_v11060",
    "__cudaLaunchKernel",
    "__cudaLaunchKernel_ptsz",
    "cudaLaunchCooperativeKernel",
    "cudaLaunchCooperativeKernelMultiDevice",
    "cudaLaunch",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchKernelEx_ptsz",
    "cuLaunchCooperativeKernel",
    "cuLaunchGrid",
    "cuLaunchGridAsync",
    "hipLaunchKernel",
    "hipLaunchKernel_spt",
    "hipLaunchKernelExC",
    "hipLaunchByPtr",
    "hipExtLaunchKernel",
    "hipModuleLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipHccModuleLaunchKernel",
    "hipDrvLaunchKernelEx",
    "hipLaunchCooperativeKernel",
    "hipModuleLaunchCooperativeKernel",
    "hipExtLaunchMultiKernelMultiDevice",
    "urEnqueueKernelLaunch",
    "urEnqueueKernelLaunchWithArgsExp",
    "urEnqueueUSMMemcpy",
    "urEnqueueUSMFill",
    "urEnqueueMemBufferWrite",
    "piEnqueueKernelLaunch",
    "piextUSMEnqueueMemcpy",
    "zeCommandListAppendLaunchKernel",
    "zeCommandListAppendMemoryCopy",
    "zeCommandListImmediateAppendCommandListsExp",
    "runFunction - job_prep_and_submit_for_execution",
)
COPIES = (
    "cudaMemcpyAsync",
    "cudaMemcpyAsync_ptsz",
    "cudaMemcpy2DAsync",
    "cudaMemcpy3DPeerAsync",
    "cudaMemcpyBatchAsync",
    "cuMemcpyAsync",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2_ptsz",
    "hipMemcpyAsync",
    "hipMemcpyDtoHAsync",
    "hipDrvMemcpy3DAsync",
)
BLOCKING_COPIES = (
    "cudaMemcpy",
    "cudaMemcpy_ptds",
    "cudaMemcpy2D",
    "cudaMemcpyToSymbol",
    "cuMemcpy",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "hipMemcpy",
    "hipMemcpyWithStream",
    "hipMemcpyDtoH",
)
SETS = ("cudaMemset", "cudaMemsetAsync", "cuMemsetD8Async", "cuMemsetD32_v2", "hipMemsetAsync")
GRAPHS = ("cudaGraphLaunch", "cudaGraphLaunch_ptsz", "cuGraphLaunch", "hipGraphLaunch")
SYNCS = (
    "cudaStreamSynchronize",
    "cudaStreamSynchronize_ptsz",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaThreadSynchronize",
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "hipStreamSynchronize",
    "hipDeviceSynchronize",
    "hipEventSynchronize",
    "urQueueFinish",
    "urEventWait",
    "zeEventHostSynchronize",
    "zeCommandQueueSynchronize",
)
ALLOCS = (
    "cudaMalloc",
    "cudaMallocAsync_ptsz",
    "cudaMallocFromPoolAsync",
    "cudaMallocHost",
    "cudaMallocManaged",
    "cudaFree",
    "cudaFreeAsync",
    "cudaFreeHost",
    "cudaHostAlloc",
    "cudaHostRegister",
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemAllocHost_v2",
    "cuMemHostAlloc",
    "cuMemFree_v2",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemAddressReserve",
    "hipMalloc",
    "hipExtMallocWithFlags",
    "hipHostMalloc",
    "hipFree",
    "hipMemCreate",
    "urUSMDeviceAlloc",
    "zeMemAllocDevice",
)
OTHERS = (
    "cudaStreamWaitEvent",
    "cudaEventRecord",
    "cudaEventQuery",
    "cudaStreamQuery",
    "cudaStreamIsCapturing",
    "cudaGraphInstantiate",
    "cudaGraphExecUpdate",
    "cudaGraphAddMemcpyNode",
    "cudaLaunchHostFunc",
    "cudaMemGetInfo",
    "cudaMemPrefetchAsync",
    "cudaHostGetDevicePointer",
    "cudaPointerGetAttributes",
    "cuMemGetInfo_v2",
    "cuModuleGetFunction",
    "hipLaunchHostFunc",
    "hipGetDevicePropertiesR0600",
    "hipHostGetDevicePointer",
    "INVALID",
    "",
)


@pytest.mark.parametrize("name", LAUNCHES + COPIES + BLOCKING_COPIES + SETS + GRAPHS)
def test_launch_families(name: str) -> None:
    assert calls.is_launch_family(name)


@pytest.mark.parametrize("name", OTHERS + SYNCS + ALLOCS)
def test_other_calls_are_no_launches(name: str) -> None:
    assert not calls.is_launch_family(name)


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_launches(name: str) -> None:
    assert calls.is_graph_launch(name)


@pytest.mark.parametrize("name", LAUNCHES + COPIES + ("cudaGraphInstantiate", "cudaGraphUpload"))
def test_other_calls_replay_no_graph(name: str) -> None:
    assert not calls.is_graph_launch(name)


@pytest.mark.parametrize("name", SYNCS + BLOCKING_COPIES)
def test_syncs(name: str) -> None:
    assert calls.is_sync(name)


@pytest.mark.parametrize("name", LAUNCHES + COPIES + SETS + GRAPHS + ALLOCS + OTHERS)
def test_calls_that_do_not_wait(name: str) -> None:
    assert not calls.is_sync(name)


def test_copies_that_may_return_early() -> None:
    assert all(calls.is_async_copy(name) and calls.is_copy(name) for name in COPIES)
    assert all(calls.is_copy(name) for name in BLOCKING_COPIES)
    assert not any(calls.is_async_copy(name) for name in BLOCKING_COPIES + SETS + SYNCS + OTHERS)
    assert calls.is_async_copy("urEnqueueUSMMemcpy")


@pytest.mark.parametrize("name", ALLOCS)
def test_allocations(name: str) -> None:
    assert calls.is_alloc(name)


@pytest.mark.parametrize("name", LAUNCHES + COPIES + SETS + GRAPHS + SYNCS + OTHERS)
def test_calls_that_allocate_nothing(name: str) -> None:
    assert not calls.is_alloc(name)


@pytest.mark.parametrize(
    "name",
    [
        "_compile.compile_inner (dynamo_timed)",
        "OutputGraph.call_user_compiler (dynamo_timed)",
        "compile_fx.<locals>.fw_compiler_base (dynamo_timed)",
        "GraphLowering.run (dynamo_timed)",
        "async_compile.wait (dynamo_timed)",
        "TritonBundler.collect (dynamo_timed)",
        "CachingAutotuner.benchmark_all_configs (dynamo_timed)",
        "CUDAGraphNode.record (dynamo_timed)",
        "compile_inner (dynamo_timed)",
        "gc (dynamo_timed)",
        # torch 2.13 repeats each phase without the suffix, and with its data.
        "entire_frame_compile",
        "dynamo",
        "inductor_compile",
        "compile_attempt_0",
        "Scheduler.__init__",
        "pass.post_grad_passes.stable_sort",
        "entire_frame_compile_data: fn_name=_compile.compile_inner, compile_id=0/0",
        "GraphLowering.run_data: compile_id=2/0",
        "Lazy Function Loading",
        "Runtime Triggered Module Loading",
        "Driver Compiler",
        "cuModuleLoadData",
        "cuModuleLoadDataEx",
        "cuLibraryLoadData",
        "cudaLibraryLoadData",
        "cuLinkComplete",
        "hipModuleLoad",
        "hipModuleLoadData",
        "nvrtcCompileProgram",
        "zeModuleCreate",
        "urProgramBuild",
    ],
)
def test_compile_work(name: str) -> None:
    assert calls.is_compile(name)


@pytest.mark.parametrize(
    "name",
    [
        "TorchDynamo Cache Lookup",
        "## Call CompiledFxGraph fx3k ##",
        "Torch-Compiled Region",
        "Torch-Compiled Region: 0/1",
        "Pregraph bytecode",
        "AOTDispatcher Runtime Wrapper Prologue",
        "CompiledFunction",
        "CompiledFunctionBackward",
        "guard_collective (dynamo_timed)",
        "triton_poi_fused_add_0",
        "aten::compile",
        "aten::mm",
        "Activity Buffer Request",
        "Buffer Flush",
        "cuModuleUnload",
        "cuModuleGetFunction",
        "cuModuleGetLoadingMode",
        "dynamo_step",
        "my_model.dynamo",
        "gc",
        *LAUNCHES,
        *SYNCS,
    ],
)
def test_running_compiled_code_is_no_compile_work(name: str) -> None:
    assert not calls.is_compile(name)


@pytest.mark.parametrize(
    ("name", "compiling"),
    [
        ("torch/_dynamo/convert_frame.py(1667): compile_inner", True),
        ("/usr/lib/python3/site-packages/torch/_dynamo/output_graph.py(1): compile_subgraph", True),
        ("torch/_inductor/graph.py(900): run", True),
        ("torch/_inductor/compile_fx.py(700): compile_fx_inner", True),
        ("triton/compiler/compiler.py(226): compile", True),
        ("torch/_dynamo/eval_frame.py(1423): _fn", False),
        ("torch/_dynamo/guards.py(2545): fn", False),
        ("torch/_dynamo/convert_frame.py(90): catch_errors", False),
        ("torch/_inductor/output_code.py(721): __call__", False),
        ("torch/_inductor/runtime/triton_heuristics.py(900): run", False),
        ("torch/_inductor/compile_fx.py(1200): run", False),
        ("triton/compiler/compiler.py(481): run", False),
        ("triton/runtime/jit.py(574): run", False),
        ("model.py(3): compile", False),
    ],
)
def test_python_frames_of_the_compiler(name: str, compiling: bool) -> None:
    assert calls.is_compile_frame(name) is compiling


@pytest.mark.parametrize(
    ("names", "family"),
    [
        (
            ("cudaLaunchKernel", "cudaLaunchKernelExC_v11060", "__cudaLaunchKernel_ptsz"),
            "cudaLaunchKernel",
        ),
        (("cuLaunchKernel", "cuLaunchKernelEx"), "cuLaunchKernel"),
        (("hipLaunchKernel", "hipLaunchKernel_spt"), "hipLaunchKernel"),
        (("hipExtModuleLaunchKernel",), "hipExtModuleLaunchKernel"),
        (("hipModuleLaunchKernel",), "hipModuleLaunchKernel"),
        (("cudaGraphLaunch", "cudaGraphLaunch_v10000"), "cudaGraphLaunch"),
        (("cudaMemcpyAsync", "cudaMemcpy2DAsync_ptsz"), "cudaMemcpyAsync"),
        (("cudaMemcpy", "cudaMemcpy2D_ptds"), "cudaMemcpy"),
        (("cuMemcpyHtoDAsync_v2",), "cuMemcpyAsync"),
        (("cudaMemset", "cudaMemsetAsync"), "cudaMemset"),
        (("cudaEventRecord_ptsz",), "cudaEventRecord"),
        (("somethingNew",), "somethingNew"),
    ],
)
def test_one_family_for_all_spellings(names: tuple[str, ...], family: str) -> None:
    assert {calls.family(name) for name in names} == {family}
