"""Which side meets which, for every form in which inputs can be named."""

from __future__ import annotations

import pytest

from gaptrace.compare.pairing import Input, distinct_labels, plan_pairs
from gaptrace.compare.side import Side
from gaptrace.errors import OptionError
from tests.compare.recordings import recording


def run(path: str, *modes: str | None) -> Input:
    sides = {mode: Side(f"{path}/{mode}", path, (recording([9] * 5, mode=mode),)) for mode in modes}
    return Input(path, sides)


def labels(*inputs: Input) -> list[tuple[str, str]]:
    return [(left.label, right.label) for left, right in plan_pairs(inputs).pairs]


def test_a_run_alone_compares_its_modes_with_eager() -> None:
    assert labels(run("r", "compiled", "eager", "graph")) == [
        ("r/eager", "r/compiled"),
        ("r/eager", "r/graph"),
    ]
    assert labels(run("r", "compiled", "graph")) == [("r/compiled", "r/graph")]


def test_four_modes_make_a_square() -> None:
    plan = plan_pairs([run("r", "eager", "compiled", "graph", "compiled-graph")])
    assert plan.corners is not None
    assert plan_pairs([run("r", "eager", "graph")]).corners is None


def test_every_further_input_meets_the_first() -> None:
    found = labels(run("a", None), run("b", None), run("c", None))
    assert found == [("a/None", "b/None"), ("a/None", "c/None")]


def test_two_runs_meet_mode_by_mode() -> None:
    left, right = run("a", "eager", "graph", "compiled"), run("b", "eager", "compiled", "as-is")
    plan = plan_pairs([left, right])
    assert [(x.label, y.label) for x, y in plan.pairs] == [
        ("a/eager", "b/eager"),
        ("a/compiled", "b/compiled"),
    ]
    assert plan.notes == (
        "mode graph is in a only, so it is not compared",
        "mode as-is is in b only, so it is not compared",
    )


def test_a_run_meets_one_mode_with_its_own_of_that_name() -> None:
    assert labels(run("a", "eager", "graph"), run("b", "graph")) == [("a/graph", "b/graph")]
    assert labels(run("b", "graph"), run("a", "eager", "graph")) == [("b/graph", "a/graph")]
    assert labels(run("a", "eager"), run("b", "graph")) == [("a/eager", "b/graph")]


def test_what_is_not_clear_is_asked_back() -> None:
    with pytest.raises(OptionError, match="which mode of a to compare with b") as refused:
        plan_pairs([run("a", "eager", "graph"), run("b", None)])
    assert refused.value.hint == "name one of its modes: a/MODE with MODE out of eager, graph"
    with pytest.raises(OptionError, match="nothing to compare it with"):
        plan_pairs([run("a", "eager")])


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["runs/a.json.gz", "runs/b.json"], ["a", "b"]),
        (["main/x.pt.trace.json.gz", "pr/x.pt.trace.json.gz"], ["main/x", "pr/x"]),
        (["/r/main/run/eager", "/r/pr/run/eager"], ["main/run/eager", "pr/run/eager"]),
        (["a.json", "a.json"], ["a (1)", "a (2)"]),
        (["base.gaptrace.json", "runs/new/"], ["base", "new"]),
    ],
)
def test_labels_are_short_and_distinct(paths: list[str], expected: list[str]) -> None:
    assert distinct_labels(paths) == expected
