"""Options that several commands share, and what they do before a command's own work."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from gaptrace.cli.progress import Progress
from gaptrace.errors import OptionError
from gaptrace.measure.options import Options
from gaptrace.trace import Trace

F = TypeVar("F", bound=Callable[..., Any])


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """The options as one decorator, in help in the order given."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# What a trace cannot say about itself.
analysis_options = together(
    click.option("--step", metavar="REGEX", help="Pattern of the step marks' names."),
    click.option(
        "--tokens-per-step",
        type=click.FloatRange(0, min_open=True),
        help="Generated tokens per step; a mean may be a fraction.",
    ),
    click.option(
        "--accepted",
        type=click.FloatRange(0),
        metavar="N",
        help="Draft tokens accepted per sequence and iteration, on average.",
    ),
    click.option(
        "--device", metavar="ID", help="GPU whose steps are measured, by its id in the trace."
    ),
    click.option(
        "--weight-bytes",
        metavar="BYTES",
        help="Bytes of weights that one step reads (15.9e9, 16GB).",
    ),
    click.option("--kv-bytes", metavar="BYTES", help="Bytes of KV cache that one step reads."),
    click.option(
        "--peak-bandwidth", metavar="BYTES/S", help="Peak of the GPU's memory (4.8e12, 4.8TB)."
    ),
    click.option(
        "--bus-bandwidth",
        metavar="BYTES/S",
        help="Peak of the link between host and GPU, one way (64e9, 64GB).",
    ),
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
)


def options_from(values: dict[str, Any]) -> Options:
    """The `Options` in a command's keyword arguments."""
    return Options(
        step=values["step"],
        tokens_per_step=values["tokens_per_step"],
        accepted=values.get("accepted"),
        device=values["device"],
        weight_bytes=_bytes("--weight-bytes", values["weight_bytes"]),
        kv_bytes=_bytes("--kv-bytes", values["kv_bytes"]),
        peak_bandwidth=_bytes("--peak-bandwidth", values["peak_bandwidth"]),
        bus_bandwidth=_bytes("--bus-bandwidth", values["bus_bandwidth"]),
    )


_UNITS = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _bytes(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    lowered = text.lower().removesuffix("/s").strip()
    unit = next((u for u in sorted(_UNITS, key=len, reverse=True) if lowered.endswith(u)), "")
    try:
        value = float(lowered.removesuffix(unit)) * _UNITS.get(unit, 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e18:
        raise OptionError(f"{option} {text!r} is not a size", "write it as 15.9e9, 16GB or 4.8TB")
    return int(value)


times_option = click.option(
    "--times-from",
    metavar="TRACE",
    help="A light recording of the same steps (launch calls and step marks, no ops): its times, the"
    " ops of PATH.",
)


def read_trace(
    path: str,
    *,
    use_cache: bool,
    times_from: str | None = None,
    options: Options | None = None,
) -> Trace:
    """The trace at a path, with progress on a terminal and the cache for large files.

    times_from: the path of a light recording, whose times are then those of the trace; options:
    what says which steps both hold.
    """
    if times_from is not None:
        from gaptrace.measure.join import joined

        full, light = (read_trace(one, use_cache=use_cache) for one in (path, times_from))
        return joined(full, light, options or Options())
    from gaptrace.reading.cachefolder import cache_folder
    from gaptrace.reading.loading import load

    if path != "-" and os.path.isdir(path):
        return _only_cell(path, options)
    name = os.path.basename(path) if path != "-" else "stdin"
    with Progress() as line:
        return load(
            path,
            progress=partial(line.reading, name),
            cache=cache_folder(path) if use_cache else None,
        )


def _only_cell(path: str, options: Options | None) -> Trace:
    """The trace of a run folder that holds just one recording."""
    from gaptrace.reading.runfolder import read_run_folder
    from gaptrace.runs.cells import load_cell

    cells = [cell for cell in read_run_folder(path).cells if cell.trace_path is not None]
    if len(cells) != 1:
        raise OptionError(
            f"{path} holds {len(cells)} recordings, and this command takes one",
            "name one of " + ", ".join(str(cell.path) for cell in cells[:4]) if cells else "",
        )
    return load_cell(cells[0], options or Options())
