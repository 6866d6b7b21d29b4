"""What the analysis costs beside loading: causes, host time and findings of a large trace.

    python tests/benchmarks/bench_analyze.py SOURCE --mb 235

Both are measured in one process on the same file, so that their ratio means something on a noisy
machine; the table has medians. 235 MB of an eager decode trace are about half a million events.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from gaptrace.measure.analyze import analyze
from gaptrace.reading.loading import load
from tests.benchmarks.make_big_trace import MB, make


def main() -> None:
    """Make the file, measure, print one row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("source", type=Path, help="a real trace to repeat")
    parser.add_argument("--mb", type=float, default=235)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    path = Path(tempfile.gettempdir()) / f"gaptrace-bench-{options.mb:g}.json"
    if not path.exists():
        make(options.source, path, int(options.mb * MB))
    loading, analysing = [], []
    for _ in range(options.runs):
        begin = time.perf_counter()
        trace = load(path)
        between = time.perf_counter()
        analysis = analyze(trace)
        loading.append(between - begin)
        analysing.append(time.perf_counter() - between)
    load_s, analyze_s = statistics.median(loading), statistics.median(analysing)
    print("| events | load s | analyze s | analyze / load | findings |")
    print("|---|---|---|---|---|")
    print(
        f"| {len(trace):,} | {load_s:.2f} | {analyze_s:.2f} | {analyze_s / load_s:.2f} "
        f"| {len(analysis.findings)} |"
    )


if __name__ == "__main__":
    main()
