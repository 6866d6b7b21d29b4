"""`gaptrace analyze`: where a token's time goes, and whether the trace can be trusted."""

from __future__ import annotations

from typing import Any

import click

from gaptrace.cli.options import analysis_options, options_from, read_trace
from gaptrace.cli.output import json_text, output_options, wants_color, write


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@analysis_options
@output_options
@click.option("--strict", is_flag=True, help="Exit with 2 unless every trace is ok.")
def analyze(paths: tuple[str, ...], **values: Any) -> int:
    """Say where a token's time goes, and whether the trace can be trusted.

    PATH is a torch.profiler trace (.json, .json.gz) or - for standard input. The first line is
    the answer; then what to know about the trace, the step in numbers, its idle time by cause,
    the ceilings, the findings and the largest gaps.
    """
    from gaptrace.analysis.analyze import analyze as run
    from gaptrace.report.text import text_report

    options = options_from(values)
    analyses = [run(read_trace(path, use_cache=not values["no_cache"]), options) for path in paths]
    if values["json_"]:
        body = json_text(analyses)
    else:
        color = wants_color(values["color"])
        body = "\n\n".join(text_report(analysis, color=color) for analysis in analyses)
    write(body, values["out"], analyses, force=values["force"])
    verdicts = {analysis.quality.verdict for analysis in analyses}
    return 2 if "refused" in verdicts or (values["strict"] and verdicts != {"ok"}) else 0
