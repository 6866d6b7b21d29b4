"""Traces of decode scripts as people write them: plain torch.profiler, no mark of any kind.

    python record_wild.py --out FOLDER             # on a GPU: wild.tar and truth.json, minutes
    python record_wild.py --out FOLDER --tiny      # small models on the CPU: does each script run?

Each script builds a model from a config with random weights, generates once to warm up, once under
a clock alone and once under the profiler. truth.json tells what a reading of the trace has to find:
how many iterations there were, of how many sequences, and how long each one took by the script's
own clock. Needs torch, transformers and numpy; nothing is fetched. Imports nothing of gaptrace.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
import wild_hugging_face as hf
from torch.profiler import ProfilerActivity, profile
from wild_common import GPU, TINY, Clock, Generate, Make, Size
from wild_hugging_face import hugging_face
from wild_plain import gptfast, nanogpt

PART_BYTES = 14 << 20  # a file that is larger than 16 MiB does not leave the machine
NOT_RECORDED = (RuntimeError, ValueError, TypeError, AttributeError, ImportError, KeyError)


@dataclass(frozen=True)
class Script:
    """One script and what is true of its trace.

    prefills: iterations that read the prompt. blocks: the host waits for the GPU in each
    iteration, so its clock shows when a token was there; else it runs ahead.
    """

    name: str
    make: Make
    tokens: int = 16
    sequences: int = 1
    beams: int = 1
    prefills: int = 1
    blocks: bool = True
    shapes: bool = False
    stack: bool = False
    warm: int = 1
    note: str = ""


SCRIPTS = (
    Script("hf_greedy", hugging_face()),
    Script("hf_greedy_40", hugging_face(), tokens=40),
    Script("hf_greedy_12_deeper", hf.deeper, tokens=12),
    Script("hf_greedy_shapes", hugging_face(), tokens=12, shapes=True),
    Script("hf_greedy_stack", hugging_face(), tokens=12, stack=True),
    Script("hf_static_eager", hugging_face(cache_implementation="static", disable_compile=True)),
    Script("hf_sampling", hf.sampling),
    Script("hf_batch4", hf.batch, sequences=4),
    Script("hf_batch4_40", hf.batch, tokens=40, sequences=4),
    Script("hf_beams", hugging_face(num_beams=4), tokens=12, beams=4),
    Script(
        "hf_beams_batch2", hugging_face(sequences=2, num_beams=4), tokens=12, sequences=2, beams=4
    ),
    Script("hf_assisted", hf.assisted, tokens=24, note="speculation"),
    Script("hf_prompt_lookup", hf.prompt_lookup, tokens=24, note="speculation"),
    Script("hf_streamer", hugging_face(streamer=hf.Prints())),
    Script("hf_gpt2", hf.gpt2),
    Script("hf_experts", hf.experts, tokens=12),
    Script("hf_mamba", hf.mamba, tokens=12),
    Script("hf_whisper", hf.whisper, tokens=14, note="the prefill reads one token too"),
    Script("loop_item", partial(hf.own_loop, stops=True)),
    Script("loop_ahead", partial(hf.own_loop, stops=False), blocks=False),
    Script("gptfast_eager", partial(gptfast, compiles=False, reads=False), blocks=False),
    Script("gptfast_eager_reads", partial(gptfast, compiles=False, reads=True)),
    Script("nanogpt", nanogpt, prefills=0),
    Script("nanogpt_shapes", nanogpt, tokens=12, prefills=0, shapes=True),
    # Those that compile come last: where time runs out, only they are missing. With a static cache
    # on a GPU `generate` compiles the forward pass of its own accord.
    Script("gptfast_compiled", partial(gptfast, compiles=True, reads=False), blocks=False, warm=3),
    Script(
        "gptfast_compiled_reads_40", partial(gptfast, compiles=True, reads=True), tokens=40, warm=3
    ),
    Script("hf_static", hugging_face(cache_implementation="static"), warm=3),
)


@dataclass(frozen=True)
class Timed:
    """One generation by its own clock: ns at each tick, and when the GPU had done all.

    epoch_ns: the time of day when it began, which is what a trace counts in.
    """

    began: int
    epoch_ns: int
    at: tuple[int, ...]
    ended: int
    tokens: int
    length: tuple[int, ...]

    @property
    def per_iteration_s(self) -> float:
        """Median time from tick to tick."""
        return float(np.median(np.diff(self.at))) / 1e9

    @property
    def to_the_end_s(self) -> float:
        """Mean over the iterations after the first tick, until the GPU had done all."""
        return (self.ended - self.at[0]) / (len(self.at) - 1) / 1e9


def drain() -> None:
    """Wait until the GPU has done all."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(generate: Generate, tokens: int) -> Timed:
    """One generation under the clock."""
    clock = Clock()
    torch.manual_seed(2)
    drain()
    epoch, began = time.time_ns(), time.perf_counter_ns()
    made = generate(tokens, clock)
    drain()
    ended = time.perf_counter_ns()
    return Timed(began, epoch, tuple(clock.at), ended, made, tuple(clock.length))


def record(script: Script, size: Size, folder: Path) -> dict[str, Any]:
    """Records one script into the folder: its row of the truth."""
    activities = [ProfilerActivity.CPU]
    if size.where == "cuda":
        activities.append(ProfilerActivity.CUDA)
    generate = script.make(size)
    for _ in range(script.warm):
        timed(generate, script.tokens)
    plain = timed(generate, script.tokens)
    with profile(
        activities=activities, record_shapes=script.shapes, with_stack=script.stack
    ) as profiler:
        seen = timed(generate, script.tokens)
    file = folder / f"{script.name}.json.gz"
    profiler.export_chrome_trace(str(file))
    decode = len(seen.at) - script.prefills
    each = [1] * decode
    if seen.length:  # the first iteration also reads the prompt
        each = np.diff(seen.length[1:]).tolist()
    return {
        "script": script.name,
        "file": file.name,
        "kilobytes": file.stat().st_size // 1000,
        "layers": size.layers,
        "sequences": script.sequences,
        "beams": script.beams,
        "new_tokens": seen.tokens,
        "prefills": script.prefills,
        "decode_iterations": decode,
        "tokens_per_iteration": each,
        "speculation": bool(seen.length),
        "shapes": script.shapes,
        "stack": script.stack,
        "blocks": script.blocks,
        "unprofiled_wall_s": (plain.ended - plain.began) / 1e9,
        "unprofiled_s": plain.per_iteration_s,
        "unprofiled_to_end_s": plain.to_the_end_s,
        "profiled_s": seen.per_iteration_s,
        "profiled_to_end_s": seen.to_the_end_s,
        "began_epoch_ns": seen.epoch_ns,
        "ticks_ns": [at - seen.began for at in seen.at],
        "ended_ns": seen.ended - seen.began,
        "note": script.note,
    }


def pack(out: Path, part: int, file: Path) -> int:
    """Adds the file to the last tar, or begins another where it would get too large: its number."""
    path = out / ("wild.tar" if part == 1 else f"wild{part}.tar")
    if path.exists() and path.stat().st_size + file.stat().st_size > PART_BYTES:
        return pack(out, part + 1, file)
    with tarfile.open(path, "a") as tar:
        tar.add(file, file.name)
    return part


def main() -> None:
    """Records all scripts, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "wild")))
    parser.add_argument("--tiny", action="store_true", help="small models on the CPU")
    parser.add_argument("--budget", type=float, default=330, help="seconds; then no more scripts")
    parser.add_argument("only", nargs="*", help="scripts to record; all of them if none is named")
    args = parser.parse_args()
    unknown = set(args.only) - {script.name for script in SCRIPTS}
    if unknown:
        parser.error(f"no such script: {', '.join(sorted(unknown))}")
    size = TINY if args.tiny else GPU
    transformers.logging.set_verbosity_error()
    args.out.mkdir(parents=True, exist_ok=True)
    for old in (*args.out.glob("wild*.tar"), args.out / "truth.json"):
        old.unlink(missing_ok=True)
    truth: dict[str, Any] = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "gpu": torch.cuda.get_device_name() if size.where == "cuda" else None,
        "scripts": [],
        "missing": {},
    }
    started, part = time.monotonic(), 1
    with tempfile.TemporaryDirectory() as folder:
        for script in SCRIPTS:
            if args.only and script.name not in args.only:
                continue
            if time.monotonic() - started > args.budget:
                truth["missing"][script.name] = "no time left"
                continue
            try:
                row = record(script, size, Path(folder))
            except NOT_RECORDED as error:
                truth["missing"][script.name] = f"{type(error).__name__}: {error}"[:500]
                print(f"{script.name}: {truth['missing'][script.name]}", file=sys.stderr)
            else:
                truth["scripts"].append(row)
                part = pack(args.out, part, Path(folder, row["file"]))
                print(f"{time.monotonic() - started:6.1f} s  {script.name}", flush=True)
            (args.out / "truth.json").write_text(json.dumps(truth, indent=1))
            torch.compiler.reset()
            gc.collect()
            if size.where == "cuda":
                torch.cuda.empty_cache()
    print_table(truth)


def print_table(truth: dict[str, Any]) -> None:
    """One line per script."""
    print(f"torch {truth['torch']}, transformers {truth['transformers']}, {truth['gpu']}")
    print(f"{'script':26} tokens iter seqs beams  plain ms  prof. ms  to end ms   kB")
    for row in truth["scripts"]:
        print(
            f"{row['script']:26} {row['new_tokens']:6} {row['decode_iterations']:4}"
            f" {row['sequences']:4} {row['beams']:5} {1e3 * row['unprofiled_s']:9.3f}"
            f" {1e3 * row['profiled_s']:9.3f} {1e3 * row['profiled_to_end_s']:10.3f}"
            f" {row['kilobytes']:4}"
        )
    for name, why in truth["missing"].items():
        print(f"{name:26} {why}")


if __name__ == "__main__":
    main()
