"""The traces that benchmarks are made on: copies of a real one that never mix."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gaptrace.reading.loading import load
from gaptrace.trace import Cat
from tests.benchmarks.make_big_trace import make

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "small_decoder_graph.json.gz"


def test_copies_are_whole_and_keep_their_links_to_themselves(tmp_path: Path) -> None:
    one = load(SAMPLE)
    out = tmp_path / "big.json"
    copies = make(SAMPLE, out, 2 * one.source.bytes)
    many = load(out)
    assert copies >= 2
    assert many.problems == ()
    kept = np.flatnonzero([one.lanes[code].pid != "Spans" for code in one.lane])
    assert len(many) == copies * len(kept)
    assert many.metadata["traceName"] == "big.json"
    for n in range(copies):
        rows = slice(n * len(kept), (n + 1) * len(kept))
        assert (many.dur[rows] == one.dur[kept]).all()
        shift = many.start[rows] - one.start[kept]
        assert len(set(shift.tolist())) == 1
        launched = set(many.corr[rows].tolist()) - {0}
        assert len(launched) == len(set(one.corr[kept].tolist()) - {0})
        elsewhere = np.delete(many.corr, np.arange(rows.start, rows.stop))
        assert not launched & set(elsewhere.tolist())
    assert many.rows_of(Cat.KERNEL).size == copies * one.rows_of(Cat.KERNEL).size
    assert many.devices == one.devices


def test_a_compressed_file_holds_the_same(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "big.json", tmp_path / "big.json.gz"
    for out in (plain, zipped):
        make(SAMPLE, out, 1)
    assert load(zipped).source.compressed
    assert (load(plain).start == load(zipped).start).all()
