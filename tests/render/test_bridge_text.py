"""A bridge as text: one zero line, gains left and losses right of it, estimates hatched."""

from __future__ import annotations

import pytest

from gaptrace.document.blocks import Document, Section, Sentence
from gaptrace.render import formats
from gaptrace.render.formats import Style
from gaptrace.render.tables import ROOM, bridge
from tests.render.material import BRIDGE


@pytest.mark.parametrize("format_", ["terminal", "markdown"])
def test_a_bridge_in_text_has_one_zero_line(format_: str) -> None:
    section = Section("bridge", "Bridge", (BRIDGE,))
    whole = Document("pair", "a → b", Sentence(("so",), "answer"), (), (section,))
    text = formats.get(format_).render(whole, Style())
    rows = [line for line in text.splitlines() if "│" in line]
    assert len(rows) == len(BRIDGE.bars) - 2
    assert len({line.index("│") for line in rows}) == 1
    for line, sign, fill in zip(rows, "−−+", "█▒█", strict=True):
        before, after = line.split("│")
        assert sign in line
        drawn, bare = (before, after) if sign == "−" else (after, before)
        assert fill in drawn
        assert not {"█", "▒"} & set(bare)


def test_the_bars_of_a_bridge_share_a_scale_and_fit_their_room() -> None:
    _, steps = bridge(BRIDGE)
    # 6, 5 and 3 of 9 µs.
    assert [len((step.before + step.after).strip()) for step in steps] == [16, 13, 8]
    assert {len(step.before + step.after) for step in steps} == {ROOM}
