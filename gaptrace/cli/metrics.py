"""`gaptrace metrics`: the names that gates take, and what they mean."""

from __future__ import annotations

import json
import textwrap

import click

INDENT = "    "
WIDTH = 80
TOLD = ("id", "title", "unit", "better", "per_token", "meaning")


@click.command()
@click.option("--json", "json_", is_flag=True, help="Print them as JSON (gaptrace.metrics/1).")
def metrics(json_: bool) -> None:  # noqa: FBT001
    """List the metrics that --fail-on takes.

    A limit is a bound (kernels:600, busy:1.7ms, idle_share:0.4) or, on gaptrace compare, how much
    worse the candidate may be than the baseline (idle:5%); of idle_share in percentage points.
    """
    from gaptrace.compare.metrics import METRICS

    gates = [metric for metric in METRICS if metric.gate]
    if json_:
        body = {
            "schema": "gaptrace.metrics/1",
            "metrics": [{name: getattr(metric, name) for name in TOLD} for metric in gates],
        }
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
        return
    for metric in gates:
        kind = "time" if metric.unit == "ns" else metric.unit
        click.echo(f"{metric.id}  ({kind}, {metric.better} is better)")
        click.echo(
            textwrap.fill(metric.meaning, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
        )
