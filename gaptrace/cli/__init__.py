"""The command line: one short file a command, loaded when the command is used."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from importlib import import_module

import click

from gaptrace.errors import GaptraceError

# Command to the module of this package that holds a click command of the same name, in help order.
COMMANDS = {
    "collect": "record a script's decode step, eager, compiled and captured",
    "analyze": "show where a token's time goes, and whether the trace can be trusted",
    "compare": "show what got better, what got worse, and where each millisecond went",
    "save": "save a baseline for later comparisons, without the trace",
    "predict": "say what compiling and capturing would buy, and how right that was",
    "dashboard": "browse and compare runs in a local page",
    "gaps": "list every gap of the GPU with its cause and neighbours",
    "explain": "explain a finding, a cause, or any term of a report",
    "metrics": "list the metrics that gates take",
    "schema": "print the JSON Schema of any object that gaptrace prints or reads",
    "completion": "print the completion script of a shell",
}
EXIT_CODES = (
    "Exit codes: 0 all is well, 1 a gate tripped, 2 gaptrace cannot do what was asked, "
    "130 interrupted."
)


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"gaptrace.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"did you mean {close[0]!r}?" if close else "see gaptrace --help"
            raise GaptraceError(f"no command {args[0]!r}", hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(ctx: click.Context, _: click.Parameter, value: int) -> None:
    if not value or ctx.resilient_parsing:
        return
    from gaptrace import __version__

    click.echo(f"gaptrace {__version__}")
    if "-v" in sys.argv:
        click.echo(_environment())
    ctx.exit()


def _environment() -> str:
    """What a bug report needs: Python, platform and the versions of what is installed."""
    import platform
    from importlib import metadata

    lines = [f"python {platform.python_version()} on {platform.platform()}"]
    for name in ("numpy", "pandas", "msgspec", "isal", "click", "torch", "dash", "plotly"):
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{name} not installed")
    return "\n".join(lines)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Print the version; with -v also what a bug report needs.",
)
@click.option("-v", "verbose", is_flag=True, expose_value=False, is_eager=True, hidden=True)
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def cli() -> None:
    """Why is the GPU idle? Exact answers from torch.profiler traces of LLM decode."""


def main(args: list[str] | None = None) -> int:
    """Run the command line and return the exit code; the only place that turns errors into text."""
    arguments = sys.argv[1:] if args is None else args
    try:
        result = cli.main(args=arguments, prog_name="gaptrace", standalone_mode=False)
    except GaptraceError as error:
        return _fail(error.message, error.hint)
    except click.exceptions.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except click.ClickException as error:
        hint = ""
        if isinstance(error, click.UsageError) and error.ctx is not None:
            hint = f"see {error.ctx.command_path} --help"
        return _fail(error.format_message(), hint)
    except BrokenPipeError:
        # The reader of our output has left (`| head`): that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("out of memory", "use a machine with more, or record fewer steps")
    return result if isinstance(result, int) else 0


def _fail(message: str, hint: str) -> int:
    if "--debug" in sys.argv:
        traceback.print_exc()
    click.echo(f"gaptrace: error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return 2
