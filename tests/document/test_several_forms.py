"""Comparisons, predictions and sweeps in every form of file, short and full."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gaptrace.compare.compare import FORCE, CompareOptions
from gaptrace.document.blocks import Detail
from gaptrace.measure.analyze import measure
from gaptrace.measure.options import Options
from gaptrace.predict import predict
from gaptrace.reading.loading import load
from gaptrace.render import formats
from gaptrace.render.files import Report, file_text
from gaptrace.render.markdown import MARKER
from gaptrace.results.codec import json_schema, to_data
from gaptrace.runs.compared import compare
from gaptrace.runs.read import read_points
from tests.render.material import assert_fit_for_a_comment

ROOT = Path(__file__).parents[2] / "sample_traces"
STARTS = {".html": "<!doctype html>", ".md": MARKER, ".svg": "<svg ", ".json": "{", ".txt": ""}
NAMES = ("pair", "two pairs", "prediction", "sweep")


@cache
def result(name: str) -> Any:
    if name == "sweep":
        return read_points(str(ROOT / "sweep_1b"), Options(), use_cache=False)
    modes = ("eager", "compiled", "graph")
    samples = [measure(load(ROOT / f"small_decoder_{mode}.json.gz")) for mode in modes]
    if name == "prediction":
        return predict(samples[0], others=samples[1:])
    options = CompareOptions(unlike=FORCE, resamples=200)
    return compare(samples if name == "two pairs" else samples[:2], options)


def text(name: str, ending: str, detail: Detail) -> str:
    return file_text(f"out{ending}", [Report(result(name))], detail)


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("ending", STARTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_result_has_every_form(name: str, ending: str, detail: Detail) -> None:
    assert set(STARTS) <= set(formats.endings())
    found = text(name, ending, detail)
    assert found.lower().startswith(STARTS[ending].lower())
    assert found.endswith("\n")
    assert found.strip()


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("name", NAMES)
def test_a_comment_fits_and_can_be_found_again(name: str, detail: Detail) -> None:
    found = text(name, ".md", detail)
    assert_fit_for_a_comment(found)
    assert found == text(name, ".md", detail)
    assert "gaptrace " in found


def test_a_comment_says_verdicts_in_words_with_arrows() -> None:
    assert "| kernels per token | 125 | 62 | −50 | **▼ better** |" in text(
        "pair", ".md", Detail.BRIEF
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_json_is_the_result_and_its_schema_names_every_field(name: str) -> None:
    found = result(name)
    data = json.loads(text(name, ".json", Detail.FULL))
    assert data == to_data(found)
    schema = json_schema(type(found), name)
    own = schema["$defs"][type(found).__name__]
    assert set(data) <= set(own["properties"])
