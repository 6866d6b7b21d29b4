"""`gaptrace gaps`: every gap of the GPU with its cause and neighbours."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import click

from gaptrace.cli.options import analysis_options, options_from, read_trace
from gaptrace.cli.output import wants_color
from gaptrace.errors import GaptraceError

SHOWN = 30


@click.command()
@click.argument("path")
@analysis_options
@click.option("--csv", "form", flag_value="csv", help="Every gap as CSV, times in integer ns.")
@click.option("--json", "form", flag_value="json", help="Every gap as JSON (gaptrace.gaps/1).")
@click.option("--top", type=click.IntRange(1), default=SHOWN, help="Gaps in the table.")
def gaps(path: str, form: str | None, top: int, **values: Any) -> int:
    """List every gap of the GPU at PATH with its cause and neighbours.

    On its own a table of the longest gaps; with --csv or --json every gap in time order, with the
    nanoseconds of each cause.
    """
    from gaptrace.measure.analyze import analyze
    from gaptrace.measure.frames import gap_columns
    from gaptrace.report.text import gap_table

    trace = read_trace(path, use_cache=not values["no_cache"])
    analysis = analyze(trace, options_from(values))
    if analysis.device is None:
        raise GaptraceError(analysis.sentence, f"gaptrace analyze {path} says what was found")
    if form is None:
        click.echo(gap_table(analysis, top, color=wants_color("auto")))
        return 0
    columns = {
        name: column.tolist() if hasattr(column, "tolist") else column
        for name, column in gap_columns(analysis).items()
    }
    rows = list(zip(*columns.values(), strict=True))
    if form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        click.echo(text.getvalue(), nl=False)
    else:
        device = analysis.device.device if analysis.device else None
        body = {
            "schema": "gaptrace.gaps/1",
            "source": trace.source.path,
            "device": device,
            "gaps": [dict(zip(columns, row, strict=True)) for row in rows],
        }
        click.echo(json.dumps(body, indent=1, ensure_ascii=False))
    return 0
