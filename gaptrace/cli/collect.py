"""`gaptrace collect`: start the recorder as a child and pass on what it says and returns.

The recorder is a program of its own (`python -m gaptrace_collectors`), because it runs inside the
user's process; nothing of it is imported here. Every option below is handed to it as it is.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

FAILED = 125
_GRACE_S = 1.5
_MODES = "eager,compiled,graph,compiled-graph"


class _ScriptCommand(click.Command):
    """A command whose options end where the script's begin: at its name, at `-m`, at `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        valued = {
            flag
            for param in self.params
            if isinstance(param, click.Option) and not param.is_flag
            for flag in param.opts
        }
        at = 0
        while at < len(args) and args[at] not in ("-m", "--") and args[at].startswith("-"):
            at += 2 if args[at] in valued else 1
        # Without a `--` in front, click would read the module's own options as ours.
        own, command = args[:at], args[at:]
        if command[:1] == ["--"]:
            ctx.meta["gaptrace.separator"] = True
            command = command[1:]
        return super().parse_args(ctx, [*own, "--", *command] if command else own)


@click.command(
    cls=_ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
    epilog="The script's exit code is passed on; 125: gaptrace itself failed; 130: Ctrl-C.",
)
@click.option(
    "--modes",
    default=_MODES,
    show_default=True,
    help="Also: piecewise, reduce-overhead, max-autotune, as-is.",
)
@click.option("--warmup", type=int, help="Steps before anything is measured [10].")
@click.option("--timed-steps", type=int, help="Unprofiled steps, half before, half after [100].")
@click.option("--steps", type=int, help="Profiled steps [8].")
@click.option("--issue-steps", type=int, help="Steps timed with the queue drained first [10].")
@click.option("--repeats", type=int, help="Fresh processes per mode [3].")
@click.option("--shapes/--no-shapes", default=None, help="Tensor shapes in the trace [eager only].")
@click.option("--stacks", is_flag=True, help="Python stacks in the trace; slows the host a lot.")
@click.option("--seed", type=int, help="Seeds torch and random before the script starts [0].")
@click.option("--max-seconds", type=float, help="Cut a phase short after this long [120].")
@click.option("--stop-when-done", is_flag=True, help="End the script once all is recorded.")
@click.option("--redact", is_flag=True, help="Drop host, user, paths, arguments, environment, git.")
@click.option("--batch", help="Sweep batch sizes, e.g. 1,8,64; {batch} in the script's arguments.")
@click.option("--buckets", help="Pad the growing length to one of these, e.g. 128,512.")
@click.option("--split-at", help="Operators that piecewise leaves outside [attention].")
@click.option("--autotune-max-batch", type=int, help="Tune matrix products up to this batch.")
@click.option("--cache-dir", help="Inductor's cache; `run` puts it into the run folder.")
@click.option("-o", "--out", default="runs", show_default=True, help="Where run folders go.")
@click.option("--name", help="Name of the run folder [the script's name].")
@click.option("--force", is_flag=True, help="Replace a run folder that is already there.")
@click.option("--entry", type=click.Choice(["auto", "script", "build"]), help="How to run it.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT|-m MODULE [ARGS]...")
@click.pass_context
def collect(ctx: click.Context, /, command: tuple[str, ...], **options: Any) -> None:
    """Record a script's decode step: eager, compiled, captured, and the truth beside the trace.

    \b
    gaptrace collect script.py --its-own-option 3
    gaptrace collect -m package.module
    gaptrace collect -- /other/python script.py
    """
    if not command:
        raise click.UsageError("what should be recorded? give a script, or -m MODULE")
    argv = [sys.executable, _recorder(), *_words(options)]
    if ctx.meta.get("gaptrace.separator"):
        argv.append("--")
    ctx.exit(run_recorder([*argv, *command]))


def _recorder() -> str:
    """The recorder's entry file, found without importing it."""
    spec = importlib.util.find_spec("gaptrace_collectors")
    if spec is None or spec.origin is None:
        click.echo("gaptrace: error: the package gaptrace_collectors is not installed", err=True)
        click.echo("hint: pip install 'torch-gaptrace[collect]'", err=True)
        raise SystemExit(FAILED)
    return os.path.join(os.path.dirname(spec.origin), "__main__.py")


def _words(options: dict[str, Any]) -> list[str]:
    """The options as words of a command line; those that were not given stay the recorder's."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if name == "shapes":
            words += [] if value is None else [flag if value else "--no-shapes"]
        elif value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def run_recorder(argv: Sequence[str]) -> int:
    """Run the recorder to its end; its exit code.

    Ctrl-C usually reaches the whole process group. Where it reached only this process, it is
    passed on, and in both cases the recorder decides how to end.
    """
    process: subprocess.Popen[bytes] | None = None

    def pass_on(number: int) -> None:
        if process is not None and process.poll() is None:
            process.send_signal(number)

    def signalled(number: int, _: FrameType | None) -> None:
        timer = threading.Timer(_GRACE_S if number == signal.SIGINT else 0, pass_on, (number,))
        timer.daemon = True
        timer.start()

    # A job in the background of a shell ignores Ctrl-C, and goes on doing so.
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) != signal.SIG_IGN]
    previous = {number: signal.signal(number, signalled) for number in numbers}
    try:
        process = subprocess.Popen(list(argv))
        return _code(process.wait())
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _code(code: int) -> int:
    return code if code >= 0 else 128 - code
