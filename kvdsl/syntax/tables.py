"""The parser that Lark makes of the grammar, loaded from tables made ahead.

Comes in: the grammar, or `tables.json`. Goes out: a Lark parser that turns a piece of a file into a
Lark tree. Not its job: making nodes of that tree (builder) or words of a fault (faults).

Lark needs about 150 ms to read the grammar and compute its tables, which every command would pay;
loading them takes 5 ms. They are plain JSON, since a pickle runs code and cannot be reviewed.
`PYTHONHASHSEED=0 python -m kvdsl.syntax.tables` writes them anew; a test compares their hash with
the grammar's. Tables of another Lark are not trusted: then the parser is built from the grammar,
slower but right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvdsl.resources import grammar_text
from kvdsl.syntax.outline import LineEnds

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.parsers.lalr_interactive_parser import InteractiveParser

TABLES = Path(__file__).with_name("tables.json")


class Separators:
    """The newline filter between lexer and parser; it holds no token back (see LineEnds)."""

    always_accept = ("_SEP",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        ends = LineEnds()
        for token in stream:
            if token.type != "_SEP":
                ends.feed(token)
                yield token
            elif ends.separates(token):
                yield token


@cache
def parser() -> Lark:
    """The parser, made once a process."""
    made = _load() or build(grammar_text())
    _shorten(made)
    return made


def _shorten(made: Lark) -> None:
    """An atom is handed up through ten rules of one part each, from `?atom` to `?expr`. Lark looks
    for the positions of a tree at each, which the tree has from the first."""
    callbacks = made.parser.parser.parser.callbacks
    for rule in callbacks:
        part = rule.expansion[0] if len(rule.expansion) == 1 else None
        handed_up = part is not None and not part.is_term and not part.name.startswith("_")
        if handed_up and rule.options.expand1 and not rule.alias:
            callbacks[rule] = itemgetter(0)


def acceptable(stopped: InteractiveParser) -> frozenset[str]:
    """The terminals that could stand where a parser stopped, exactly.

    What Lark's error calls expected is too much: it holds the separator everywhere, since the
    filter may drop one, and an LALR state is shared by places where different words may follow.
    """
    from lark.parsers.lalr_analysis import Shift

    state = stopped.parser_state
    table = state.parse_conf.states
    found = set()
    for terminal in table[state.position]:
        stack = list(state.state_stack)
        while (step := table[stack[-1]].get(terminal)) is not None:
            action, argument = step
            if action is Shift:
                found.add(terminal)
                break
            if argument.expansion:
                del stack[-len(argument.expansion) :]
            stack.append(table[stack[-1]][argument.origin.name][1])
    return frozenset(found)


def build(grammar: str, **options: Any) -> Lark:
    """The parser from the grammar's text, as Lark computes it."""
    from lark import Lark

    return Lark(
        grammar,
        start="file",
        parser="lalr",
        lexer="contextual",
        postlex=Separators(),
        propagate_positions=True,
        **options,
    )


def fingerprint(grammar: str) -> str:
    return sha256(grammar.encode()).hexdigest()


def _lark_series() -> str:
    """Tables are good for one series, `1.3`: a patch does not change what they hold."""
    from lark import __version__

    return ".".join(__version__.split(".")[:2])


def _load() -> Lark | None:
    from lark import Lark

    try:
        stored = json.loads(TABLES.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if stored["lark"] != _lark_series() or stored["grammar"] != fingerprint(grammar_text()):
        return None
    data = stored["data"]
    data["options"]["postlex"] = Separators()
    tables = data["parser"]["parser"]
    # JSON has text for keys and lists for pairs; Lark wants the numbers and pairs that it gave.
    tables["tokens"] = _numbered(tables["tokens"])
    tables["states"] = {
        state: {token: tuple(action) for token, action in _numbered(actions).items()}
        for state, actions in _numbered(tables["states"]).items()
    }
    return Lark.load({"data": data, "memo": _numbered(stored["memo"])})


def _numbered(mapping: dict[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in mapping.items()}


def stored_text(grammar: str) -> str:
    """What `tables.json` holds for a grammar; Lark numbers states as Python's hash seed has it."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    made = build(grammar)
    data, memo = made.memo_serialize([TerminalDef, Rule])
    data["options"]["postlex"] = None
    stored = {
        "lark": _lark_series(),
        "grammar": fingerprint(grammar),
        "data": data,
        "memo": memo,
    }
    return json.dumps(stored, separators=(",", ":"), sort_keys=True) + "\n"


if __name__ == "__main__":
    TABLES.write_text(stored_text(grammar_text()), encoding="utf-8")
