"""Where a command's result goes: standard output, files, and in which form."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from gaptrace.errors import GaptraceError, OptionError

if TYPE_CHECKING:
    from gaptrace.measure.result import Analysis
    from gaptrace.report.privacy import Privacy
    from gaptrace.runs.run import RunAnalysis
    from gaptrace.results.run import SweepResult

Result: TypeAlias = "Analysis | RunAnalysis | SweepResult"
F = TypeVar("F", bound=Callable[..., Any])


def output_options(command: F) -> F:
    """Add --json, -o, --force and --color."""
    for option in reversed(
        (
            click.option("--json", "json_", is_flag=True, help="Print the versioned JSON object."),
            click.option(
                "-o",
                "out",
                multiple=True,
                metavar="FILE",
                help="Also write FILE (.html .md .svg .json .txt).",
            ),
            click.option("--force", is_flag=True, help="Overwrite files that exist."),
            click.option(
                "--color",
                type=click.Choice(["auto", "always", "never"]),
                default="auto",
                help="Colour on a terminal; NO_COLOR and FORCE_COLOR are respected.",
            ),
        )
    ):
        command = option(command)
    return command


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
        with open(part, "w", encoding="utf-8") as file:
            file.write(body)
        os.replace(part, path)
    except OSError as error:
        raise GaptraceError(f"cannot write {path}: {error.strerror}") from error
    click.echo(f"Wrote {path}", err=True)


def json_text(results: Sequence[Result]) -> str:
    """One result's versioned object, or several in one `gaptrace.analyses/1` object."""
    found = [result.summary for result in results]
    data: Any = (
        found[0] if len(found) == 1 else {"schema": "gaptrace.analyses/1", "analyses": found}
    )
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def redacting(*, redact: bool) -> Privacy:
    """The privacy of files: open, or without paths, arguments and hosts."""
    from gaptrace.report.privacy import Privacy

    return Privacy.REDACTED if redact else Privacy.OPEN


def check_kinds(files: Sequence[str]) -> None:
    """Refuse files of a kind that cannot be written, before any work is done.

    Raises:
        OptionError: a file's ending names no form of a result.
    """
    from gaptrace.report.files import kinds

    for path in files:
        if not path.lower().endswith(kinds()):
            raise OptionError(
                f"-o {path}: cannot write that kind", f"end it in {', '.join(kinds())}"
            )


def write(
    body: str, files: Sequence[str], results: Sequence[Result], *, force: bool, redact: bool
) -> None:
    """Print `body`; then write each file in the form its ending asks for."""
    # The body carries colours only where they are wanted; click must not decide once more.
    click.echo(body, nl=not body.endswith("\n"), color=True)
    if files:
        from gaptrace.report.files import render_report

        for path in files:
            text = render_report(path, list(results), redacting(redact=redact))
            write_file(path, text, force=force)
