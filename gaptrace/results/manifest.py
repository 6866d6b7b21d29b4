"""What the recorder writes: `gaptrace.run/1` (run.json) and `gaptrace.collect/1` (collect.json).

Sections that a recording never reached are null. Fields that this version does not know are
ignored; a known field of another type is refused by name when the manifest is read. Times end in
`_ns`, seconds in `_seconds`. collectors/README.md says how each figure is measured.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from gaptrace.quantity import Maybe

RUN_SCHEMA = "gaptrace.run/1"
COLLECT_SCHEMA = "gaptrace.collect/1"


class Evidence(Struct, frozen=True):
    """What a failure stands on: what was seen, where in the program, in which words."""

    what: str = ""
    where: str | None = None
    detail: str | None = None


class Failure(Struct, frozen=True):
    """Why a mode could not be recorded: kind, a sentence, evidence."""

    kind: str = ""
    reason: str = ""
    evidence: tuple[Evidence, ...] = ()


class Files(Struct, frozen=True):
    """Names of the files beside the manifest; times: a light recording to join to the trace."""

    trace: str | None = None
    execution_trace: str | None = None
    times: str | None = None


class Point(Struct, frozen=True):
    """Which point of a sweep a recording is of; None: not varied."""

    batch: int | None = None
    length: int | None = None


class Script(Struct, frozen=True):
    """What was run: path or module, arguments, interpreter, git facts."""

    path: str | None = None
    module: str | None = None
    argv: tuple[str, ...] | None = None
    python: tuple[str, ...] | str | None = None
    exit_code: int | None = None
    error: str | None = None
    git: dict[str, Any] | None = None
    launcher: tuple[str, ...] | None = None


class Rank(Struct, frozen=True):
    """Which process of how many a launcher started."""

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None


class Control(Struct, frozen=True):
    """How a script that failed ended without the recorder: `fails`, `runs` or `unknown`."""

    outcome: str | None = None
    exit_code: int | None = None
    seconds: float | None = None


class Step(Struct, frozen=True):
    """What one step is: tokens, batch, the module and how it is called."""

    tokens: int | None = None
    tokens_source: str | None = None
    batch: int | None = None
    module: str | None = None
    call: str | None = None
    decode_steps_seen: int | None = None
    prefill_calls_seen: int | None = None


class Timed(Struct, frozen=True):
    """Step times without the profiler: of the device's events and of the host, with medians."""

    device_ns: tuple[Maybe, ...] | None = None
    host_ns: tuple[Maybe, ...] | None = None
    device_median_ns: Maybe = None
    host_median_ns: Maybe = None


class Unprofiled(Struct, frozen=True):
    """Unprofiled step times before and after the profiled steps. median_ns: of those before."""

    median_ns: Maybe = None
    clock: str | None = None
    before: Timed | None = None
    after: Timed | None = None
    drift: Maybe = None


class Issue(Struct, frozen=True):
    """Samples of the issue time: entering a step to its return, the queue drained first."""

    scope: str | None = None
    samples_ns: tuple[int | float, ...] | None = None
    call_samples_ns: tuple[int | float, ...] | None = None
    reason: str | None = None


class EventCosts(Struct, frozen=True):
    """What recording an event costs its host, in units of the trace, and how far that is known.

    call: of a runtime or driver call, in median launch calls. op: of a CPU op, in least spacings of
    nested ops (entry and exit together); shaped_op: of one recorded with its shapes. frame: of a
    Python frame, in the same. node_ns: of a kernel inside a graph replay, on the GPU. low, high:
    factors on all of them that steps are expected between; farthest: on the step itself. source:
    where they are from.
    """

    call: float
    op: float
    shaped_op: float
    frame: float
    node_ns: float
    low: float
    high: float
    farthest: float
    source: str


class Profiled(Struct, frozen=True):
    """What was profiled, and with which settings."""

    marks: str | None = None
    complete: int | None = None
    open_step: int | None = None
    execution_trace_step: int | None = None
    lead_steps: int | None = None
    host_ns: tuple[int | float, ...] | None = None
    full_host_ns: tuple[int | float, ...] | None = None
    recorded: str | None = None
    shapes: bool | None = None
    stacks: bool | None = None
    trace_bytes: int | None = None
    lengths: tuple[int, ...] | None = None


class Bytes(Struct, frozen=True):
    """Bytes of parameters and buffers by dtype, and what one step must read."""

    parameters: dict[str, int | float] | None = None
    buffers: dict[str, int | float] | None = None
    weights_total: int | None = None
    weights_read_per_step: int | None = None
    weights_source: str | None = None
    kv_allocated: int | None = None
    kv_read_per_step: int | None = None
    kv_source: str | None = None


class Memory(Struct, frozen=True):
    """Peak device memory in bytes."""

    peak_allocated: int | None = None
    peak_reserved: int | None = None
    peak_allocated_timed: int | None = None


class EmptyLaunch(Struct, frozen=True):
    """What launching nothing costs: on the host, per launch on the device, per graph node."""

    host_ns: Maybe = None
    device_period_ns: Maybe = None
    graph_node_ns: Maybe = None
    how: str | None = None


class Copy(Struct, frozen=True):
    """How the copy bandwidth was measured: the fastest of several copies on the device."""

    bytes_per_s: Maybe = None
    median_bytes_per_s: Maybe = None
    buffer_bytes: int | None = None
    copies: int | None = None
    how: str | None = None


class Device(Struct, frozen=True):
    """The device, and what it was measured to do."""

    type: str | None = None
    name: str | None = None
    index: int | None = None
    capability: str | None = None
    multiprocessors: int | None = None
    total_memory: int | None = None
    l2_bytes: int | None = None
    driver: str | None = None
    copy_bandwidth_bytes_per_s: Maybe = None
    copy: Copy | None = None
    empty_launch_ns: Maybe = None
    empty_launch: EmptyLaunch | None = None


class PowerSample(Struct, frozen=True):
    """One reading of the board: milliwatts, MHz, degrees Celsius."""

    t_ns: Maybe = None
    phase: str | None = None
    power_mw: Maybe = None
    sm_mhz: Maybe = None
    mem_mhz: Maybe = None
    temperature_c: Maybe = None
    gpu_util: Maybe = None
    throttle: Maybe = None


class PowerLimits(Struct, frozen=True):
    """The board's limits."""

    power_mw: Maybe = None
    sm_mhz_max: Maybe = None
    mem_mhz_max: Maybe = None


class Power(Struct, frozen=True):
    """Readings of the board while steps ran."""

    samples: tuple[PowerSample, ...] | None = None
    limits: PowerLimits | None = None
    mean_power_w: Maybe = None
    mean_power_source: str | None = None
    energy_mj: Maybe = None
    interval_ns: Maybe = None
    note: str | None = None


class Versions(Struct, frozen=True):
    """Versions of what took part."""

    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    hip: str | None = None
    cudnn: int | str | None = None
    driver: str | None = None
    triton: str | None = None
    transformers: str | None = None
    platform: str | None = None
    cpu: str | None = None
    gaptrace_collectors: str | None = None


class Host(Struct, frozen=True):
    """The machine and the user; null where the recording was redacted."""

    name: str | None = None
    user: str | None = None
    pid: int | None = None
    cpus: int | None = None


class Recompile(Struct, frozen=True):
    """One recompilation: when, of which function, and the guard that failed."""

    step: int | None = None
    phase: str | None = None
    function: str | None = None
    place: str | None = None
    guard: str | None = None
    seconds: Maybe = None


class Inductor(Struct, frozen=True):
    """What Inductor counted."""

    nodes_before_fusion: int | None = None
    generated_kernels: int | None = None
    extern_calls: int | None = None
    cache_hits: int | None = None
    cache_misses: int | None = None


class CacheCounts(Struct, frozen=True):
    """Look-ups of one compile cache."""

    hits: int | None = None
    misses: int | None = None
    bypasses: int | None = None


class NewFiles(Struct, frozen=True):
    """Files that compiling wrote, by kind."""

    cubin: int | None = None
    so: int | None = None
    py: int | None = None


class Cache(Struct, frozen=True):
    """The compile cache: where, how it was at the start, what was found and written."""

    dir: str | None = None
    start: str | None = None
    fx_graph: CacheCounts | None = None
    aot_autograd: CacheCounts | None = None
    new_files: NewFiles | None = None
    bytes: int | None = None


class GraphBreak(Struct, frozen=True):
    """One graph break: why, where, how often."""

    reason: str | None = None
    place: str | None = None
    count: int | None = None


class WarmupStep(Struct, frozen=True):
    """One step before measuring: its host time, what it compiled and captured."""

    step: int | None = None
    host_ns: int | None = None
    compiles: int | None = None
    captures: int | None = None


class Compile(Struct, frozen=True):
    """Compilation in this process: time, graphs, recompilations, graph breaks, caches."""

    requested: bool | None = None
    seconds: Maybe = None
    frames: int | None = None
    unique_graphs: int | None = None
    recompiles: tuple[Recompile, ...] | None = None
    recompile_count: int | None = None
    graph_breaks: tuple[GraphBreak, ...] | None = None
    inductor: Inductor | None = None
    first_call_ns: Maybe = None
    steady: bool | None = None
    steady_after: int | None = None
    recompiles_while_measured: int | None = None
    note: str | None = None
    cache: Cache | None = None
    warmup: tuple[WarmupStep, ...] | None = None


class StaticInput(Struct, frozen=True):
    """A tensor that is copied into the static input of a captured step before each replay."""

    name: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    bytes: int | None = None


class Capture(Struct, frozen=True):
    """The capture of a whole step."""

    warmup_steps: int | None = None
    graphs: int | None = None
    capture_ns: Maybe = None
    static_inputs: tuple[StaticInput, ...] | None = None
    input_copies_bytes: int | None = None
    pool_bytes: int | None = None
    whole_step: bool | None = None


class Input(Struct, frozen=True):
    """One tensor that the step takes, over the steps observed."""

    name: str = ""
    kind: str | None = None
    shape: str | None = None
    address: str | None = None
    shape_first: tuple[Any, ...] | None = None
    shape_last: tuple[Any, ...] | None = None
    moves: int | None = None


class Difference(Struct, frozen=True):
    """The first launch that differs from the first step's: at which step and place, both names."""

    step: int | None = None
    index: int | None = None
    first_step: str | None = None
    this_step: str | None = None


class LaunchSequence(Struct, frozen=True):
    """Whether every step launches the same."""

    equal: bool | None = None
    counts: tuple[int, ...] | None = None
    first_difference: Difference | None = None
    of: str | None = None


class Synchronization(Struct, frozen=True):
    """One place where a step waits for the device."""

    op: str | None = None
    where: str | None = None
    count: int | None = None


class Steadiness(Struct, frozen=True):
    """What changed from step to step: inputs that move or grow, launches, synchronizations."""

    steps_observed: int | None = None
    inputs: tuple[Input, ...] | None = None
    inputs_total: int | None = None
    moved: tuple[str, ...] | None = None
    grew: tuple[str, ...] | None = None
    launch_sequence: LaunchSequence | None = None
    observed: dict[str, int] | None = None
    synchronizations: tuple[Synchronization, ...] | None = None


class Outputs(Struct, frozen=True):
    """Whether the mode computes what its reference does."""

    status: str | None = None
    reason: str | None = None
    against: str | None = None
    steps_compared: int | None = None
    max_abs: Maybe = None
    rel_l2: Maybe = None
    argmax_equal: bool | None = None
    tolerance: Maybe = None
    per_step: tuple[Maybe, ...] | None = None


class Hooks(Struct, frozen=True):
    """What the recorder itself costs a step."""

    cost_ns: Maybe = None
    share: Maybe = None
    how: str | None = None


class StartUp(Struct, frozen=True):
    """The start of the process, until nothing compiles or is captured any more."""

    ready_ns: int | None = None
    ready_after_calls: int | None = None
    first_call_ns: int | None = None
    compile_seconds: Maybe = None
    autotune_seconds: Maybe = None
    capture_ns: int | None = None
    cache: str | None = None


class CopiedInput(Struct, frozen=True):
    """A tensor that is copied into the static input of a piece each step."""

    piece: int | None = None
    name: str | None = None
    shape: tuple[int, ...] | None = None
    bytes: int | None = None


class Seam(Struct, frozen=True):
    """An operator left between two pieces. after_piece: the piece before it."""

    op: str | None = None
    where: str | None = None
    after_piece: int | None = None


class Pieces(Struct, frozen=True):
    """A step captured in pieces: where it was split, what is copied between pieces."""

    split_at: tuple[str, ...] | None = None
    seams: tuple[Seam, ...] | None = None
    pieces: int | None = None
    captured: int | None = None
    capture_ns: Maybe = None
    pool_bytes: int | None = None
    copied_inputs: tuple[CopiedInput, ...] | None = None
    copied_bytes: int | None = None
    graphs: int | None = None
    note: str | None = None


class Prepared(Struct, frozen=True):
    """What preparing one bucket cost."""

    size: int | None = None
    prepare_ns: int | None = None
    first_call_ns: int | None = None
    compile_seconds: Maybe = None
    autotune_seconds: Maybe = None
    capture_ns: int | None = None
    memory_bytes: int | None = None
    calls: int | None = None


class BucketUse(Struct, frozen=True):
    """Steps of one phase that went through one bucket. lengths: the first and the last."""

    phase: str | None = None
    lengths: tuple[int, int] | None = None
    bucket: int | None = None
    steps: int | None = None


class Buckets(Struct, frozen=True):
    """Lengths that a mode was prepared for. padding_share: of the positions that steps read."""

    sizes: tuple[int, ...] | None = None
    this: int | None = None
    source: str | None = None
    padded: tuple[str, ...] | None = None
    prepared: tuple[Prepared, ...] | None = None
    shared_pool: bool | None = None
    steps: tuple[BucketUse, ...] | None = None
    padding_share: Maybe = None
    median_ns: dict[str, int | float | None] | None = None


class Choice(Struct, frozen=True):
    """One matrix product that autotuning chose a kernel for. candidates: how many were tried."""

    op: str | None = None
    shapes: tuple[Any, ...] | None = None
    chosen: str | None = None
    kind: str | None = None
    ns: Maybe = None
    best_extern_ns: Maybe = None
    candidates: int | None = None
    count: int | None = None
    dtype: str | None = None


class Template(Struct, frozen=True):
    """Template kernels of one output shape with the same operators fused before and behind."""

    output: tuple[int | str, ...] | None = None
    prologue: tuple[str, ...] | None = None
    epilogue: tuple[str, ...] | None = None
    count: int | None = None


class Autotune(Struct, frozen=True):
    """What autotuning did. skipped: why nothing was tuned."""

    max_batch: int | None = None
    skipped: str | None = None
    seconds: Maybe = None
    choices: tuple[Choice, ...] | None = None
    templates: tuple[Template, ...] | None = None
    note: str | None = None


class SkipReason(Struct, frozen=True):
    """Why torch gave up a capture: what it logged, where, how often."""

    reason: str | None = None
    where: str | None = None
    count: int | None = None


class GraphTrees(Struct, frozen=True):
    """What torch's CUDA-graph trees did."""

    recordings: int | None = None
    recordings_while_measured: int | None = None
    rerecordings: int | None = None
    partitions: int | None = None
    skips: int | None = None
    skip_reasons: tuple[SkipReason, ...] | None = None
    non_static_inputs: int | None = None
    warnings: tuple[str, ...] | None = None


class RunManifest(Struct, frozen=True):
    """One recording: `run.json`."""

    schema: str
    name: str | None = None
    label: str | None = None
    mode: str | None = None
    repeat: int | None = None
    repeats: int | None = None
    status: str = "ok"
    failure: Failure | None = None
    entry: str | None = None
    created: str | None = None
    files: Files | None = None
    point: Point | None = None
    options: dict[str, Any] | None = None
    asked: dict[str, Any] | None = None
    script: Script | None = None
    step: Step | None = None
    unprofiled: Unprofiled | None = None
    issue_ns: int | None = None
    issue: Issue | None = None
    profiled: Profiled | None = None
    bytes: Bytes | None = None
    memory: Memory | None = None
    device: Device | None = None
    power: Power | None = None
    versions: Versions | None = None
    env: dict[str, Any] | None = None
    host: Host | None = None
    compile: Compile | None = None
    capture: Capture | None = None
    steadiness: Steadiness | None = None
    outputs: Outputs | None = None
    hooks: Hooks | None = None
    startup: StartUp | None = None
    piecewise: Pieces | None = None
    buckets: Buckets | None = None
    autotune: Autotune | None = None
    cudagraph_trees: GraphTrees | None = None
    notes: tuple[str, ...] | None = None
    rank: Rank | None = None
    control: Control | None = None


class CollectCell(Struct, frozen=True):
    """One cell that was to be recorded: path None where it was not, and why."""

    mode: str | None = None
    repeat: int | None = None
    point: Point | None = None
    status: str | None = None
    path: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    ranks: tuple[int, ...] | None = None


class CollectIndex(Struct, frozen=True):
    """A whole recording: `collect.json`. complete: False where it was stopped."""

    schema: str = field(default=COLLECT_SCHEMA)
    name: str | None = None
    created: str | None = None
    collector: str | None = None
    script: str | None = None
    modes: tuple[str, ...] = ()
    repeats: int | None = None
    batches: tuple[int | None, ...] | None = None
    buckets: tuple[int | None, ...] | None = None
    cells: tuple[CollectCell, ...] = ()
    complete: bool | None = None
    exit_code: int | None = None
    decode_steps_available: int | None = None
    launcher: tuple[str, ...] | None = None
    as_is_reason: str | None = None
