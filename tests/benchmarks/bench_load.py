"""How long it takes to get a large trace into columns, and how much memory, beside other readers.

    python tests/benchmarks/bench_load.py SOURCE --mb 50 400 --python simdjson=VENV/bin/python

SOURCE is a real trace; files of the wanted sizes are made of it (make_big_trace.py). Every reading
is a process of its own, measured from after its imports; the table has medians. Memory is the peak
of the resident sizes of that process and its children, sampled every 10 ms. Readers that are not
installed in this interpreter take one with `--python NAME=PATH`; the others are left out.

simdjson is the floor: it parses the document and gives nothing. Its first parse in a process also
pays for the memory it fills; `simdjson, again` is the second parse into memory that is there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.make_big_trace import MB, make

ROOT = Path(__file__).parents[2]

# Each reads sys.argv[1]; what stands before the line of dashes is not timed.
READERS: dict[str, str] = {
    "gaptrace load": "from gaptrace.reading.loading import load\n---\nresult = load(path)",
    "gaptrace load, 1 process": "from gaptrace.reading.loading import load\n---\n"
    "result = load(path, processes=1)",
    "gaptrace load + analyze": "import gaptrace\ngaptrace.load, gaptrace.analyze\n---\n"
    "result = gaptrace.analyze(gaptrace.reading(path))",
    "simdjson": "import simdjson\ndata = open(path, 'rb').read()\nparser = simdjson.Parser()\n---\n"
    "result = parser.parse(data)",
    "simdjson, again": "import simdjson\ndata = open(path, 'rb').read()\n"
    "parser = simdjson.Parser()\nparser.parse(data)\n---\nresult = parser.parse(data)",
    "json + pandas": "import json, pandas\n---\nwith open(path) as file:\n"
    "    events = json.load(file)['traceEvents']\n"
    "frame = pandas.DataFrame([e for e in events if e['ph'] == 'X'])\n"
    "result = frame, pandas.DataFrame([a for a in frame['args'] if isinstance(a, dict)])",
    "HTA": "from hta.trace_analysis import TraceAnalysis\n---\n"
    "result = TraceAnalysis(trace_files={0: path}, trace_dir='')",
    # The successor kept the import name, so it needs an interpreter of its own.
    "traceinsight": "from hta.trace_analysis import TraceAnalysis\n---\n"
    "result = TraceAnalysis(trace_files={0: path}, trace_dir='')",
}


@dataclass(frozen=True)
class Measured:
    """One reading: seconds, and the peak of resident bytes."""

    seconds: float
    peak: int


def measure(python: str, reader: str, path: Path) -> Measured | str:
    """Run a reader in a process of its own; a text where it cannot run."""
    before, after = READERS[reader].split("---\n")
    code = (
        f"import sys, time\npath = sys.argv[1]\n{before}"
        f"begin = time.perf_counter()\n{after}\n"
        "print('took', time.perf_counter() - begin)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [python, "-c", code, str(path)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(0.01)
        assert process.stdout is not None
        took = [line for line in process.stdout if line.startswith("took ")]
        if process.returncode or not took:
            errors.seek(0)
            return (errors.read().strip().splitlines() or ["no answer"])[-1][:80]
    return Measured(float(took[-1].split()[1]), peak)


def _resident(pid: int) -> int:
    """Resident bytes of a process and all its descendants (Linux)."""
    total, todo = 0, [pid]
    while todo:
        folder = Path(f"/proc/{todo.pop()}")
        try:
            total += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in (folder / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except (OSError, IndexError):
            continue
    return total


def main() -> None:
    """Read the options, make the files, measure, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("source", type=Path, help="a real trace to repeat")
    parser.add_argument("--mb", type=float, nargs="+", default=[50, 400], help="sizes")
    parser.add_argument("--runs", type=int, default=5, help="readings of each kind")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--gz", action="store_true", help="measure compressed files")
    parser.add_argument("--only", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--python", nargs="+", default=[], metavar="NAME=PATH")
    options = parser.parse_args()
    pythons = dict(item.split("=", 1) for item in options.python)
    print("| MB | reader | wall s | MB/s | peak, MB | peak / file |")
    print("|---|---|---|---|---|---|")
    for size in options.mb:
        suffix = "json.gz" if options.gz else "json"
        path = options.folder / f"gaptrace-bench-{size:g}.{suffix}"
        if not path.exists():
            make(options.source, path, int(size * MB))
        for reader in options.only:
            name = reader.split(",")[0]
            if name == "traceinsight" and name not in pythons:
                continue
            python = pythons.get(name, sys.executable)
            readings = []
            for _ in range(options.runs):
                got = measure(python, reader, path)
                if isinstance(got, str):
                    print(f"| {size:g} | {reader} | not measured: {got} | | | |")
                    break
                readings.append(got)
            else:
                seconds = statistics.median(one.seconds for one in readings)
                peak = statistics.median(one.peak for one in readings)
                print(
                    f"| {size:g} | {reader} | {seconds:.2f} | {size / seconds:.0f} "
                    f"| {peak / MB:.0f} | {peak / MB / size:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
