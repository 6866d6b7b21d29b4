"""What is not a trace gets one line that says what it looks like, and a way out."""

from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from typing import TYPE_CHECKING

import pytest

from gaptrace.errors import BrokenTraceError, GaptraceError, NotATraceError
from gaptrace.reading.loading import load

if TYPE_CHECKING:
    from pathlib import Path

LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
TABLE = b"""-----------------------  ------------  ------------  ------------
                   Name    Self CPU %      Self CPU    # of Calls
-----------------------  ------------  ------------  ------------
            aten::addmm        50.00%       1.000ms             3
-----------------------  ------------  ------------  ------------
"""
ROCPROF = [
    {"args": {"name": "0 CPU HIP API"}, "ph": "M", "pid": 2, "name": "process_name"},
    {
        "ph": "X", "name": "hipLaunchKernel", "pid": 2, "tid": 1, "ts": "10", "dur": "2",
        "args": {"BeginNs": "10000", "EndNs": "12000", "Name": "hipLaunchKernel"},
    },
]  # fmt: skip
DLIO = b"[\n" + b"".join(
    b'{"id":%d,"name":"%s","cat":"POSIX","pid":7,"tid":7,"ts":1700,"dur":5,"ph":"X","args":{}}\n'
    % call
    for call in [(1, b"open64"), (2, b"read")]
)

CASES: dict[str, tuple[bytes, str, str]] = {
    "git lfs": (LFS, "Git LFS pointer", "git lfs pull"),
    "table": (TABLE, "printed profiler table", "export_chrome_trace"),
    "other table": (b"name,self_us,calls\nmm,12,3\n", "table of text", "torch.profiler"),
    "text": (b"Killed\nout of memory\n", "plain text", "torch.profiler"),
    "html": (b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "web page", "raw file"),
    "rocprofv3": (
        json.dumps({"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}}]}).encode(),
        "rocprofv3",
        "torch.profiler",
    ),
    "rocprof": (json.dumps({"traceEvents": ROCPROF}).encode(), "rocprof", "torch.profiler"),
    "dlio": (DLIO, "DLIO or dftracer", "GPU events"),
    "execution trace": (
        json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1}]}).encode(),
        "execution trace",
        "Kineto trace",
    ),
    "memory snapshot": (
        json.dumps({"segments": [], "device_traces": [[]]}).encode(),
        "memory snapshot",
        "timeline",
    ),
    "own result": (b'{"schema": "gaptrace.analysis/1", "x": {}}', "result of gaptrace", "made of"),
    "other json": (b'{"loss": [1, 2], "epoch": 3}', "no traceEvents list (it has loss, epoch)", ""),
    "events of another type": (b'{"traceEvents": null, "a": 1}', "no traceEvents list", ""),
    "json list": (b"[1, 2, 3]", "JSON list without any events", ""),
    "empty list": (b"[]", "without any complete event (events: none at all)", ""),
    "no complete event": (
        b'{"traceEvents": [{"ph": "M", "name": "process_name"}, {"ph": "i", "ts": 1}]}',
        "without any complete event (events: 1 of phase M, 1 of phase i)",
        "profiler active",
    ),
    "begin and end only": (
        b'[{"ph": "B", "ts": 1, "name": "a"}, {"ph": "E", "ts": 2}]',
        "1 of phase B, 1 of phase E",
        "complete events",
    ),
    "sqlite": (b"SQLite format 3\0" + bytes(100), "SQLite database", "torch.profiler"),
    "ncu": (b"NVR\0" + bytes(range(100)), "Nsight Compute report", "torch.profiler"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(100), "zstd archive", "zstd -d"),
    "bzip2": (b"BZh91AY&SY" + bytes(range(100)), "bzip2 archive", "bunzip2"),
    "xz": (b"\xfd7zXZ\0" + bytes(100), "xz archive", "unxz"),
    "pickle": (pickle.dumps({"segments": [1]}, protocol=4), "Python pickle", "timeline"),
    "old pickle": (pickle.dumps([1], protocol=2), "Python pickle", "timeline"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a picture", "trace file"),
    "binary": (bytes(range(32)) * 50, "binary data", "torch.profiler"),
    "empty": (b"", "is empty", "disk full"),
    "blank": (b" \n\n", "nothing but blanks", "disk full"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_says_what_it_looks_like(case: str, tmp_path: Path) -> None:
    data, says, hint = CASES[case]
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    for source in (path, data):
        with pytest.raises(NotATraceError) as caught:
            load(source)
        assert says in caught.value.message
        assert hint in caught.value.hint
        assert "\n" not in caught.value.message
        assert caught.value.hint
    if case not in ("empty", "blank"):
        zipped = tmp_path / "trace.json.gz"
        zipped.write_bytes(gzip.compress(data))
        with pytest.raises(NotATraceError, match=r".") as caught:
            load(zipped)
        assert says in caught.value.message


def test_a_zip_archive(tmp_path: Path) -> None:
    path = tmp_path / "trace.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.json", "{}")
    with pytest.raises(NotATraceError, match="zip archive"):
        load(path)


def test_folders_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="is a folder") as caught:
        load(tmp_path)
    assert "trace file" in caught.value.hint
    with pytest.raises(NotATraceError, match="there is no file"):
        load(tmp_path / "absent.json")
    with pytest.raises(GaptraceError):
        load("\0")


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b"[]")

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(GaptraceError, match="Permission denied"):
        load(path)


def test_a_trace_of_which_nothing_is_left() -> None:
    with pytest.raises(BrokenTraceError, match="cut off"):
        load(b'{"traceEvents": [\n  {\n    "ph": "X", "cat": "ker')


def test_a_chrome_trace_of_unknown_kinds_is_still_a_trace() -> None:
    """Only what another known tool wrote is refused: new categories come every year."""
    assert len(load(b'[{"ph": "X", "cat": "new_device_op", "ts": 1, "dur": 1, "name": "n"}]')) == 1
