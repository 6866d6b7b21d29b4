"""What a report says about the person and machine behind it, and how to leave that out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from gaptrace.measure.result import Analysis
from gaptrace.report.markup import shortened

_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[\\/][^\\/:*?\"<>|\s()]+){2,}")
LONGEST = 400


class Privacy(Enum):
    """`OPEN` shows host, user, paths, arguments and environment; `REDACTED` leaves them out."""

    OPEN = "open"
    REDACTED = "redacted"

    def text(self, text: str) -> str:
        """`text`, with folders cut from any path in it where the report is redacted."""
        if self is Privacy.OPEN:
            return text
        return _PATH.sub(lambda found: re.split(r"[\\/]", found[0])[-1], text)

    def path(self, path: str) -> str:
        """A file's path, or only its name where the report is redacted."""
        return path if self is Privacy.OPEN else os.path.basename(path.rstrip("/")) or "trace"


def personal_facts(analysis: Analysis, privacy: Privacy) -> list[tuple[str, str]]:
    """What the report would tell about its maker, as (what, value); values gone where redacted."""
    manifest = analysis.manifest
    environment = manifest.get("env")
    git = manifest.get("script", "git")
    facts = [
        ("file", privacy.path(analysis.source.path)),
        ("host", manifest.text("host", "name")),
        ("user", manifest.text("host", "user")),
        ("script", manifest.text("script", "path") or manifest.text("script", "module")),
        ("arguments", _words(manifest.get("script", "argv"))),
        ("interpreter", _words(manifest.get("script", "python"))),
        ("commit", _pairs(git)),
        ("environment", _pairs(environment)),
    ]
    shown = []
    for what, value in facts:
        if not value:
            continue
        if privacy is Privacy.REDACTED and what != "file":
            value = "left out (--redact)"
        shown.append((what, shortened(value, LONGEST)))
    return shown


def _words(value: Any) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, list) else ""


def _pairs(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    return " ".join(f"{key}={value[key]}" for key in sorted(value) if value[key] not in (None, ""))
