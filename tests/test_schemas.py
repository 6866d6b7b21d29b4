"""The JSON Schemas of `gaptrace schema`, held against everything that is printed and read."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from gaptrace.cli import cli
from gaptrace.errors import OptionError
from gaptrace.results.codec import from_json, to_data
from gaptrace.results.schemas import SCHEMAS, schema_of

ROOT = Path(__file__).parents[1]
GOLDEN = sorted((ROOT / "tests/golden").glob("*.json"))
MANIFESTS = sorted(ROOT.glob("sample_traces/**/run.json"))
INDEXES = sorted(ROOT.glob("sample_traces/**/collect.json"))
EAGER, GRAPH = "sample_traces/dense_1b/eager", "sample_traces/dense_1b/graph"
SAMPLE = "sample_traces/small_decoder_eager.json.gz"


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def printed(*words: str) -> Any:
    done = CliRunner().invoke(cli, list(words), standalone_mode=False)
    assert done.exception is None, done.output
    return json.loads(done.stdout)


def test_there_is_something_to_hold_them_against() -> None:
    assert len(GOLDEN) >= 3
    assert len(MANIFESTS) >= 15
    assert INDEXES


@pytest.mark.parametrize("path", [*GOLDEN, *MANIFESTS, *INDEXES], ids=lambda p: str(p)[-60:])
def test_kept_files_fit_their_schema(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    validator(data["schema"]).validate(data)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_a_golden_file_is_the_same_after_decoding(path: Path) -> None:
    """Every name in it is a field of the Struct, and nothing is lost in and out."""
    text = path.read_text(encoding="utf-8")
    data = json.loads(text)
    assert to_data(from_json(text, SCHEMAS[data["schema"]], path.name)) == data


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", SAMPLE, "--json"),
        ("analyze", "sample_traces/dense_1b", "--json"),
        ("analyze", "sample_traces/sweep_1b", "--json"),
        ("compare", EAGER, GRAPH, "--json"),
        ("predict", SAMPLE, "--shapes", "--json"),
        ("gaps", SAMPLE, "--json"),
    ],
    ids=lambda words: "-".join(word.rpartition("/")[2] for word in words[:2]),
)
def test_what_is_printed_fits_its_schema(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    data = printed(*words)
    validator(data["schema"]).validate(data)
    again = to_data(from_json(json.dumps(data), SCHEMAS[data["schema"]], "printed"))
    assert again == data


def test_a_wrong_type_does_not_fit() -> None:
    data = json.loads(GOLDEN[0].read_text(encoding="utf-8"))
    data["steps"]["count"] = "many"
    assert not validator(data["schema"]).is_valid(data)


def test_the_command_lists_and_prints_them() -> None:
    done = CliRunner().invoke(cli, ["schema"], standalone_mode=False)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(SCHEMAS)
    for name in SCHEMAS:
        assert printed("schema", name)["title"] == name
    assert printed("schema", "analysis")["title"] == "gaptrace.analysis/1"


def test_an_unknown_name_has_a_hint() -> None:
    with pytest.raises(OptionError, match="no schema is called") as caught:
        schema_of("gaptrace.analisys/1")
    assert "analysis" in caught.value.hint
