"""`gaptrace collect`: start the recorder as a child and pass on what it says and returns.

The recorder is a program of its own (`python -m gaptrace_collectors`), because it runs inside the
user's process; only the list of its options is imported here. Those given are handed to it as they
are, the others are left to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

import gaptrace_collectors
from gaptrace_collectors.options import FLAGS, split_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

_GRACE_S = 1.5


class _ScriptCommand(click.Command):
    """A command whose options end where the script's begin: at its name, at `-m`, at `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Without a `--` in front, click would read the module's own options as ours.
        options, command = split_command(args)
        if command[:1] == ["--"]:
            ctx.meta["gaptrace.separator"] = True
            command = command[1:]
        return super().parse_args(ctx, [*options, "--", *command] if command else options)


def _recorder_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every option of the recorder, None where it is not given."""
    for flag in reversed(FLAGS):
        words = "/".join(filter(None, (flag.words[-1], flag.negated)))
        kind: Any = click.Choice(flag.choices) if flag.choices else flag.kind
        how = {"is_flag": True} if flag.kind is bool else {"type": kind}
        option = click.option(
            *flag.words[:-1], words, flag.name, default=None, help=flag.help, **how
        )
        command = option(command)
    return command


@click.command(
    cls=_ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
    epilog="The script's exit code is passed on; 125: gaptrace failed, or nothing was recorded;"
    " 130: Ctrl-C.",
)
@_recorder_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT|-m MODULE [ARGS]...")
@click.pass_context
def collect(ctx: click.Context, /, command: tuple[str, ...], **options: Any) -> None:
    """Record a script's decode step: eager, compiled, captured, with unprofiled timings.

    \b
    gaptrace collect script.py --its-own-option 3
    gaptrace collect -m package.module
    gaptrace collect -- /other/python script.py
    gaptrace collect -- torchrun --nproc-per-node 2 script.py
    """
    if not command:
        raise click.UsageError("what should be recorded? give a script, or -m MODULE")
    recorder = os.path.join(os.path.dirname(gaptrace_collectors.__file__), "__main__.py")
    argv = [sys.executable, recorder, *_words(options)]
    if ctx.meta.get("gaptrace.separator"):
        argv.append("--")
    ctx.exit(run_recorder([*argv, *command]))


def _words(options: dict[str, Any]) -> list[str]:
    """The options that were given, as words of a command line."""
    words: list[str] = []
    for flag in FLAGS:
        value = options[flag.name]
        if value is True:
            words.append(flag.words[-1])
        elif value is False:
            words += [flag.negated] if flag.negated else []
        elif value is not None:
            words += [flag.words[-1], str(value)]
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
