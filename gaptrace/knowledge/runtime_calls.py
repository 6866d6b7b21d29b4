"""What a runtime or driver call is for, from its name alone.

Names are matched by family, never exactly: the same call appears with version suffixes (`_v2`,
`_v7000`), per-thread-stream suffixes (`_ptsz`, `_ptds`, HIP's `_spt`) and a leading `__`. Kineto
writes the names that CUPTI, roctracer/rocprofiler and PTI give it, and of the CUDA driver API only
the calls it registers (kineto: libkineto/src/cupti_strings.cpp, CuptiCbidRegistry.cpp,
plugin/xpupti).
"""

from __future__ import annotations

import re
from functools import lru_cache

_SUFFIX = re.compile(r"(?:_ptsz|_ptds|_spt|_v\d+|R\d{4})+$")

# Kernel launches. HIP: hipLaunchKernel, hipLaunchKernelExC, hipLaunchByPtr, hipExtLaunchKernel,
# hipModuleLaunchKernel, hipExtModuleLaunchKernel, hipHccModuleLaunchKernel, hipDrvLaunchKernelEx
# and the cooperative and multi-device ones. cudaLaunchHostFunc starts no GPU op.
_KERNEL_LAUNCH = re.compile(
    r"(?:cuda|cu|hip)(?:Ext|Hcc|Drv)?(?:Module)?Launch"
    r"(?:(?:Cooperative|Multi)?Kernel|CooperativeKernel|ByPtr|Grid|Device(?![A-Za-z]))\w*"
    r"|(?:cuda|cu)Launch|hip(?:Ext)?LaunchMultiKernelMultiDevice"
)
_GRAPH_LAUNCH = re.compile(r"\w*GraphLaunch\w*")
_COPY_OR_SET = re.compile(r"(?:cuda|cu|hip|hipDrv)(?:Memcpy|Memset)\w*")
# XPU names are those of Unified Runtime, of its predecessor (pi) and of Level Zero; a command
# buffer or command list is their graph. Level Zero: level-zero-spec, `zeCommandListAppend*`.
_XPU_LAUNCH = re.compile(
    r"ur(?:CommandBufferEnqueue|Enqueue(?:Cooperative)?KernelLaunch"
    r"|EnqueueCommandBuffer|EnqueueUSM(?:Memcpy|Fill|Memset)"
    r"|EnqueueMem(?:Buffer|Image|Unmap)\w*(?:Copy|Write|Read|Fill))\w*"
    r"|pi(?:ext)?(?:USM)?Enqueue(?:Cooperative)?(?:KernelLaunch|Memcpy|Memset|Fill"
    r"|CommandBuffer|MemBuffer(?:Copy|Write|Read|Fill))\w*"
    r"|zeCommandListAppend(?:Launch\w*Kernel|LaunchMultipleKernels|Memory(?:Copy|Fill)"
    r"|Image(?:Copy))\w*"
    r"|zeCommandQueueExecuteCommandLists\w*|zeCommandListImmediateAppendCommandLists\w*"
)
# MTIA: the runtime call that owns a kernel is named so (HTA's trace symbol table).
_MTIA_LAUNCH = re.compile(r"runFunction\b.*")

_SYNC = re.compile(
    r"(?:cuda|cu|hip)(?:Stream|Device|Event|Ctx|Thread)Synchronize"
    r"|urQueueFinish|urEventWait|pi(?:Queue)Finish|piEventsWait"
    r"|ze(?:CommandQueue|Fence|CommandList)(?:Host)?Synchronize|zeEventHostSynchronize"
)
_STREAM_SYNC = re.compile(r"(?:cuda|cu|hip)StreamSynchronize")
_WIDE_SYNC = re.compile(r"(?:cuda|cu|hip)(?:Stream|Device|Ctx|Thread)Synchronize")
_COPY = re.compile(r"(?:cuda|cu|hip|hipDrv)Memcpy\w*")
_XPU_COPY = re.compile(
    r"ur(?:EnqueueUSMMemcpy|EnqueueMem(?:Buffer|Image)(?:Copy|Write|Read))\w*"
    r"|piextUSMEnqueueMemcpy\w*|piEnqueueMemBuffer(?:Copy|Write|Read)\w*"
    r"|zeCommandListAppend(?:MemoryCopy|ImageCopy)\w*"
)

# Allocation of device or page-locked host memory, and the virtual-memory calls behind PyTorch's
# expandable segments (cuMemCreate, cuMemMap, ...; recorded by kineto, CuptiCbidRegistry.cpp).
# cudaHostRegister is how PyTorch pins memory with pinned_use_cuda_host_register.
_ALLOC = re.compile(
    r"cuda(?:Malloc|Free|HostAlloc|HostRegister|HostUnregister|MemPoolTrimTo)\w*"
    r"|hip(?:Ext)?(?:Malloc|Free|Host(?:Alloc|Malloc|Free|Register|Unregister)|MemPoolTrimTo)\w*"
    r"|(?:cu|hip)Mem(?:Alloc|Free|HostAlloc|HostRegister|HostUnregister|PoolTrimTo|Create|Release"
    r"|Map|Unmap|SetAccess|AddressReserve|AddressFree)(?:Host|Managed|Pitch|Async|FromPoolAsync"
    r"|Array)*"
    r"|urUSM(?:(?:Device|Host|Shared)Alloc|Free|PoolTrimTo)\w*"
    r"|piextUSM(?:(?:Device|Host|Shared)Alloc|Free)\w*"
    r"|zeMem(?:Alloc(?:Device|Host|Shared)|Free)\w*"
)

# Code that reaches the device: module and library loads, the driver's own PTX compiler, run-time
# compilation. The last line holds CUPTI overhead kinds (kineto: overheadKindString).
_CODE_LOAD = re.compile(
    r"(?:cu|cuda|hip)(?:ModuleLoad|LibraryLoad)\w*|(?:cu|hip)Link(?:Create|Add|Complete)\w*"
    r"|(?:nvrtc|hiprtc)(?:CompileProgram|Link)\w*|zeModule(?:Create|DynamicLink)"
    r"|ur(?:Program(?:Build|Compile|Link|CreateWith)\w*)"
    r"|Lazy Function Loading|Runtime Triggered Module Loading|Driver Compiler"
)
# Every phase of Dynamo, AOTAutograd and Inductor is recorded as `<phase> (dynamo_timed)`
# (torch/_dynamo/utils.py, dynamo_timed). Checked on recorded profiles: torch 2.13 also writes the
# bare phase name around it and a zero-length `<phase>_data: compile_id=...` annotation.
_TIMED = re.compile(r".+ \(dynamo_timed\)|.+_data: (?:fn_name=.*, )?compile_id=.*")
# Bare phase names of torch 2.13 that are unlikely to mean anything else.
_PHASES = re.compile(
    r"dynamo|entire_frame_compile|entire_backward_compile|backend_compile|inductor_compile|code_gen"
    r"|bytecode_tracing|compile_attempt_\d+|compile_inner|compile_file|compile_fx\b.*"
    r"|compile_fx_inner|fx_codegen_and_compile|build_guards|create_aot_dispatcher_function"
    r"|aot_(?:collect_metadata|trace_joint_graph)|min_cut_rematerialization_partition"
    r"|additional_fake_tensor_prop|insert_deferred_runtime_asserts|inductor_codecache_torch_key"
    r"|_recursive_(?:pre_grad|joint_graph|post_grad)_passes"
    r"|pass\.(?:pre_grad|joint_graph|post_grad)_passes\..*|pgo\.\w+"
    r"|(?:_compile|OutputGraph|GraphLowering|Scheduler|PythonWrapperCodegen|CppWrapper\w+"
    r"|PyCodeCache|FxGraphCache|AOTAutogradCache|TritonBundler|async_compile|CompiledArtifact"
    r"|CacheBase|CUTLASSGemmTemplate|backward\._backward_impl)\.\w+.*"
    r"|(?:CachingAutotuner|StaticAutotunerFuture)\.\w+.*|CUDAGraphNode\.record"
    r"|cudagraphify\.\w+"
)
# What the same machinery records while *running* compiled code. guard_collective is a guard check
# made at every call (torch/_dynamo/eval_frame.py).
_NOT_COMPILE = re.compile(
    r"TorchDynamo Cache Lookup|## Call CompiledFxGraph.*|Torch-Compiled Region.*"
    r"|Pregraph bytecode|AOTDispatcher Runtime Wrapper.*|CompiledFunction(?:Backward)?"
    r"|guard_collective(?: \(dynamo_timed\))?"
)
# Python frames (`with_stack=True`, `file(line): function`) that only compilation runs. Frames of
# eval_frame.py, guards.py, output_code.py, runtime_wrappers.py and of Autotuner.run also surround
# cached calls.
_COMPILE_FRAME = re.compile(
    r"(?:.*/)?(?:torch/_dynamo/(?:convert_frame|symbolic_convert|output_graph)\.py\(\d+\): "
    r"(?!catch_errors|_fn\b).+"
    r"|torch/_inductor/(?:graph|scheduler|lowering|ir|async_compile|select_algorithm"
    r"|fx_passes/\w+|codegen/.+)\.py\(\d+\): .+"
    r"|torch/_inductor/compile_fx\.py\(\d+\): (?:_?compile_fx\w*|fw_compiler\w*|bw_compiler"
    r"|fx_codegen_and_compile|codegen_and_compile|inner_compile\w*)"
    r"|triton/compiler/\w+\.py\(\d+\): (?:compile|make_\w+|ast_to_ttir)"
    r"|triton/runtime/jit\.py\(\d+\): (?:_do_compile|compile))"
)

# Python frames in which a thread can do nothing but wait: reading a queue, a pipe or a socket,
# polling, yielding, the reader of a broadcast in shared memory, a future, a lock. Event loops run
# callbacks inside their own frames, so of those only the poll counts.
_WAITING_FRAME = re.compile(
    r"(?:.*/)?(?:queue|multiprocessing/queues)\.py\(\d+\): get"
    r"|(?:.*/)?multiprocessing/connection\.py\(\d+\): (?:recv|recv_bytes|_recv|_recv_bytes|poll"
    r"|_poll|wait|accept)"
    r"|(?:.*/)?multiprocessing/(?:synchronize|popen_\w+|pool)\.py\(\d+\): (?:wait|poll|get)"
    r"|(?:.*/)?selectors\.py\(\d+\): select"
    r"|(?:.*/)?threading\.py\(\d+\): (?:wait|wait_for|join|acquire|_wait_for_tstate_lock)"
    r"|(?:.*/)?concurrent/futures/_base\.py\(\d+\): (?:result|exception|wait)"
    r"|(?:.*/)?socket\.py\(\d+\): (?:recv\w*|readinto|accept)"
    r"|(?:.*/)?zmq/.*\.pyx?\(\d+\): (?:recv\w*|poll|zmq_poll|select)"
    r"|(?:.*/)?shm_broadcast\.py\(\d+\): (?:dequeue|acquire_read|recv|wait\w*)"
    r"|(?:.*/)?distributed/utils\.py\(\d+\): sched_yield"
    r"|<built-in (?:function|method) (?:sched_yield|read|poll|select|epoll_wait|kevent|recv\w*"
    r"|acquire|wait|accept|zmq_poll)\b.*"
)


def _bare(name: str) -> str:
    return _SUFFIX.sub("", name.lstrip("_"))


@lru_cache(maxsize=4096)
def is_launch_family(name: str) -> bool:
    """Whether the call belongs to a known family of launch calls: kernels, graphs, copies, sets.

    Covers CUDA runtime and driver, HIP, XPU and MTIA. A call of no known family that owns a GPU
    op is a launch call too (definitions: *Launch call*); that is for the caller to see.
    """
    bare = _bare(name)
    return any(
        rule.fullmatch(bare)
        for rule in (_KERNEL_LAUNCH, _GRAPH_LAUNCH, _COPY_OR_SET, _XPU_LAUNCH, _MTIA_LAUNCH)
    )


@lru_cache(maxsize=4096)
def is_graph_launch(name: str) -> bool:
    """Whether the call replays a graph: its name contains `GraphLaunch`."""
    return "GraphLaunch" in name


@lru_cache(maxsize=4096)
def is_copy(name: str) -> bool:
    """Whether the call copies memory, blocking or not."""
    bare = _bare(name)
    return bool(_COPY.fullmatch(bare) or _XPU_COPY.fullmatch(bare))


@lru_cache(maxsize=4096)
def is_async_copy(name: str) -> bool:
    """Whether the call is a copy that may return before the copy is done.

    It is a `sync` all the same where it lasts until its own device op has ended, as copies from
    and to pageable host memory do (definitions: *Cause*); only times can tell. The copies of
    Unified Runtime and Level Zero are of this kind.
    """
    bare = _bare(name)
    return bool((_COPY.fullmatch(bare) and "Async" in bare) or _XPU_COPY.fullmatch(bare))


@lru_cache(maxsize=4096)
def is_sync(name: str) -> bool:
    """Whether the host waits in this call: a synchronize of stream, device or event, or a copy.

    Copies are those without `Async` in their name (`cudaMemcpy`, `hipMemcpyWithStream`,
    `cuMemcpyDtoH_v2`, ...). `cudaStreamWaitEvent` makes the device wait, not the host, and the
    `*Query` calls return at once.
    """
    bare = _bare(name)
    return bool(_SYNC.fullmatch(bare) or (_COPY.fullmatch(bare) and "Async" not in bare))


@lru_cache(maxsize=4096)
def is_stream_sync(name: str) -> bool:
    """Whether the host waits in this call for all earlier work of one stream."""
    return bool(_STREAM_SYNC.fullmatch(_bare(name)))


@lru_cache(maxsize=4096)
def is_wide_sync(name: str) -> bool:
    """Whether the host waits in this call for all earlier work of a stream or of the device."""
    return bool(_WIDE_SYNC.fullmatch(_bare(name)))


@lru_cache(maxsize=4096)
def is_blocking_copy(name: str) -> bool:
    """Whether this is a copy call that returns only when its own copy is done."""
    bare = _bare(name)
    return bool(_COPY.fullmatch(bare) and "Async" not in bare)


@lru_cache(maxsize=4096)
def is_staged_copy(name: str) -> bool:
    """Whether a device copy of this name may end after its blocking call has returned.

    From pageable memory the call returns once the bytes are staged, and within a device at once
    (CUDA driver API, "API synchronization behavior").
    """
    return "Pageable -> Device" in name or copy_kind(name) == WITHIN


# Where a device copy moves bytes: within a device, from the host, to the host, between devices.
WITHIN, FROM_HOST, TO_HOST, BETWEEN = "within", "from host", "to host", "between devices"
_COPY_KINDS = (
    (FROM_HOST, re.compile(r"HtoD|HtoA|HostToDevice|(?:Pageable|Pinned|Host) -> (?:Device|Array)")),
    (TO_HOST, re.compile(r"DtoH|AtoH|DeviceToHost|(?:Device|Array) -> (?:Pageable|Pinned|Host)")),
    (BETWEEN, re.compile(r"PtoP|PeerToPeer|Peer -> Peer|P2P")),
)


@lru_cache(maxsize=4096)
def copy_kind(name: str) -> str:
    """Where a device copy of this name (`Memcpy HtoD (Pinned -> Device)`) moves its bytes."""
    return next((kind for kind, rule in _COPY_KINDS if rule.search(name)), WITHIN)


def is_from_host(name: str) -> bool:
    """Whether a device copy of this name moves its bytes from the host."""
    return copy_kind(name) == FROM_HOST


def is_to_host(name: str) -> bool:
    """Whether a device copy of this name moves its bytes to the host."""
    return copy_kind(name) == TO_HOST


def crosses_bus(name: str) -> bool:
    """Whether a device copy of this name moves its bytes between host and device."""
    return is_from_host(name) or is_to_host(name)


@lru_cache(maxsize=4096)
def is_alloc(name: str) -> bool:
    """Whether the call allocates, frees, maps or pins memory."""
    return bool(_ALLOC.fullmatch(_bare(name)))


@lru_cache(maxsize=65536)
def is_compile(name: str) -> bool:
    """Whether an op, annotation, overhead event or runtime call of this name is compile work.

    Compile work is what Dynamo, AOTAutograd, Inductor and Triton do to make code, graph recording
    included, and code that is loaded to the device (module loads, `Lazy Function Loading`).
    Running compiled code and checking guards is not: `TorchDynamo Cache Lookup`,
    `## Call CompiledFxGraph`, `Torch-Compiled Region`, `Pregraph bytecode`.
    """
    if _NOT_COMPILE.fullmatch(name):
        return False
    return bool(
        _TIMED.fullmatch(name) or _PHASES.fullmatch(name) or _CODE_LOAD.fullmatch(_bare(name))
    )


@lru_cache(maxsize=65536)
def is_compile_frame(name: str) -> bool:
    """Whether a Python frame of this name (`file(line): function`) runs only while compiling."""
    return bool(_COMPILE_FRAME.fullmatch(name))


@lru_cache(maxsize=65536)
def is_waiting_frame(name: str) -> bool:
    """Whether a thread waits in a Python frame of this name: nothing is due until others act."""
    return bool(_WAITING_FRAME.fullmatch(name))


_FAMILIES = re.compile(
    r"(?P<label>(?:cuda|cu|hip)\w*?(?:GraphLaunch|LaunchKernel|LaunchGrid|LaunchCooperativeKernel"
    r"|Memcpy|Memset)|urEnqueue(?:Cooperative)?KernelLaunch|urEnqueueUSMMemcpy"
    r"|zeCommandListAppend(?:LaunchKernel|MemoryCopy|MemoryFill))\w*"
)


@lru_cache(maxsize=4096)
def family(name: str) -> str:
    """The family whose median a call's duration is held against: `cudaLaunchKernel`, ....

    Suffixes and variants fall away (`cudaLaunchKernelExC_v11060` is `cudaLaunchKernel`); copies
    that block are kept apart from those that do not, as their durations have nothing in common
    (`cudaMemcpy`, `cudaMemcpyAsync`). Any other call is its own family.
    """
    bare = _bare(name)
    if (match := _FAMILIES.fullmatch(bare)) is None:
        return bare
    label = match["label"]
    return f"{label}Async" if label.endswith("Memcpy") and is_async_copy(name) else label
