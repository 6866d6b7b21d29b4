"""A quantity that was written and read again is written the same."""

from __future__ import annotations

import pickle

from gaptrace.quantity import AT_MOST, NS, Quantity
from gaptrace.results.codec import from_json, to_json


def test_a_copy_of_a_quantity_is_the_same_text() -> None:
    for one in (Quantity(5, NS, "traced"), Quantity(5, NS, bound=AT_MOST)):
        for copy in (pickle.loads(pickle.dumps(one)), from_json(to_json(one), Quantity, "it")):
            assert copy == one
            assert to_json(copy) == to_json(one)
    assert "bound" not in to_json(Quantity(5, NS))
