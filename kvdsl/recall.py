"""What pure functions of frozen objects gave, remembered by which objects they were asked of.

Comes in: objects, plain values and how to make the answer. Goes out: the answer, made once. A spec
is a tree of frozen blocks whose hash would cost more than most answers, so an object is known by
its identity, and kept for as long as its answer. Not its job: deciding what is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """An answer that is made when it is first asked."""

    __slots__ = ("_found", "_made")
    _found: T

    def __init__(self, made: Callable[[], T]) -> None:
        self._made: Callable[[], T] | None = made

    def __call__(self) -> T:
        if self._made is not None:
            self._found = self._made()
            self._made = None  # with all that it knew
        return self._found


class Recall(Generic[T]):
    """At most so many answers; when it is full it begins anew."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[tuple[Hashable, ...], tuple[tuple[Any, ...], T]] = {}

    def get(
        self, objects: tuple[Any, ...], values: tuple[Hashable, ...], made: Callable[[], T]
    ) -> T:
        key = (*map(id, objects), *values)
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= self._most:
                self._found.clear()
            # The objects are kept, or their ids could return as those of others.
            known = self._found[key] = (objects, made())
        return known[1]
