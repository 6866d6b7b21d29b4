"""`gaptrace gaps`: every gap of the GPU with its cause and neighbours."""

from __future__ import annotations

import csv
import io
from typing import Any

import click

from gaptrace.cli.options import analysis_options, options_from, read_trace, times_option
from gaptrace.cli.output import say_unusable, wants_color
from gaptrace.errors import GaptraceError

SHOWN = 30


@click.command()
@click.argument("path")
@analysis_options
@times_option
@click.option("--csv", "form", flag_value="csv", help="Every gap as CSV, times in integer ns.")
@click.option("--json", "form", flag_value="json", help="Every gap as JSON (gaptrace.gaps/1).")
@click.option("--top", type=click.IntRange(1), default=SHOWN, help="How many gaps the table shows.")
def gaps(path: str, form: str | None, top: int, **values: Any) -> int:
    """List every gap of the GPU at PATH with its cause and neighbours.

    On its own a table of the longest gaps; with --csv or --json every gap in time order, with the
    nanoseconds of each cause. Exits with 2 where the trace is unusable, whose gaps are listed as
    they stand in the file.
    """
    from gaptrace.analysis import measured
    from gaptrace.document.blocks import Detail
    from gaptrace.measure.frames import gap_columns
    from gaptrace.measure.record import gaps_result
    from gaptrace.render.files import Report, text_of
    from gaptrace.render.formats import Style
    from gaptrace.results.codec import to_json

    options, cached = options_from(values), not values["no_cache"]
    trace = read_trace(path, use_cache=cached, times_from=values["times_from"], options=options)
    analysis = measured(trace, options)
    if analysis.device is None:
        raise GaptraceError(
            "no GPU work was recorded", f"gaptrace analyze {path} says what was found"
        )
    code = say_unusable(path, analysis.quality)
    if form == "csv":
        columns = {
            name: column.tolist() if hasattr(column, "tolist") else column
            for name, column in gap_columns(analysis).items()
        }
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        click.echo(text.getvalue(), nl=False)
        return code
    result = gaps_result(analysis, None if form == "json" else top)
    if form == "json":
        click.echo(to_json(result, indent=1))
    else:
        style = Style(color=wants_color("auto"))
        click.echo(text_of([Report(result)], "terminal", Detail.FULL, style), color=True)
    return code
