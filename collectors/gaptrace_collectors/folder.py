"""Files of a run folder, written so that nothing half-done ever looks whole."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any

ERROR = "error.json"
# A list of numbers or short texts, spread over lines by the encoder.
_FLAT_LIST = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s+\]")


def _text(value: Any) -> str:
    """Indented JSON in which a flat list takes one line: hundreds of samples stay readable."""
    plain = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    # Brackets or line breaks inside of texts are escaped or excluded by the pattern.
    return _FLAT_LIST.sub(lambda match: "[" + re.sub(r"\n\s+", " ", match[1]) + "]", plain) + "\n"


def write_json(path: str, value: Any) -> None:
    """Write JSON beside `path` and rename it into place."""
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(_text(value))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_error(folder: str, message: str, hint: str) -> None:
    """Leave word of what gaptrace itself could not do, for the process that waits."""
    write_json(os.path.join(folder, ERROR), {"message": message, "hint": hint})


def read_json(path: str) -> Any:
    """The parsed file, or None where there is none (or only a broken one)."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def partial_of(final: str) -> str:
    """A fresh empty folder beside `final`, hidden, for what is not finished yet."""
    parent, name = os.path.split(final)
    path = os.path.join(parent, f".{name}.partial")
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def publish(partial: str, final: str) -> None:
    """Give a finished folder its name, in place of an older one."""
    if os.path.exists(final):
        shutil.rmtree(final)
    os.replace(partial, final)
