"""Drawings about the host: what the launching thread was doing while the GPU was idle."""

from __future__ import annotations

from tests.builders import (
    event,
    frame,
    kernel,
    launch,
    mark,
    memcpy,
    op,
    overhead,
    runtime,
)
from tests.drawing import FIRST, Drawing, GapRow, one_device

LATE = (
    one_device(
        "launched the moment the GPU ran dry",
        *FIRST,
        launch(at=10, dur=5, corr=2),
        kernel("b", at=40, dur=10, corr=2),
        gaps=(GapRow(10, 40, {"device_wait": 30}),),
    ),
    one_device(
        "python, then dispatch, then the call",
        *FIRST,
        op("aten::mm", at=20, dur=30),
        launch(at=40, dur=5, corr=2),
        kernel("b", at=60, dur=10, corr=2),
        gaps=(GapRow(10, 60, {"python": 10, "dispatch": 20, "launch": 20}),),
    ),
    one_device(
        "nested ops, a frame inside an op, calls inside ops",
        *FIRST,
        frame("model.py(1): forward", at=0, dur=110),
        op("aten::linear", at=20, dur=80),
        frame("linear.py(9): pad", at=25, dur=35),
        runtime("cudaStreamIsCapturing", at=30, dur=5),
        runtime("cudaMalloc", at=50, dur=10),
        runtime("cuModuleLoadData", at=62, dur=8),
        op("aten::addmm", at=72, dur=18),
        runtime("cudaEventRecord", at=75, dur=5),
        launch(at=85, dur=10, corr=2),
        kernel("b", at=120, dur=10, corr=2),
        gaps=(
            GapRow(
                10,
                120,
                {
                    "python": 10,
                    "dispatch": 37,
                    "runtime": 10,
                    "alloc": 10,
                    "compile": 8,
                    "launch": 35,
                },
            ),
        ),
        launch_calls=2,
    ),
    one_device(
        "a runtime call that begins before the op is still innermost",
        *FIRST,
        runtime("cudaEventRecord", at=12, dur=10),
        op("aten::mm", at=15, dur=25),
        launch(at=30, dur=5, corr=2),
        kernel("b", at=40, dur=10, corr=2),
        gaps=(GapRow(10, 40, {"python": 2, "runtime": 10, "dispatch": 8, "launch": 10}),),
    ),
    one_device(
        "ops that cross instead of nesting",
        *FIRST,
        op("aten::a", at=12, dur=10),
        op("aten::b", at=18, dur=10),
        launch(at=30, dur=5, corr=2),
        kernel("b", at=40, dur=10, corr=2),
        gaps=(GapRow(10, 40, {"python": 4, "dispatch": 16, "launch": 10}),),
    ),
    one_device(
        "calls that launch other ops are runtime",
        *FIRST,
        launch("cudaMemcpyAsync", at=12, dur=4, corr=2),
        launch(at=20, dur=5, corr=3),
        kernel("b", at=30, dur=5, corr=3),
        memcpy(at=40, dur=5, corr=2, stream=8),
        gaps=(
            GapRow(10, 30, {"python": 6, "runtime": 4, "launch": 10}),
            GapRow(35, 40, {"device_wait": 5}),
        ),
    ),
    one_device(
        "an op that ends at the gap's start has no part in it",
        *FIRST,
        op("aten::mm", at=0, dur=10),
        launch(at=20, dur=5, corr=2),
        kernel("b", at=30, dur=10, corr=2),
        gaps=(GapRow(10, 30, {"python": 10, "launch": 10}),),
    ),
)


SYNC = (
    one_device(
        "drained by a synchronization",
        launch(at=0, dur=2, corr=1),
        kernel("a", at=5, dur=25, corr=1),
        runtime("cudaStreamSynchronize", at=10, dur=25),
        launch(at=40, dur=5, corr=2),
        kernel("b", at=50, dur=10, corr=2),
        gaps=(GapRow(30, 50, {"sync": 5, "python": 5, "launch": 10}, drained=True),),
    ),
    one_device(
        "a synchronization that ends as the gap opens",
        launch(at=0, dur=2, corr=1),
        kernel("a", at=5, dur=25, corr=1),
        runtime("cudaStreamSynchronize", at=10, dur=20),
        launch(at=40, dur=5, corr=2),
        kernel("b", at=50, dur=10, corr=2),
        gaps=(GapRow(30, 50, {"python": 10, "launch": 10}),),
    ),
    one_device(
        "a synchronization inside an op inside the gap drains nothing",
        *FIRST,
        op("aten::item", at=12, dur=30),
        runtime("cudaDeviceSynchronize", at=20, dur=15),
        launch(at=50, dur=5, corr=2),
        kernel("b", at=60, dur=10, corr=2),
        gaps=(GapRow(10, 60, {"python": 10, "dispatch": 15, "sync": 15, "launch": 10}),),
    ),
    one_device(
        "a blocking copy is a synchronization",
        launch(at=0, dur=2, corr=1),
        kernel("a", at=5, dur=15, corr=1),
        launch("cudaMemcpy", at=10, dur=30, corr=2),
        memcpy("DtoH (Device -> Pageable)", at=25, dur=5, corr=2),
        launch(at=45, dur=2, corr=3),
        kernel("b", at=50, dur=10, corr=3),
        gaps=(
            GapRow(20, 25, {"device_wait": 5}),
            GapRow(30, 50, {"sync": 10, "python": 5, "launch": 5}, drained=True),
        ),
    ),
    one_device(
        "an async copy that lasts until its op has ended is one too",
        launch(at=0, dur=2, corr=1),
        kernel("a", at=5, dur=15, corr=1),
        launch("cudaMemcpyAsync", at=10, dur=30, corr=2),
        memcpy("DtoH (Device -> Pageable)", at=25, dur=5, corr=2),
        launch(at=45, dur=2, corr=3),
        kernel("b", at=50, dur=10, corr=3),
        gaps=(
            GapRow(20, 25, {"device_wait": 5}),
            GapRow(30, 50, {"sync": 10, "python": 5, "launch": 5}, drained=True),
        ),
    ),
    Drawing(
        "an async copy that ends with its op, on another device",
        (
            *FIRST,
            launch("cudaMemcpyAsync", at=12, dur=13, corr=2),
            memcpy("DtoH (Device -> Pageable)", at=15, dur=10, corr=2, device=1),
            launch(at=30, dur=5, corr=3),
            kernel("b", at=40, dur=10, corr=3),
        ),
        {"0": (GapRow(10, 40, {"python": 7, "sync": 13, "launch": 10}),), "1": ()},
        {"0": {"launch_calls": 2}, "1": {"launch_calls": 1, "kernel_launch_calls": 0}},
    ),
    Drawing(
        "an async copy that returns before its op ends",
        (
            *FIRST,
            launch("cudaMemcpyAsync", at=12, dur=12, corr=2),
            memcpy("HtoD (Pinned -> Device)", at=15, dur=10, corr=2, device=1),
            launch(at=30, dur=5, corr=3),
            kernel("b", at=40, dur=10, corr=3),
        ),
        {"0": (GapRow(10, 40, {"python": 8, "runtime": 12, "launch": 10}),), "1": ()},
    ),
    one_device(
        "a synchronization on another thread explains nothing",
        *FIRST,
        runtime("cudaDeviceSynchronize", at=8, dur=37, tid=1),
        op("aten::mm", at=20, dur=24, tid=2),
        launch(at=40, dur=3, corr=2, tid=2),
        kernel("b", at=50, dur=10, corr=2),
        gaps=(GapRow(10, 50, {"python": 10, "dispatch": 20, "launch": 10}),),
    ),
)


OVERHEAD = (
    one_device(
        "the profiler's own time outranks all",
        *FIRST,
        op("aten::mm", at=12, dur=48),
        runtime("cudaMalloc", at=20, dur=20),
        overhead(at=25, dur=25),
        launch(at=55, dur=3, corr=2),
        kernel("b", at=60, dur=10, corr=2),
        gaps=(
            GapRow(10, 60, {"python": 2, "dispatch": 13, "alloc": 5, "profiler": 25, "launch": 5}),
        ),
    ),
    one_device(
        "lazy loading inside a call is compile work",
        *FIRST,
        op("aten::mm", at=12, dur=48),
        runtime("cudaFuncGetAttributes", at=20, dur=20),
        overhead("Lazy Function Loading", at=25, dur=10),
        launch(at=55, dur=3, corr=2),
        kernel("b", at=60, dur=10, corr=2),
        gaps=(
            GapRow(
                10, 60, {"python": 2, "dispatch": 23, "runtime": 10, "compile": 10, "launch": 5}
            ),
        ),
    ),
    one_device(
        "Dynamo at work, with an op on fake tensors inside, then a guard check",
        *FIRST,
        mark("_compile.compile_inner (dynamo_timed)", at=12, dur=38),
        op("aten::empty", at=15, dur=5),
        runtime("cudaMalloc", at=30, dur=4),
        op("TorchDynamo Cache Lookup", at=51, dur=3),
        launch(at=56, dur=2, corr=2),
        kernel("b", at=60, dur=10, corr=2),
        gaps=(
            GapRow(10, 60, {"python": 5, "compile": 34, "alloc": 4, "dispatch": 3, "launch": 4}),
        ),
    ),
    one_device(
        "other annotations are no cause",
        *FIRST,
        mark("## forward ##", at=5, dur=60),
        launch(at=30, dur=5, corr=2),
        kernel("b", at=40, dur=10, corr=2),
        gaps=(GapRow(10, 40, {"python": 20, "launch": 10}),),
    ),
)


NAMES = (
    one_device(
        "per-thread default stream names",
        launch("cudaLaunchKernel_ptsz", at=0, dur=3, corr=1),
        kernel("a", at=5, dur=15, corr=1),
        runtime("cudaStreamSynchronize_ptsz", at=8, dur=16),
        launch("cudaGraphLaunch_ptsz", at=30, dur=4, corr=2),
        kernel("b", at=40, dur=10, corr=2),
        kernel("c", at=53, dur=7, corr=2),
        runtime("cudaMallocAsync_ptsz", at=62, dur=4),
        launch("cudaMemcpy_ptds", at=68, dur=16, corr=3),
        memcpy(at=76, dur=4, corr=3),
        launch(at=86, dur=2, corr=4),
        kernel("d", at=90, dur=5, corr=4),
        gaps=(
            GapRow(20, 40, {"sync": 4, "python": 6, "launch": 10}, drained=True),
            GapRow(50, 53, {"graph_node": 3}),
            GapRow(60, 76, {"python": 4, "alloc": 4, "launch": 8}),
            GapRow(80, 90, {"sync": 4, "python": 2, "launch": 4}, drained=True),
        ),
        launch_calls=4,
        graph_launches=1,
    ),
    one_device(
        "HIP names",
        launch("hipExtModuleLaunchKernel", at=0, dur=3, corr=1),
        kernel("a", at=5, dur=15, corr=1),
        launch("hipMemcpyWithStream", at=22, dur=18, corr=2),
        memcpy("DtoH", at=30, dur=6, corr=2),
        runtime("hipMalloc", at=42, dur=4),
        launch("hipGraphLaunch", at=48, dur=4, corr=3),
        kernel("b", at=60, dur=10, corr=3),
        kernel("c", at=71, dur=9, corr=3),
        gaps=(
            GapRow(20, 30, {"python": 2, "launch": 8}),
            GapRow(36, 60, {"sync": 4, "python": 4, "alloc": 4, "launch": 12}, drained=True),
            GapRow(70, 71, {"graph_node": 1}),
        ),
        launch_calls=3,
        graph_launches=1,
        ops_in_graphs=2,
    ),
    one_device(
        "names of 2020: Operator, Runtime, Kernel, Memcpy, and threads as text",
        event("Runtime", "cudaLaunchKernel", at=0, dur=2, tid="77", correlation=1),
        event("Kernel", "a", at=5, dur=5, pid=0, tid="stream 7", device=0, correlation=1),
        event("Operator", "aten::to", at=12, dur=20, tid="77"),
        event("Runtime", "cudaMemcpyAsync", at=20, dur=2, tid="77", correlation=2),
        event("Memcpy", "Memcpy HtoD", at=30, dur=5, pid=0, device=0, correlation=2),
        gaps=(GapRow(10, 30, {"python": 2, "dispatch": 8, "launch": 10}),),
        gpu_ops=2,
        kernels=1,
        launch_calls=2,
    ),
)
