"""What an input that is not a trace looks like, and what to do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gaptrace.errors import NotATraceError
from gaptrace.reading.head import top_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

_RECORD = "Record one with torch.profiler and export_chrome_trace, or `gaptrace collect`."
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (
        b"SQLite format 3\0",
        "an SQLite database, perhaps an Nsight Systems export",
        "gaptrace reads torch.profiler traces; " + _RECORD,
    ),
    (b"NVR\0", "an Nsight Compute report", "gaptrace reads torch.profiler traces; " + _RECORD),
    (b"PK\x03\x04", "a zip archive", "Unpack it first, then name the trace file in it."),
    (b"PK\x05\x06", "an empty zip archive", _RECORD),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "Decompress it first: zstd -d FILE."),
    (b"BZh", "a bzip2 archive", "Decompress it first: bunzip2 FILE."),
    (b"\xfd7zXZ\0", "an xz archive", "Decompress it first: unxz FILE."),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it first, then name the trace file in it."),
    (b"\x7fELF", "an executable program", _RECORD),
    (b"%PDF-", "a PDF document", _RECORD),
    (b"\x89PNG", "a picture", "gaptrace needs the trace file, not a picture of it."),
    (b"\xff\xd8\xff", "a picture", "gaptrace needs the trace file, not a picture of it."),
    (
        b"version https://git-lfs",
        "a Git LFS pointer, not the file itself",
        "Fetch the file first: git lfs pull.",
    ),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05](?:\x95|[}\]c(K])", re.DOTALL)
_HTML = re.compile(rb"\s{0,64}<(?:!doctype\s+html|html|head|body|\?xml)", re.IGNORECASE)
_TABLE = re.compile(rb"^[-+=|\s]{20,}$", re.MULTILINE)
_TABLE_WORDS = (b"Self CPU", b"CPU total", b"# of Calls", b"Self CUDA")
_CSV = re.compile(rb"\A[^\n{\[]{0,400},[^\n{\[]{0,400},[^\n{\[]{0,400}\n")

# A key at the top of a JSON object that says what wrote it.
_KEYS: tuple[tuple[frozenset[str], str, str], ...] = (
    (
        frozenset({"schema", "nodes"}),
        "a PyTorch execution trace (ExecutionTraceObserver), which has no GPU timeline",
        "Name the Kineto trace that was recorded beside it.",
    ),
    (
        frozenset({"rocprofiler-sdk-tool"}),
        "JSON output of rocprofv3, not of torch.profiler",
        "Record the program with torch.profiler instead; it uses the same ROCm counters.",
    ),
    (
        frozenset({"segments", "device_traces"}),
        "a CUDA memory snapshot",
        "gaptrace needs a timeline; " + _RECORD,
    ),
)
_ROCPROF_ARGS = (b'"BeginNs"', b'"EndNs"')
_DLIO = re.compile(rb'"cat"\s{0,8}:\s{0,8}"(?:POSIX|STDIO|dftracer|dlio_benchmark|DLIO)')
_RESULT = re.compile(rb'"schema"\s{0,8}:\s{0,8}"gaptrace\.([a-z_]+)/')


def check_magic(name: str, data: bytes) -> None:
    """Refuse what its first bytes show to be something else.

    Raises:
        NotATraceError: with what it looks like.
    """
    if not data.strip(b" \t\r\n\0"):
        kind = "is empty" if not data else "holds nothing but blanks"
        raise NotATraceError(f"{name} {kind}", "Was the recording still running, or the disk full?")
    for magic, what, hint in _MAGIC:
        if data.startswith(magic):
            raise NotATraceError(f"{name} is {what}", hint)
    if _PICKLE.match(data):
        raise NotATraceError(f"{name} is a Python pickle", "gaptrace needs a timeline; " + _RECORD)


def not_a_trace(name: str, data: bytes) -> NotATraceError:
    """Says what a text without a list of events looks like."""
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _HTML.match(text):
        return NotATraceError(
            f"{name} is a web page, not a trace",
            "The download gave a page (a login or an error?): open it, or use the raw file's link.",
        )
    if text[:1] == b"{":
        return _not_a_trace_object(name, text)
    if text[:1] == b"[":
        return NotATraceError(f"{name} is a JSON list without any events", _RECORD)
    if any(word in data for word in _TABLE_WORDS):
        return NotATraceError(
            f"{name} is a printed profiler table, not a trace",
            "Export the trace too: prof.export_chrome_trace('trace.json').",
        )
    if _binary(data):
        return NotATraceError(f"{name} is binary data that gaptrace does not know", _RECORD)
    if _TABLE.search(data[: 1 << 16]) or _CSV.match(text):
        return NotATraceError(f"{name} is a table of text, not a trace", _RECORD)
    return NotATraceError(f"{name} is plain text, not a trace", _RECORD)


def _not_a_trace_object(name: str, text: bytes) -> NotATraceError:
    keys = top_keys(text)
    if result := _RESULT.search(text[:4096]):
        kind = result[1].decode()
        return NotATraceError(
            f"{name} is a result of gaptrace ({kind}), not a trace",
            "Name the trace it was made of.",
        )
    for wanted, what, hint in _KEYS:
        if wanted <= set(keys):
            return NotATraceError(f"{name} is {what}", hint)
    if any(word in text[: 1 << 16] for word in _ROCPROF_ARGS):
        return NotATraceError(
            f"{name} is JSON output of rocprof, not of torch.profiler", _KEYS[1][2]
        )
    if _DLIO.search(text[: 1 << 16]):
        return _dlio(name)
    shown = ", ".join(keys[:4]) or "no keys"
    return NotATraceError(
        f"{name} is JSON but no trace: it has no traceEvents list (it has {shown})", _RECORD
    )


def _binary(data: bytes) -> bool:
    sample = data[:4096]
    odd = sum(byte < 9 or 13 < byte < 32 for byte in sample)
    return odd * 20 > len(sample)


def _dlio(name: str) -> NotATraceError:
    return NotATraceError(
        f"{name} is an I/O trace of DLIO or dftracer, not of torch.profiler",
        "gaptrace needs GPU events; " + _RECORD,
    )


def foreign(name: str, sample: bytes) -> NotATraceError | None:
    """Says which other tool wrote a Chrome trace that has no event of Kineto's kinds."""
    if _DLIO.search(sample):
        return _dlio(name)
    if any(word in sample for word in _ROCPROF_ARGS):
        return NotATraceError(
            f"{name} is JSON output of rocprof, not of torch.profiler", _KEYS[1][2]
        )
    return None


def no_complete_event(name: str, ignored: Mapping[str, int]) -> NotATraceError:
    """Says what a Chrome trace without complete events has instead."""
    most = sorted(ignored, key=lambda phase: -ignored[phase])[:3]
    has = (
        ", ".join(f"{ignored[phase]:,} of phase {phase or '?'}" for phase in most) or "none at all"
    )
    return NotATraceError(
        f"{name} is a Chrome trace without any complete event (events: {has})",
        "Kineto writes complete events (ph X); was the profiler active in any step?",
    )
