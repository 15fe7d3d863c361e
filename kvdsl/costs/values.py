"""Values by name, in groups that are computed when one of their names is asked.

Of most layouts that findings compare one or two values are asked, so that nothing else of them is
computed. Who asks for all of them gets all, in the order of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kvdsl.formulas import Term
from kvdsl.recall import Once

Group = tuple[tuple[str, ...], Callable[[], Mapping[str, Term]]]
"""Names, and what computes them: `kv.copies`, or `decode.` for all names below it. Not each has to
be there. Of two groups with a name the later one has it."""


class Values(Mapping[str, Term]):
    """A read-only mapping of names to terms."""

    __slots__ = ("_all", "_groups")

    def __init__(self, groups: Sequence[Group]) -> None:
        made = [(names, Once(group)) for names, group in groups]
        self._groups = {name: group for names, group in made for name in names}
        self._all = Once(
            lambda: {name: term for _, group in made for name, term in group().items()}
        )

    def __getitem__(self, name: str) -> Term:
        groups = self._groups
        group = groups.get(name) or groups.get(name[: name.find(".") + 1]) or self._all
        return group()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
