"""Nothing half-written looks whole."""

import json

from gaptrace_collectors import folder


def test_json_survives_its_compact_lists(tmp_path):
    value = {
        "samples": [1, 2, 3],
        "nested": [[1, 2], [3]],
        "texts": ["a [b", "line\nbreak", "{", "]"],
        "rows": [{"x": [1.5]}, {}],
        "empty": [],
    }
    path = tmp_path / "run.json"
    folder.write_json(str(path), value)
    assert json.loads(path.read_text()) == value
    assert "[1, 2, 3]" in path.read_text()


def test_writing_replaces_in_one_step(tmp_path):
    path = tmp_path / "run.json"
    folder.write_json(str(path), {"n": 1})
    folder.write_json(str(path), {"n": 2})
    assert folder.read_json(str(path)) == {"n": 2}
    assert [item.name for item in tmp_path.iterdir()] == ["run.json"]


def test_broken_or_missing_json_is_none(tmp_path):
    (tmp_path / "half.json").write_text('{"n": ')
    assert folder.read_json(str(tmp_path / "half.json")) is None
    assert folder.read_json(str(tmp_path / "missing.json")) is None


def test_a_folder_is_hidden_until_it_is_published(tmp_path):
    final = tmp_path / "eager" / "1"
    partial = folder.partial_of(str(final))
    assert partial.endswith("/eager/.1.partial")
    assert not final.exists()
    (tmp_path / "eager" / ".1.partial" / "run.json").write_text("{}")
    folder.publish(partial, str(final))
    assert [item.name for item in final.parent.iterdir()] == ["1"]


def test_publishing_replaces_an_older_folder(tmp_path):
    final = tmp_path / "1"
    final.mkdir()
    (final / "old").write_text("")
    folder.publish(folder.partial_of(str(final)), str(final))
    assert list(final.iterdir()) == []
