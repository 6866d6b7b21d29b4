"""The recorder's command line: everything behind the script belongs to the script."""

import sys

import pytest

from gaptrace_collectors.options import DEFAULT_MODES, UsageError, parse


@pytest.fixture(autouse=True)
def _in_folder_with_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("")


def test_defaults():
    request = parse(["script.py"])
    assert request.options.modes == DEFAULT_MODES
    assert request.options.repeats == 3
    assert request.options.shapes is None
    assert request.name == "script"
    assert request.target.python == (sys.executable,)


def test_options_behind_the_script_are_the_scripts():
    request = parse(["--repeats", "2", "script.py", "--repeats", "9", "-m", "x"])
    assert request.options.repeats == 2
    assert request.target.args == ("--repeats", "9", "-m", "x")


def test_the_value_of_an_option_is_not_taken_for_the_script():
    request = parse(["--name", "other", "-o", "somewhere", "--no-shapes", "script.py", "a"])
    assert (request.name, request.out) == ("other", "somewhere")
    assert request.options.shapes is False
    assert request.target.value == "script.py"


def test_module_and_its_arguments():
    target = parse(["--modes", "eager", "-m", "package.module", "--steps", "3"]).target
    assert (target.kind, target.value) == ("module", "package.module")
    assert target.args == ("--steps", "3")


def test_separator_with_an_interpreter_and_its_flags():
    target = parse(["--", "python3", "-X", "dev", "-O", "script.py", "-v"]).target
    assert target.python[0].endswith("python3")
    assert target.python[1:] == ("-X", "dev", "-O")
    assert (target.value, target.args) == ("script.py", ("-v",))


def test_separator_without_an_interpreter():
    assert parse(["--repeats", "1", "--", "script.py", "x"]).target.args == ("x",)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "what should be recorded"),
        (["missing.py"], "no file missing.py"),
        (["--modes", "fast", "script.py"], "unknown mode 'fast'"),
        (["--repeats", "0", "script.py"], "--repeats"),
        (["--timed-steps", "0", "script.py"], "--timed-steps"),
        (["--name", "a/b", "script.py"], "plain folder name"),
        (["--", "python3", "-c", "1"], "cannot be recorded"),
        (["--", "python3"], "no script"),
        (["-m"], "module name"),
    ],
)
def test_nonsense_is_refused(argv, text):
    with pytest.raises(UsageError, match=text):
        parse(argv)
