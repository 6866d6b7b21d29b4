"""`gaptrace collect` hands everything to the recorder and returns what it returns."""

import re
import signal
import subprocess
import sys
import textwrap

import click
import pytest
from click.testing import CliRunner

from gaptrace.cli import collect as module
from tests.collectors.conftest import COLLECTORS, environment


@pytest.fixture
def started(monkeypatch):
    """The command line that would have been started."""
    seen = []

    def run(argv):
        seen.append(list(argv))
        return 7

    monkeypatch.setattr(module, "run_recorder", run)

    def call(*words):
        result = CliRunner().invoke(module.collect, list(words))
        return result, (seen[-1][2:] if seen else None)

    return call


def test_the_exit_code_is_the_recorders(started):
    result, words = started("script.py", "--its", "own")
    assert result.exit_code == 7
    assert words[-3:] == ["script.py", "--its", "own"]


def test_options_are_handed_on_and_defaults_are_left_to_the_recorder(started):
    _, words = started("--modes", "eager", "--repeats", "2", "--no-shapes", "--redact", "s.py")
    assert words == ["--modes", "eager", "--repeats", "2", "--no-shapes", "--redact", "s.py"]


def test_the_options_of_a_module_are_the_modules(started):
    _, words = started("-o", "there", "-m", "package.module", "--repeats", "9")
    assert words[-4:] == ["-m", "package.module", "--repeats", "9"]
    assert "9" not in words[:-1]


def test_the_separator_is_kept_for_an_interpreter(started):
    _, words = started("--force", "--", "/usr/bin/python3", "-O", "script.py")
    assert words[-4:] == ["--", "/usr/bin/python3", "-O", "script.py"]


def test_nothing_to_record_is_a_usage_error(started):
    result, words = started("--force")
    assert result.exit_code == 2
    assert words is None


def test_both_command_lines_offer_the_same_with_the_same_words():
    from gaptrace_collectors.options import FLAGS, _parser

    options = [param for param in module.collect.params if isinstance(param, click.Option)]
    told = {flag: param.help for param in options for flag in param.opts if flag != "--help"}
    taken = {
        flag: action.help
        for action in _parser()._actions
        for flag in action.option_strings
        if flag not in ("-h", "--help", "--no-shapes")
    }
    assert told == taken
    assert {word for flag in FLAGS for word in flag.words} == set(told)


def test_the_readme_lists_every_option_with_its_default():
    from gaptrace_collectors.options import FLAGS

    text = (COLLECTORS / "README.md").read_text().split("## What is recorded")[0]
    rows = dict(
        re.findall(r"^\| `(?:-o, )?(--[\w-]+)(?:\\\||[^|])*\|([^|]*)\|", text, re.MULTILINE)
    )
    assert set(rows) == {flag.words[-1] for flag in FLAGS}
    for flag in FLAGS:
        if flag.default not in (None, False, ""):
            default = f"{flag.default:g}" if isinstance(flag.default, float) else flag.default
            assert rows[flag.words[-1]].strip("` ") == str(default), flag.name


def test_ctrl_c_to_this_process_alone_reaches_the_recorder(tmp_path):
    child = tmp_path / "child.py"
    child.write_text(
        textwrap.dedent(
            """
            import sys, time
            try:
                print("started", flush=True)
                time.sleep(60)
            except KeyboardInterrupt:
                sys.exit(130)
            """
        )
    )
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import sys\nfrom gaptrace.cli.collect import run_recorder\n"
        f"sys.exit(run_recorder([sys.executable, {str(child)!r}]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(parent)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
