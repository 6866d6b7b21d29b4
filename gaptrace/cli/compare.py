"""`gaptrace compare`: what got better, what got worse, and where each millisecond went."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from gaptrace.cli.gating import compare_gates, gate_options, say_gates, tell_github, unjudged
from gaptrace.cli.options import analysis_options, options_from
from gaptrace.cli.output import output_options, wants_color, write_file
from gaptrace.errors import OptionError

if TYPE_CHECKING:
    from gaptrace.compare.result import Comparison


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="BASE [CAND...]")
@analysis_options
@output_options
@gate_options
@click.option("--redact", is_flag=True, help="Leave paths, arguments and hosts out of files.")
@click.option("--seed", type=int, default=None, help="Of the resampled noise.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 2 unless every trace is ok and every gate could be judged.",
)
def compare(paths: tuple[str, ...], **values: Any) -> int:
    """Say what got better, what got worse, what is noise, and where each millisecond went.

    BASE and CAND are traces, run folders of `gaptrace collect` (RUN, RUN/MODE, RUN/MODE/REPEAT)
    or saved baselines (*.gaptrace.json). Every CAND is compared with BASE; two runs of several
    modes are compared mode by mode; a run alone compares its modes with eager, in 2x2 form where
    all four are there. Repeats of a mode are used to tell a change from noise.

    Runs of another GPU, model, dtype or batch are refused; --force compares them all the same,
    under a banner (and overwrites files that exist).
    """
    from gaptrace.cli.sides import read_inputs
    from gaptrace.compare.compare import FORCE, REFUSE, CompareOptions
    from gaptrace.compare.noise import SEED
    from gaptrace.compare.pairing import plan_pairs

    privacy = Privacy.REDACTED if values["redact"] else Privacy.OPEN
    for path in values["out"]:
        if not path.lower().endswith(kinds()):
            raise OptionError(
                f"-o {path}: cannot write that kind", f"end it in {', '.join(kinds())}"
            )
    gates = compare_gates(values)
    options = CompareOptions(
        unlike=FORCE if values["force"] else REFUSE,
        seed=SEED if values["seed"] is None else values["seed"],
    )
    plan = plan_pairs(read_inputs(paths, options_from(values), use_cache=not values["no_cache"]))
    found = compare_pairs(plan.pairs, options, corners=plan.corners, notes=plan.notes)
    found = judge(found, gates)
    _print(found, values)
    for path in values["out"]:
        write_file(path, render_report(path, found, privacy), force=values["force"])
    if values["github"]:
        tell_github(render_report("summary.md", found, privacy), found.gates)
    if say_gates(found.gates):
        return 1
    clean = all(
        side.verdict == "ok" for pair in found.pairs for side in (pair.baseline, pair.candidate)
    )
    return 2 if values["strict"] and (not clean or unjudged(found.gates)) else 0


def _print(found: Comparison, values: dict[str, Any]) -> None:
    from gaptrace.report.compare_text import comparison_report

    if values["json_"]:
        click.echo(json.dumps(found.summary, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        click.echo(comparison_report(found, color=wants_color(values["color"])), color=True)
