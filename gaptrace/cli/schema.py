"""`gaptrace schema`: the JSON Schema of every object that gaptrace prints or reads."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("name", required=False)
def schema(name: str | None) -> int:
    """Print the JSON Schema of NAME (such as gaptrace.analysis/1), or list the names."""
    from gaptrace.results.schemas import SCHEMAS, schema_of

    if name is None:
        width = max(map(len, SCHEMAS))
        for known, kind in SCHEMAS.items():
            summary = (kind.__doc__ or "").strip().splitlines()[0]
            click.echo(f"{known:<{width}}  {summary}")
        return 0
    click.echo(json.dumps(schema_of(name), indent=2, ensure_ascii=False))
    return 0
