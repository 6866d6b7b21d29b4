"""`gaptrace compare`: what got better, what got worse, and where each millisecond went."""

from __future__ import annotations

from typing import Any

import click

from gaptrace.cli.gating import (
    compare_gates,
    gate_options,
    say_gates,
    summary,
    tell_github,
    unjudged,
)
from gaptrace.cli.given import given_of_paths, given_options
from gaptrace.cli.options import analysis_options
from gaptrace.cli.output import check_files, deliver, output_options


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="BASE [CAND...]")
@analysis_options
@given_options
@output_options
@gate_options
@click.option("--seed", type=int, default=None, help="Seed of the resampled noise.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 2 unless every trace is ok and every gate could be judged.",
)
def compare(paths: tuple[str, ...], **values: Any) -> int:
    """Show what got better, what got worse, what is noise, and where each millisecond went.

    BASE and CAND are traces, run folders of `gaptrace collect` (RUN, RUN/MODE, RUN/MODE/REPEAT),
    sweeps or saved baselines (*.gaptrace.json). Every CAND is compared with BASE; two runs of
    several modes are compared mode by mode, two sweeps at every batch size, length and mode that
    both have; a run alone compares its modes with eager, in 2x2 form where all four are there.
    Repeats of a mode are used to tell a change from noise.

    Step time, idle and host dispatch of traces recorded with stacks, shapes or memory are not
    comparable as profiled: compare runs of `gaptrace collect`, which times steps without the
    profiler, or give the measured step of each side (--unprofiled-step, one for each path).

    Runs of different GPU, model, dtype or batch are not comparable; --force compares them anyway,
    under a banner (and overwrites files that exist).
    """
    from gaptrace.cli.sides import read_inputs
    from gaptrace.compare.compare import FORCE, REFUSE, CompareOptions
    from gaptrace.compare.noise import SEED
    from gaptrace.compare.pairing import plan_pairs
    from gaptrace.render.files import Report
    from gaptrace.runs.compared import analyses_of, compared

    check_files(values["out"])
    gates = compare_gates(values)
    options = CompareOptions(
        unlike=FORCE if values["force"] else REFUSE,
        seed=SEED if values["seed"] is None else values["seed"],
    )
    chosen = given_of_paths(paths, values)
    plan = plan_pairs(read_inputs(paths, chosen, use_cache=not values["no_cache"]))
    found = compared(
        plan.pairs,
        options,
        corners=plan.corners,
        notes=plan.notes,
        gates=gates,
        cells=plan.cells,
    )
    report = Report(found, analyses_of(plan.pairs))
    deliver([report], values)
    if values["github"]:
        tell_github(summary([report], values), found.gates)
    if say_gates(found.gates):
        return 1
    verdicts = [(pair.baseline.verdict, pair.candidate.verdict) for pair in found.pairs]
    if all("refused" in both for both in verdicts):
        click.echo("gaptrace: nothing could be compared: a side is unusable", err=True)
        return 2
    clean = all(both == ("ok", "ok") for both in verdicts)
    return 2 if values["strict"] and (not clean or unjudged(found.gates)) else 0
