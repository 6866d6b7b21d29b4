"""The address holds the state: what goes in comes out, and nonsense falls back to defaults."""

from __future__ import annotations

import pytest

pytest.importorskip("dash")

from hypothesis import given
from hypothesis import strategies as st

from gaptrace_dashboards.urls import (
    COMPARE,
    RUN,
    RUNS,
    State,
    compare_url,
    parse,
    report_url,
    run_url,
)

IDS = st.text(min_size=1, max_size=20)


@given(IDS)
def test_a_run_comes_back(run: str) -> None:
    assert parse(run_url(run, tab="ops")) == State(RUN, (run,), "ops")


@given(st.lists(IDS, min_size=2, max_size=4, unique=True))
def test_compared_runs_come_back_in_order(runs: list[str]) -> None:
    assert parse(compare_url(runs, force=1)).runs == tuple(runs)
    assert parse(compare_url(runs, force=1)).forced


@pytest.mark.parametrize("href", [None, "", "/", "http://127.0.0.1:8050/", "/?run=a&tab=nonsense"])
def test_the_list_of_runs_is_the_default(href: str | None) -> None:
    assert parse(href).page == RUNS
    assert parse(href).tab == "kernels"


@pytest.mark.parametrize("pair", ["-1", "x", "1e3", "999999"])
def test_a_pair_that_makes_no_sense_is_the_first(pair: str) -> None:
    assert parse(f"{COMPARE}?run=a&run=b&pair={pair}").pair == 0


def test_no_more_than_four_are_compared_and_none_twice() -> None:
    assert parse(compare_url(["a", "b", "a", "c", "d", "e"])).runs == ("a", "b", "c", "d")


def test_what_changes_without_the_server_does_not_change_the_page() -> None:
    one, other = parse("/run?run=a&step=3&t=1-2"), parse("/run?run=a&gap=7&theme=dark")
    assert one.key == other.key
    assert parse("/run?run=a").key != parse("/run?run=b").key
    assert parse("/run?run=a").key != parse("/run?run=a&given=2ms").key


def test_a_given_step_comes_back_in_the_address() -> None:
    assert parse(run_url("a", given="2.1 ms")).given == "2.1 ms"
    assert parse(report_url("a", "24 tok/s").replace("/report", RUN)).given == "24 tok/s"
    assert len(parse(run_url("a", given="9" * 10_000)).given) == 40
