"""Entry point, as `python -m gaptrace_collectors` and as a plain file.

A foreign interpreter runs this file by its path, so that nothing else of gaptrace's environment
becomes importable in the user's process; the package is then loaded from where the file lies.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys

# What launchers put in front of a script's own arguments.
_ADDED = re.compile(r"--local[-_]rank=\d+$")


def _load_package() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    # Running a file puts its folder first on the path, where names like `options` would hide the
    # user's own modules.
    if sys.path and os.path.abspath(sys.path[0] or ".") == here:
        del sys.path[0]
    if "gaptrace_collectors" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        "gaptrace_collectors",
        os.path.join(here, "__init__.py"),
        submodule_search_locations=[here],
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["gaptrace_collectors"] = package
    spec.loader.exec_module(package)


def _without_torch(spec_path: str) -> int:
    """Leave word that this interpreter cannot record; the exit code."""
    import json

    from gaptrace_collectors.folder import write_error

    with open(spec_path, encoding="utf-8") as file:
        folder = json.load(file)["folder"]
    hint = "name an interpreter that has it: gaptrace collect -- PYTHON SCRIPT"
    write_error(folder, f"{sys.executable} has no torch", hint)
    return 125


def main() -> int:
    _load_package()
    argv = sys.argv[1:]
    at = next((at for at, word in enumerate(argv) if not _ADDED.match(word)), 0)
    if argv[at : at + 1] == ["--cell"]:
        try:
            from gaptrace_collectors.cell import main as run_cell
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            return _without_torch(argv[at + 1])
        return run_cell(argv[at + 1], [*argv[:at], *argv[at + 2 :]])
    if argv[at : at + 1] == ["--control"]:
        from gaptrace_collectors.plain_build import main as run_control

        return run_control(argv[at + 1], [*argv[:at], *argv[at + 2 :]])
    from gaptrace_collectors.orchestrate import main as record

    return record(argv)


if __name__ == "__main__":
    sys.exit(main())
