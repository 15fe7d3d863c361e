"""Damage done to a text: tokens and lines lost, doubled and swapped, figures made absurd, noise.

Comes in: a text and a source of randomness. Goes out: another text, rarely a sound one. Not its
job: the text that it starts from (specs).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

_TOKEN = re.compile(r"\s+|\w+|[^\w\s]")

NUMBERS = (
    "0", "1", "-1", "2", "0.5", "1e12", "1e40", "1e99", "9" * 101, "1_000", "10000000000000", "1/3",
    "0.001", "100", "1e-40", "65536", "3.7",
)  # fmt: skip
UNITS = (
    "B", "GB", "GiB", "Gbit", "KB", "Gb", "M", "tok", "ktok", "Gtok", "req", "req/s", "GB/s", "B/s",
    "TFLOP/s", "%", "s", "ns", "d", "USD/h", "W", "", "GB/s/s", "/", "B/tok",
)  # fmt: skip
WORDS = (
    "model", "device", "layout", "deployment", "extends", "x", "per", "from", "let", "import",
    "drop", "require", "when", "because", "allow", "compare", "sweep", "true", "and", "within",
    "layer", "pattern", "attention", "experts", "stack", "shared", "moe", "models", "formats",
    "bf16", "tp", "devices", "KV108", "abstract", "source", "name", "workload", "pool", "one",
    "m", "a", "l0",
)  # fmt: skip
SIGNS = (
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "=",
    "==",
    "<",
    ".",
    "..",
    ",",
    ";",
    "\n",
    "#",
    '"',
    "+",
    "/",
)
NOISE = (
    "\x00",
    "\x1b[31m",
    "\u202e",
    "\u2028",
    "\ufeff",
    "é",
    "漢",
    "😀",
    "\ud800",
    "\t",
    "\\",
    "$",
)

Change = Callable[[Random, list[str]], None]


def _at(random: Random, tokens: Sequence[str]) -> int:
    return random.randrange(len(tokens) or 1)


def _lose(random: Random, tokens: list[str]) -> None:
    at = _at(random, tokens)
    del tokens[at : at + random.choice((1, 1, 1, 2, 5, 30))]


def _double(random: Random, tokens: list[str]) -> None:
    at = _at(random, tokens)
    piece = tokens[at : at + random.choice((1, 1, 3, 20))]
    tokens[at:at] = piece * random.choice((1, 1, 2, 40))


def _swap(random: Random, tokens: list[str]) -> None:
    if tokens:
        one, other = _at(random, tokens), _at(random, tokens)
        tokens[one], tokens[other] = tokens[other], tokens[one]


def _put(choices: Sequence[str]) -> Change:
    def put(random: Random, tokens: list[str]) -> None:
        tokens.insert(_at(random, tokens), random.choice(choices))

    return put


def _instead(pattern: str, choices: Sequence[str]) -> Change:
    """One token of that form becomes another; of the text's own, where there are no choices."""
    form = re.compile(pattern)

    def replaced(random: Random, tokens: list[str]) -> None:
        places = [index for index, token in enumerate(tokens) if form.fullmatch(token)]
        if places:
            others = choices or [tokens[index] for index in places]
            tokens[random.choice(places)] = random.choice(others)

    return replaced


def _cut(random: Random, tokens: list[str]) -> None:
    at = _at(random, tokens)
    if random.random() < 0.5:
        del tokens[at:]
    else:
        del tokens[:at]


def _line(random: Random, tokens: list[str]) -> None:
    """A whole line is lost, doubled or moved: what is left can often be read."""
    lines = "".join(tokens).splitlines(keepends=True)
    if lines:
        at = random.randrange(len(lines))
        line = lines.pop(at)
        if random.random() < 0.5:
            lines[random.randrange(len(lines) + 1) : 0] = [line] * random.choice((1, 2))
    tokens[:] = _TOKEN.findall("".join(lines))


NESTS = (("(", ")"), ("[", "]"), ("{", "}"), ("a { ", " }"), ("2 x pattern { ", " }"),
         ("-", ""), ("not ", ""), ("1 + (", ")"), ("min(", ")"))  # fmt: skip


def _nest(random: Random, tokens: list[str]) -> None:
    """One token inside so many brackets, now and then left open."""
    if tokens:
        at = _at(random, tokens)
        opener, closer = random.choice(NESTS)
        deep = random.choice((1, 2, 3, 10, 65, 300))
        closing = closer * (deep if random.random() < 0.7 else random.randrange(deep + 1))
        tokens[at] = opener * deep + tokens[at] + closing


_DIGITS, _NAME = r"\d\w*", r"[a-z_]\w*"
CHANGES: tuple[Change, ...] = (
    _lose, _lose, _double, _swap, _cut, _nest, _line, _line, _line,
    _put(SIGNS), _put(WORDS), _put(NUMBERS), _put(NOISE),
    _instead(_DIGITS, NUMBERS), _instead(_DIGITS, NUMBERS), _instead(_DIGITS, ()),
    _instead(_NAME, WORDS), _instead(_NAME, ()), _instead(_NAME, ()), _instead(_NAME, UNITS),
    _instead(r"[^\w\s]", SIGNS),
)  # fmt: skip


def mutated(random: Random, text: str) -> str:
    """The text after one change to a handful of them."""
    tokens = _TOKEN.findall(text)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        random.choice(CHANGES)(random, tokens)
    return "".join(tokens)
