"""What holds for the whole house: packaging, imports, docs that cannot drift."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gaptrace.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_wheel_holds_exactly_the_packages_and_works(tmp_path: Path) -> None:
    """Built without network, unpacked, run with the wheel's own code alone on the path."""
    pytest.importorskip("hatchling")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    wheel = next(tmp_path.glob("*.whl"))
    assert wheel.name.startswith("torch_gaptrace-")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {
        "gaptrace",
        "gaptrace_collectors",
        "gaptrace_dashboards",
        "gaptrace_inductor",
    }
    assert any(name.endswith("kernel_rules.toml") for name in names)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "gaptrace",
            "analyze",
            str(ROOT / "sample_traces/small_decoder_graph.json.gz"),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Decode: ")


def test_the_readme_names_every_command() -> None:
    for name in COMMANDS:
        assert f"gaptrace {name}" in README, name


def test_the_readme_never_installs_the_unrelated_package() -> None:
    assert not re.search(r"pip install +(?:-\S+ +)*gaptrace\b", README)


PRINTED = re.compile(r"<!-- printed: (gaptrace [^>]*?) -->\n\n```text\n(.*?)```", re.DOTALL)


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of the README as a user types it, in an empty folder."""
    args = [str(ROOT / a) if a.startswith("sample_traces/") else a for a in shlex.split(line)[1:]]
    return subprocess.run(
        [sys.executable, "-m", "gaptrace", *args],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
    )


def test_printed_excerpts_are_what_is_printed(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """The excerpts of the README, to the letter; `pytest --golden` writes them anew."""
    text = README

    def said(line: str) -> str:
        # Paths are as typed: the test runs elsewhere.
        near = os.path.relpath(ROOT, tmp_path)
        return run(line, tmp_path).stdout.replace(f"{near}/", "").replace(f"{ROOT}/", "")

    assert PRINTED.findall(text)
    if pytestconfig.getoption("--golden"):
        text = PRINTED.sub(lambda m: f"<!-- printed: {m[1]} -->\n\n```text\n{said(m[1])}```", text)
        (ROOT / "README.md").write_text(text, encoding="utf-8")
    for line, excerpt in PRINTED.findall(text):
        assert excerpt == said(line), line


PRINTED_HELP = r"""
import json, sys
from click.testing import CliRunner
from gaptrace.cli import cli

parts = []
for name in ("", *sys.argv[1:]):
    words = [name, "--help"] if name else ["--help"]
    shown = CliRunner().invoke(cli, words, prog_name="gaptrace")
    title = f"gaptrace {name}".strip()
    parts.append(f"## {title}\n\n```text\n{shown.output}```\n")
print(json.dumps(parts))
"""


def test_the_help_of_every_command_is_in_the_docs(pytestconfig: pytest.Config) -> None:
    """gaptrace/cli/COMMANDS.md holds what `--help` prints; `pytest --golden` writes it anew."""
    # In a process of its own: click keeps the help option of a command that a test ran alone.
    done = subprocess.run(
        [sys.executable, "-c", PRINTED_HELP, *COMMANDS],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    head = "# Commands\n\nWhat `--help` prints, written by `pytest --golden tests/test_house.py`.\n"
    text = "\n".join([head, *json.loads(done.stdout)])
    path = ROOT / "gaptrace/cli/COMMANDS.md"
    if pytestconfig.getoption("--golden"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_the_version_stands_in_one_place() -> None:
    import tomllib

    import gaptrace

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert gaptrace.__version__ == project["version"]
    written = [
        path
        for folder in ("gaptrace", "collectors", "dashboards")
        for path in (ROOT / folder).rglob("*.py")
        if f'"{project["version"]}"' in path.read_text(encoding="utf-8")
    ]
    assert written == []


def commands() -> list[str]:
    """Lines starting with `gaptrace` in the README's console blocks that name a sample trace."""
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("gaptrace ") and "sample_traces/" in line]


def test_there_are_commands_to_run() -> None:
    assert len(commands()) >= 3


@pytest.mark.parametrize("line", commands())
def test_the_readme_commands_run(line: str, tmp_path: Path) -> None:
    done = run(line, tmp_path)
    assert done.returncode == 0, done.stderr


def public_docstrings() -> list[tuple[str, ast.AST]]:
    found = []
    for path in sorted((ROOT / "gaptrace").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [
            (f"{path.relative_to(ROOT)}:{node.name}", node)
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        ]
    return found


def test_every_public_name_has_a_docstring() -> None:
    missing = [
        name
        for name, node in public_docstrings()
        if not ast.get_docstring(node)  # type: ignore[arg-type]
    ]
    assert missing == []
