"""`gaptrace completion`: print the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL; put its output where your shell looks for it.

    For bash: gaptrace completion bash >> ~/.bashrc
    """
    from gaptrace.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "gaptrace", "_GAPTRACE_COMPLETE").source())
