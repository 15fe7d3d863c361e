"""A model's config.json as untrusted text: typed keys, and a record of which were read.

Comes in: text. Goes out: sections with getters that refuse what is no count, flag or list; what
was used and what was assumed. Not its job: what a key means (families, attention, feed_forward).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvdsl.units import counted

MOST_TEXT = 16 * 2**20
"""Bytes: five times the largest config known, whose list of unquantized modules is long."""
MOST = 10**9
MOST_LAYERS = 10_000
MOST_SHOWN = 60


class Refused(Exception):
    """The config cannot be read faithfully; the text says what is missing or wrong."""


class Unparsed(Refused):
    """The text is no JSON at all: an unreadable file, not a model that is refused."""


@dataclass(slots=True)
class Record:
    """What an import did: keys read, defaults assumed (what, why), and warnings."""

    used: dict[str, None] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)

    def assume(self, what: str, why: str) -> None:
        self.assumed.setdefault(what, why)

    def warn(self, text: str) -> None:
        self.warnings.setdefault(text)


@dataclass(frozen=True, slots=True)
class Section:
    """An object of the config; `path` is where it stands. A null counts as absent."""

    values: Mapping[str, Any]
    record: Record
    path: str = ""

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def raw(self, *keys: str) -> tuple[str, Any]:
        """The first of the keys that is there, and its value; ("", None) without one."""
        for key in keys:
            if self.has(key):
                self.record.used.setdefault(self.path + key)
                return self.path + key, self.values[key]
        for key in keys:
            if key in self.values:  # a null was looked at too
                self.record.used.setdefault(self.path + key)
        return "", None

    def count(self, *keys: str, least: int = 1) -> int | None:
        name, value = self.raw(*keys)
        return None if not name else count_of(name, value, least)

    def needed(self, *keys: str, least: int = 1) -> int:
        found = self.count(*keys, least=least)
        if found is None:
            raise Refused(f"`{self.path}{keys[0]}` is missing")
        return found

    def flag(self, key: str) -> bool | None:
        name, value = self.raw(key)
        if not name:
            return None
        if not isinstance(value, bool):
            raise Refused(f"`{name}` is {shown(value)}, not true or false")
        return value

    def word(self, key: str) -> str | None:
        name, value = self.raw(key)
        if not name:
            return None
        if not isinstance(value, str):
            raise Refused(f"`{name}` is {shown(value)}, not a string")
        return value

    def ratio(self, key: str) -> float | None:
        name, value = self.raw(key)
        if not name:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
            raise Refused(f"`{name}` is {shown(value)}, not a number above 0")
        return float(value)

    def items(self, key: str, length: int, *, more: bool = False) -> Sequence[Any] | None:
        """A list with one item a layer; `more` lets further items follow."""
        name, value = self.raw(key)
        if not name:
            return None
        if not isinstance(value, list):
            raise Refused(f"`{name}` is {shown(value)}, not a list")
        if len(value) < length or (len(value) > length and not more):
            items = counted(len(value), "items")
            raise Refused(f"`{name}` has {items} for {counted(length, 'layers')}")
        return value[:length]

    def words(self, key: str, length: int) -> Sequence[str] | None:
        found = self.items(key, length)
        if found is not None and not all(isinstance(item, str) for item in found):
            raise Refused(f"`{self.path}{key}` is not a list of strings")
        return found

    def counts(self, key: str, length: int, *, more: bool = False) -> Sequence[int] | None:
        found = self.items(key, length, more=more)
        if found is None:
            return None
        return [count_of(f"{self.path}{key}[{i}]", item, 0) for i, item in enumerate(found)]

    def section(self, key: str) -> Section | None:
        name, value = self.raw(key)
        if not name:
            return None
        if not isinstance(value, dict):
            raise Refused(f"`{name}` is {shown(value)}, not an object")
        return Section(value, self.record, f"{name}.")

    def unread(self) -> Iterator[str]:
        """Keys that nobody asked for, those of sections that were read included."""
        for key, value in self.values.items():
            name = self.path + key
            if name not in self.record.used:
                yield name
            elif isinstance(value, dict):
                yield from Section(value, self.record, f"{name}.").unread()


def count_of(name: str, value: Any, least: int = 1) -> int:
    """A whole number in range. Raises Refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"`{name}` is {shown(value)}, not a whole number")
    if not least <= value <= MOST:
        raise Refused(f"`{name}` is {shown(value)}, outside {least:,} to {MOST:,}")
    return value


def shown(value: Any) -> str:
    """A value as a message shows it, cut short. Very long integers are not spelt out."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**18:
        return "a number beyond any size"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"`{twice[:60]}` stands twice in the file")
    return found


def parsed(text: str) -> Mapping[str, Any]:
    """The top object of a config. Raises Refused where the text is none."""
    if len(text) > MOST_TEXT:
        raise Refused("the file is too long to be a config")
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise Unparsed("the file is nested too deeply") from None
    except ValueError as error:
        place = (
            f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise Unparsed(f"the file is not JSON{': ' + place if place else ''}") from None
    if not isinstance(found, dict):
        raise Refused(f"the file holds {shown(found)}, not an object")
    return found
