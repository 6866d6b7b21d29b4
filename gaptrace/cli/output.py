"""Where a command's result goes: standard output, files, and in which form."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from gaptrace.cli.options import together
from gaptrace.errors import GaptraceError

if TYPE_CHECKING:
    from gaptrace.analysis import Analysis
    from gaptrace.document.blocks import Detail
    from gaptrace.measure.quality import Quality
    from gaptrace.render.files import Report
    from gaptrace.results.run import SweepResult
    from gaptrace.runs.run import RunAnalysis

# What `gaptrace analyze` makes of one path.
Analyzed: TypeAlias = "Analysis | RunAnalysis | SweepResult"


output_options = together(
    click.option("--json", "json_", is_flag=True, help="Print the versioned JSON object."),
    click.option("--full", is_flag=True, help="Print everything, not just one screen."),
    click.option(
        "-o",
        "out",
        multiple=True,
        metavar="FILE",
        help="Also write FILE (.html .md .svg .json .txt); .md is a short comment unless --full.",
    ),
    click.option("--redact", is_flag=True, help="Leave paths, arguments and hosts out of files."),
    click.option("--force", is_flag=True, help="Overwrite files that exist."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colour on a terminal; NO_COLOR and FORCE_COLOR are respected.",
    ),
)


def say_unusable(path: str, quality: Quality) -> int:
    """Say on stderr that a trace is unusable, and why; the exit code, 0 where it is not."""
    if quality.verdict != "refused":
        return 0
    why = quality.reasons[0].text
    click.echo(f"gaptrace: {path} is unusable: {why}", err=True)
    return 2


def wants_color(choice: str) -> bool:
    """Whether standard output should carry colours."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def write_file(path: str, body: str, *, force: bool) -> None:
    """Write a whole file or nothing, never over an existing one unless forced; says so."""
    if os.path.exists(path) and not force:
        raise GaptraceError(f"{path} exists", "use --force to overwrite it")
    part = f"{path}.part"
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            file.write(body)
        os.replace(part, path)
    except OSError as error:
        raise GaptraceError(f"cannot write {path}: {error.strerror}") from error
    finally:
        # Gone once it is in its place; an error or an interrupt leaves no half of it.
        with suppress(OSError):
            os.unlink(part)
    click.echo(f"Wrote {path}", err=True)


def check_files(files: Sequence[str]) -> None:
    """Refuse files of a kind that cannot be written, before any work is done.

    Raises:
        OptionError: a file's ending names no form of a result.
    """
    from gaptrace.render import formats

    for path in files:
        if not path.lower().endswith(".json"):
            formats.of_path(path)


def report_of(item: Analyzed) -> Report:
    """What was analysed as a report: its plain data, and the analyses behind it for pictures."""
    import msgspec

    from gaptrace.render.files import Report

    if isinstance(item, msgspec.Struct):
        return Report(item)
    return Report(item.result, item.analyses)


def detail_of(values: Mapping[str, Any]) -> Detail:
    """How much the command was asked to say."""
    from gaptrace.document.blocks import Detail

    return Detail.FULL if values["full"] else Detail.BRIEF


def deliver(reports: Sequence[Report], values: Mapping[str, Any]) -> None:
    """Print the reports, then write each file in the form that its ending asks for."""
    from gaptrace.render.files import file_text, json_text, text_of
    from gaptrace.render.formats import Style

    if values["json_"]:
        body = json_text(reports)
    else:
        style = Style(color=wants_color(values["color"]))
        body = text_of(reports, "terminal", detail_of(values), style)
    # The body carries colours only where they are wanted; click must not decide once more.
    click.echo(body, nl=not body.endswith("\n"), color=True)
    for path in values["out"]:
        text = file_text(path, reports, detail_of(values), redact=values["redact"])
        write_file(path, text, force=values["force"])
