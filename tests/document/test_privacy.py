"""A redacted result tells nothing of a person or machine, and is the same otherwise."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gaptrace.document.build import document
from gaptrace.document.privacy import redacted, shown_path
from gaptrace.results.analysis import AnalysisResult, FunctionRow, Provenance, Quality, Reason
from gaptrace.results.codec import to_json
from gaptrace.results.manifest import Host, Script
from tests.document.material import FULL, row, run, said, sample, strings

PERSONAL = Provenance(
    Script("/home/jane/secret/script.py", argv=("--token", "hunter2"), python="/home/jane/bin/py"),
    Host("janes-machine", "jane"),
    {"CUDA_VISIBLE_DEVICES": "0"},
)


def personal() -> AnalysisResult:
    """A result with a person, a host, arguments and folders in every kind of place."""
    result = sample()
    note = Reason("recorder", "note", "compiled in /home/jane/cache/x.py and ~/jane/y/z.py")
    source = replace(
        result.source, path="/home/jane/runs/a/trace.json", folder="/home/jane/runs/a",
        provenance=PERSONAL,
    )  # fmt: skip
    names = (FunctionRow("/home/jane/model.py(12): forward", 5),)
    return replace(result, source=source, quality=Quality("ok", (note,)),
                   host=replace(result.host, python=names))  # fmt: skip


def test_an_open_document_says_what_it_holds() -> None:
    found = said(document(personal(), FULL))
    for words in ("janes-machine", "jane", "hunter2", "CUDA_VISIBLE_DEVICES=0", "Not redacted"):
        assert words in found


def test_nothing_personal_is_left() -> None:
    result = redacted(personal())
    for found in (said(document(result, FULL)), to_json(result)):
        for words in ("jane", "hunter2", "CUDA_VISIBLE", "/home", "secret"):
            assert words not in found, words
    found = said(document(result, FULL))
    assert "left out (--redact)" in found
    assert "model.py(12): forward" in found
    assert "compiled in x.py and z.py" in found


def test_figures_and_names_stay() -> None:
    result = redacted(sample())
    assert replace(result, source=sample().source) == sample()
    assert {r.name for r in result.kernels.rows} == {r.name for r in sample().kernels.rows}
    assert redacted(result) == result


def test_recordings_of_a_run_keep_their_places() -> None:
    rows = [row(mode, 10, path=f"/home/jane/runs/x/{mode}/1") for mode in ("eager", "compiled")]
    result = redacted(run(*rows, path="/home/jane/runs/x"))
    assert [cell.path for cell in result.cells] == ["x/eager/1", "x/compiled/1"]
    assert result.analysis("compiled") is not None
    assert not [text for text in strings(result) if "jane" in text]


@pytest.mark.parametrize(
    ("path", "within", "shown"),
    [
        ("/home/jane/t.json", "", "t.json"),
        ("t.json", "", "t.json"),
        ("/a/run/eager/1/", "/a/run/", "run/eager/1"),
        ("/a/run", "/a/run", "run"),
        ("/a/runs2/x", "/a/run", "x"),
        ("-", "", "-"),
    ],
)
def test_paths_keep_their_last_part(path: str, within: str, shown: str) -> None:
    assert shown_path(path, within) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at::native::add<float>", "at::native::add<float>"),
        ("pointwise/reduction", "pointwise/reduction"),
        ("in C:\\Users\\jane\\x.py", "in x.py"),
        ("see /a/b/c.py:3 (/d/e)", "see c.py:3 (e)"),
        ("runs/x/eager/1 failed", "1 failed"),
    ],
)
def test_only_paths_are_cut_from_texts(text: str, shown: str) -> None:
    assert redacted(text) == shown
