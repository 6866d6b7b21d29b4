"""`gaptrace save`: a compact baseline for later comparisons, small enough for a repository."""

from __future__ import annotations

from typing import Any

import click

from gaptrace.cli.given import given_options, one_given
from gaptrace.cli.options import analysis_options
from gaptrace.cli.output import write_file
from gaptrace.errors import GaptraceError, OptionError


@click.command()
@click.argument("path", metavar="RUN")
@click.option(
    "-o", "out", required=True, metavar="FILE", help="File to write, such as base.gaptrace.json."
)
@click.option("--name", default="", help="What the baseline is called in comparisons.")
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
@analysis_options
@given_options
def save(path: str, out: str, name: str, *, force: bool, **values: Any) -> int:
    """Save a baseline of RUN for later comparisons, without the trace.

    RUN is a run folder of `gaptrace collect` (all its modes and repeats), a mode of one, or a
    trace. The file contains no path, host or user, and is the same for the same input.
    """
    from gaptrace.cli.sides import read_input
    from gaptrace.compare.side import short_label
    from gaptrace.runs.saved import ENDING, saved_text

    if not out.endswith(ENDING):
        raise OptionError(f"-o {out}: a saved baseline ends in {ENDING}")
    found = read_input(path, one_given(path, values), label="", use_cache=not values["no_cache"])
    recordings = [recording for side in found.sides.values() for recording in side.recordings]
    if all(recording.verdict == "refused" for recording in recordings):
        why = next(iter(recordings[0].reasons), "nothing could be measured")
        raise GaptraceError(
            f"{path} is unusable, so no baseline is saved: {why}", "record it again"
        )
    label = name or next((r.run for r in recordings if r.run), "") or short_label(path)
    write_file(out, saved_text(label, recordings), force=force)
    click.echo(f"next: gaptrace compare {out} NEW_RUN", err=True)
    return 0
