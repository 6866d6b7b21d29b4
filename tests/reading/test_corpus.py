"""Every recorded trace of the corpus is read in full, against json.loads and exact figures."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from gaptrace.errors import NotATraceError
from gaptrace.reading.loading import load
from gaptrace.reading.settings import Settings
from tests.reading.tables import STRESS, assert_loads, document, load_with, ns, same

CORPUS = Path(os.environ.get("GAPTRACE_CORPUS", "/absent"))
FILES = sorted(CORPUS.glob("*/*.json.gz"))
# Comparing every field of every event in Python takes seconds for each 10 MB.
IN_FULL = 6_000_000

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not FILES, reason="GAPTRACE_CORPUS names no folder of traces"),
]


@pytest.fixture(params=FILES, ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    """Each file of the corpus."""
    found: Path = request.param
    if found.name.endswith(".et.json.gz"):
        pytest.skip("an execution trace")
    return found


def test_execution_traces_are_told_apart() -> None:
    found = [path for path in FILES if path.name.endswith(".et.json.gz")]
    assert len(found) == 2
    for path in found:
        with pytest.raises(NotATraceError, match="execution trace"):
            load(path)


def test_counts_and_times(path: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    trace = load(path)
    value = document(text)
    events = value if isinstance(value, list) else value["traceEvents"]
    phases = Counter(event["ph"] for event in events)
    assert len(trace) == phases.pop("X")
    assert trace.source.ignored == dict(phases)
    assert trace.source.events == len(events)
    assert trace.source.bytes == len(text)
    assert trace.problems == ()
    complete = [event for event in events if event["ph"] == "X"]
    assert (trace.start + trace.origin_ns).tolist() == [ns(event["ts"]) for event in complete]
    assert trace.dur.tolist() == [ns(event["dur"]) for event in complete]


def test_gpu_ops_agree_with_the_reference(path: Path) -> None:
    reference = json.loads((CORPUS / "reference.json").read_text())[path.name]
    trace = load(path)
    assert trace.gpu.rows.tolist() == trace.rows_of(0, 1, 2).tolist()  # type: ignore[arg-type]
    counts = Counter(trace.devices[code] for code in trace.gpu.device.tolist())
    assert counts == {device: figures["gpu_ops"] for device, figures in reference.items()}


def test_any_slices_and_workers_read_the_same(path: Path, tmp_path: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    plain = tmp_path / "trace"
    plain.write_bytes(text)
    one = load_with(plain)
    if len(text) < IN_FULL:
        assert_loads(one, text)
        same(one, load_with(path, processes=2))
        same(one, load_with(plain, processes=3, settings=STRESS))
    else:
        whole = load_with(plain, settings=Settings())
        assert (one.start == whole.start).all()
        assert (one.name == whole.name).all()
        assert (one.op.shape == whole.op.shape).all()
        assert one.names == whole.names
        assert one.shapes == whole.shapes
