"""What was lately asked for, so that going back costs nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


class Held:
    """The last values by key, at most `most` of them; several threads may ask.

    A key names the file of a result, so that what is made of an older one is not found again.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._values: OrderedDict[Any, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """The value under a key, made where it is not held."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                found: T = self._values[key]
                return found
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value
