"""Runs are analysed once, watched, and survive what happens to their files."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

pytest.importorskip("dash")

from gaptrace.errors import GaptraceError
from gaptrace.runs.run import RunAnalysis
from gaptrace.trace import RunInfo
from gaptrace_dashboards import library as module
from gaptrace_dashboards.library import FAILED, GONE, READY, WAITING, Library, process_pool
from gaptrace_dashboards.rows import Row, rows_of
from gaptrace_dashboards.runs_page import host_words
from tests.dashboards.folders import SAMPLES, make_run

EAGER = SAMPLES / "small_decoder_eager.json.gz"


class Counting(ThreadPoolExecutor):
    """Threads that count what they were given."""

    jobs = 0

    def submit(self, *args: Any, **more: Any) -> Future[Any]:
        """Count, then do as asked."""
        Counting.jobs += 1
        return super().submit(*args, **more)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Library]]:
    """Libraries that look again at every refresh and are closed in the end."""
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.0)
    Counting.jobs = 0
    made: list[Library] = []

    def library(*paths: Path, **more: Any) -> Library:
        more.setdefault("pool", lambda: Counting(2))
        more.setdefault("settled_s", 0)
        made.append(Library([str(path) for path in paths], **more))
        return made[-1]

    yield library
    for one in made:
        one.close()


def done(library: Library, limit_s: float = 60) -> Library:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        library.refresh()
        if all(e.state not in ("waiting", "working") for e in library.entries()):
            return library
        time.sleep(0.02)
    raise AssertionError("not in time")


def test_every_place_is_analysed_once_and_given_back_whole(
    make: Callable[..., Library], tmp_path: Path
) -> None:
    make_run(tmp_path, "demo", repeats=2, failed="compiled-graph")
    shutil.copy(EAGER, tmp_path)
    library = done(make(tmp_path))
    for _ in range(5):
        library.refresh()
    assert Counting.jobs == 2
    rows = {found.row.name: found for found in library.recordings()}
    assert list(rows) == [
        "demo · eager",
        "demo · compiled",
        "demo · graph",
        "demo · compiled-graph",
        "small_decoder_eager",
    ]
    eager = rows["demo · eager"]
    assert eager.row.repeats == 2
    head = eager.row.headline
    assert (head.step_ns, head.basis) == (3_001_000, "unprofiled")
    analysis = library.analysis(eager)
    assert analysis is not None
    assert analysis.sentence == eager.row.sentence
    assert isinstance(library.run(eager), RunAnalysis)
    sides = library.sides([eager, rows["demo · graph"]])
    assert [side.label for side in sides] == ["eager", "graph"]
    assert [len(side.recordings) for side in sides] == [2, 2]
    with pytest.raises(GaptraceError, match="no recording to compare"):
        library.sides([eager, rows["demo · compiled-graph"]])
    failed = rows["demo · compiled-graph"]
    assert library.analysis(failed) is None
    assert "synchronizes" in failed.row.note


def test_few_results_are_held_and_the_others_come_back_from_files(
    make: Callable[..., Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 2)
    for place in range(5):
        shutil.copy(EAGER, tmp_path / f"run{place}.json.gz")
    library = done(make(tmp_path))
    for found in library.recordings():
        assert library.analysis(found) is not None
    assert len(library._held) == 2
    first = library.analysis(library.recordings()[0])
    assert first is not None
    assert first.source.path.endswith("run0.json.gz")


def test_a_new_run_shows_up_and_a_deleted_one_keeps_its_figures(
    make: Callable[..., Library], tmp_path: Path
) -> None:
    shutil.copy(EAGER, tmp_path / "one.json.gz")
    library = done(make(tmp_path))
    before = library.version
    shutil.copy(EAGER, tmp_path / "two.json.gz")
    done(library)
    assert [found.row.name for found in library.recordings()] == ["one", "two"]
    assert library.version > before
    (tmp_path / "one.json.gz").unlink()
    library.refresh()
    one = library.recordings()[0]
    assert one.entry.state == GONE
    assert library.analysis(one) is not None
    shutil.copy(EAGER, tmp_path / "one.json.gz")
    done(library)
    assert library.recordings()[0].entry.state == READY


def test_a_changed_file_is_analysed_again_and_leaves_nothing_of_the_old(
    make: Callable[..., Library], tmp_path: Path
) -> None:
    file = tmp_path / "one.json.gz"
    shutil.copyfile(EAGER, file)
    library = done(make(tmp_path))
    before = library.recordings()[0]
    assert library.analysis(before) is not None
    shutil.copyfile(SAMPLES / "small_decoder_graph.json.gz", file)
    library.refresh()
    between = library.recordings()[0]
    assert library.analysis(between) is not None
    done(library)
    after = library.recordings()[0]
    assert after.id == before.id
    assert (before.row.launches, after.row.launches) == (126, 1)
    analysis = library.analysis(after)
    assert analysis is not None
    assert analysis.headline.per_token["launches"].median == 1
    assert len(list(Path(library._folder).glob("*.result"))) == 1


def test_a_file_that_is_still_written_to_waits(
    make: Callable[..., Library], tmp_path: Path
) -> None:
    file = tmp_path / "one.json.gz"
    shutil.copyfile(EAGER, file)
    library = make(tmp_path, settled_s=1_000)
    library.refresh()
    assert [entry.state for entry in library.entries()] == [WAITING]
    assert Counting.jobs == 0
    long_ago = time.time() - 5_000
    os.utime(file, (long_ago, long_ago))
    done(library)
    assert [entry.state for entry in library.entries()] == [READY]


def test_what_is_no_trace_is_refused_by_name_and_left_out_in_passing(
    make: Callable[..., Library], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"layers": 12}')
    library = done(make(tmp_path))
    assert library.entries() == []
    assert library.foreign == 1
    named = done(make(tmp_path / "config.json"))
    assert [entry.state for entry in named.entries()] == [FAILED]
    assert named.entries()[0].error


def test_a_worker_that_dies_is_said_and_the_next_run_gets_a_new_one(
    make: Callable[..., Library], tmp_path: Path
) -> None:
    class Dying(ThreadPoolExecutor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            job: Future[Any] = Future()
            job.set_exception(BrokenProcessPool("killed"))
            return job

    shutil.copy(EAGER, tmp_path / "one.json.gz")
    library = done(make(tmp_path, pool=lambda: Dying(1)))
    entry = library.entries()[0]
    assert entry.state == FAILED
    assert "died" in entry.error


def test_closing_leaves_nothing_behind(make: Callable[..., Library]) -> None:
    library = done(make(EAGER))
    folder = Path(library._folder)
    assert any(folder.iterdir())
    library.close()
    assert not folder.exists()


def test_workers_are_processes_of_their_own(make: Callable[..., Library]) -> None:
    library = done(make(EAGER, pool=process_pool))
    assert library.recordings()[0].row.kernels == 125


@pytest.mark.parametrize(
    ("manifest", "per_token_ns", "shown"),
    [
        ({"step": {"tokens": 4}, "issue_ns": 40_000}, 10_000, "0.0100"),
        ({"step": {"tokens": 4}, "issue_ns": 90_000}, 15_000, "≤ 0.0150"),
        ({"step": {"tokens": 4}, "issue_ns": None}, 15_000, "≤ 0.0150"),
    ],
)
def test_the_host_is_the_unprofiled_one_per_token(
    manifest: dict[str, Any], per_token_ns: float, shown: str
) -> None:
    """Four tokens in steps of 60 µs unprofiled, whose dispatch was timed, or not at all."""
    from gaptrace.analysis import analyze
    from gaptrace.reading.loading import load

    told = {"schema": "gaptrace.run/1", "unprofiled": {"median_ns": 60_000}, **manifest}
    trace = replace(load(EAGER), run=RunInfo("runs/demo/eager/1", told))
    found = analyze(trace)
    (row,) = rows_of(found, "x", 0)
    assert row.host is not None
    assert row.host.value == per_token_ns
    assert host_words(row) == shown


def test_a_host_known_from_the_profile_alone_says_so() -> None:
    from gaptrace.analysis import analyze
    from gaptrace.reading.loading import load

    (row,) = rows_of(analyze(load(EAGER)), "x", 0)
    assert row.host is not None
    assert row.host.basis == "traced"
    # Beside an unprofiled step that has to be said; here all of the row's times are as profiled.
    apart = replace(row, headline=structs.replace(row.headline, basis="unprofiled"))
    assert host_words(row) == "4.73"
    assert host_words(apart) == "4.73 as profiled"
    assert host_words(Row("", "x", "", "ok")) == "–"
