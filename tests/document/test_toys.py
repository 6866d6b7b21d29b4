"""A toy section reaches every format by one builder; a toy format draws every section."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptrace.analysis import Analysis, analyze
from gaptrace.document.blocks import BLOCKS, Block, Detail, Fact, Facts, Text, blocks_of
from gaptrace.document.build import document
from gaptrace.document.sections import ANALYSIS, Context, remove, section
from gaptrace.quantity import COUNT, Quantity
from gaptrace.reading.loading import load
from gaptrace.render import formats
from gaptrace.render.files import Report, file_text
from gaptrace.render.formats import Format, Style
from gaptrace.results.analysis import AnalysisResult

SAMPLE = Path(__file__).parents[2] / "sample_traces/small_decoder_graph.json.gz"
TOYS = 8_917


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyze(load(SAMPLE))


@pytest.fixture
def toy_section() -> Iterator[None]:
    @section(ANALYSIS, "toy", "Toys in the trace", brief=True)
    def toys(result: AnalysisResult, context: Context) -> Iterator[Block]:
        del result, context
        yield Facts((Fact(Text("toys counted"), (Quantity(TOYS, COUNT),)),))

    yield
    remove(ANALYSIS, "toy")


@pytest.mark.usefixtures("toy_section")
@pytest.mark.parametrize("ending", [".txt", ".md", ".html"])
def test_a_toy_section_reaches_every_format(ending: str, analysis: Analysis) -> None:
    report = Report(analysis.result, analysis.analyses)
    text = file_text(f"toy{ending}", [report], Detail.FULL)
    assert "toys counted" in text
    assert "8917" in text


def test_without_the_toy_no_format_has_it(analysis: Analysis) -> None:
    report = Report(analysis.result, analysis.analyses)
    for ending in (".txt", ".md", ".html"):
        assert "toys counted" not in file_text(f"no{ending}", [report], Detail.FULL)


def test_a_section_is_registered_once(toy_section: None) -> None:
    with pytest.raises(RuntimeError, match="two sections"):
        section(ANALYSIS, "toy", "again")(lambda result, context: ())


def test_a_toy_format_draws_every_block(analysis: Analysis) -> None:
    drawn: list[str] = []
    draws = dict.fromkeys(BLOCKS, drawn.append)

    def render(found: object, style: Style) -> str:
        del style
        for block in blocks_of(found):  # type: ignore[arg-type]
            draws[type(block)](type(block).__name__)
        return "\n".join(drawn)

    formats.register(Format("toy", (".toy",), render, draws))
    try:
        report = Report(analysis.result, analysis.analyses)
        text = file_text("x.toy", [report], Detail.FULL)
        assert ".toy" in formats.endings()
    finally:
        formats.remove("toy")
    whole = document(analysis.result, Context(Detail.FULL, analysis.analyses))
    assert text.split() == [type(block).__name__ for block in blocks_of(whole)]
    assert {"Sentence", "Table", "Bars", "Findings", "Facts"} <= set(text.split())


@pytest.mark.parametrize("name", formats.names())
def test_every_format_draws_every_block_type(name: str) -> None:
    assert set(formats.get(name).draws) >= set(BLOCKS)
