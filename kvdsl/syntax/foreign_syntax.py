"""What other languages write: their comments, their signs, the words that open their statements.

Comes in: a fault. Goes out: a diagnostic, or None where the fault is another's. Not its job: all
other faults, and the order in which they are tried (faults).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from kvdsl.diagnostics import Diagnostic, Fix
from kvdsl.syntax import messages as say
from kvdsl.syntax.fault import Fault
from kvdsl.syntax.outline import Kind, Token

_COMMENTS = ("//", "/*", "*/", "--", "<!--")
_CONFLICTS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
_FENCES = ("```", "~~~")

_COMMENT = "a comment starts with `#`, not `{}`"
_MERGED = "a merge left this mark of a conflict"
_FENCED = "a fence of Markdown is no part of a spec"
HABITS = frozenset((_MERGED, _FENCED, *map(_COMMENT.format, _COMMENTS)))
"""What is told once a file: who writes so does it on many lines."""

_NO_LOOPS = "there are no loops; a sweep goes through values: `sweep { layout.tp = [4, 8] }`"
_NO_BRANCHES = "there are no branches; `when` limits a requirement: `require … when gpus > 8`"
_NO_FUNCTIONS = "nothing is defined but declarations; `let` gives a value a name"
_REQUIRE = "a condition that must hold is written `require kv.tokens >= 1 Mtok`"
_IMPORT = 'a file is named by its path in quotes: `import "hardware.kvspec" as hardware`'
_LET = "a value gets a name with `let`: `let long = 128 Kitok`"
_ALLOW = 'a finding is waived with its reason: `allow KV101 because "…"`'
_EXTENDS = "what is inherited is named in the head: `deployment prod extends base { … }`"
_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("for", "foreach", "while", "loop", "repeat"), _NO_LOOPS),
        **dict.fromkeys(("if", "elif", "else", "unless", "switch", "match", "case"), _NO_BRANCHES),
        **dict.fromkeys(("def", "fn", "func", "function", "class", "return"), _NO_FUNCTIONS),
        **dict.fromkeys(("assert", "ensure", "check", "must", "constraint", "verify"), _REQUIRE),
        **dict.fromkeys(("include", "use", "using", "from", "source", "load", "require"), _IMPORT),
        **dict.fromkeys(("const", "var", "val", "set", "define", "local", "locals"), _LET),
        **dict.fromkeys(("ignore", "waive", "suppress", "disable", "noqa", "skip"), _ALLOW),
        **dict.fromkeys(("extends", "inherits", "inherit"), _EXTENDS),
    }
)
"""Words that open a statement elsewhere, and what is written here."""


_LANGUAGES: tuple[tuple[str, str], ...] = (
    (r"\s*[{\[]\s*[\"}\]{\[]", "JSON"),
    (r"\s*\[\w[\w.\-]*\]\s*(\n|$)", "TOML"),
    (r"\s*<", "HTML or XML"),
    (r"\s*(---\s*\n|%YAML|(?!kvspec\b)[\w.\-]+:|- )", "YAML"),
    (r"#!", "a script"),
    (r"\s*(import \w+[\w.]*\s*(\n|$|,|as\b)|from \w[\w.]* import\b)", "Python"),
    (r'\s*\w+ "[^"\n]*"( "[^"\n]*")* \{', "HCL"),
)
"""How the first statement of a file looks in other languages."""


def foreign_language(text: str) -> str:
    """The language that a text without an edition seems to be in; empty where none is known."""
    first = text[statements_start(text) :]
    return next((name for pattern, name in _LANGUAGES if re.match(pattern, first)), "")


def statements_start(text: str) -> int:
    """Where the first statement starts, behind comments and blank lines."""
    before = _NO_STATEMENT.match(text)
    assert before is not None
    return before.end()


_NO_STATEMENT = re.compile(r"\ufeff?(?:[ \t\r]*(?:#(?!!)[^\n]*)?\n)*")
"""Blank lines and comments before the first statement."""


def foreign_comment(fault: Fault) -> Diagnostic | None:
    """The sign is found where its first character or its second cannot be read."""
    found, before = fault.found, fault.before
    first = before if before.end == found.start and before.kind is Kind.MARK else found
    for sign in _COMMENTS:
        for start in (first, found):
            if fault.source.text.startswith(sign, start.start):
                span = fault.source.span(start.start, start.start + len(sign))
                problem = _COMMENT.format(sign)
                fix = Fix("write `#`", span, "#") if sign in ("//", "--") else None
                return say.WrongSign(span, problem, "# …").diagnostic(fix=fix)
    return None


def mark_of_tools(fault: Fault) -> Diagnostic | None:
    """What a merge leaves in a file, and what stands around a spec in Markdown."""
    found, text = fault.found, fault.source.text
    start = found.start
    if text[text.rfind("\n", 0, start) + 1 : start].strip():
        return None
    end = text.find("\n", start)
    line = fault.source.span(start, end if end >= 0 else len(text))
    if text.startswith(_CONFLICTS, start):
        advice = "keep one of the two sides, and delete the lines with marks"
        return say.Leftover(line, _MERGED, advice).diagnostic()
    if text.startswith(_FENCES, start):
        advice = "keep what stands between the fences"
        return say.Leftover(line, _FENCED, advice).diagnostic()
    return None


def foreign_sign(fault: Fault) -> Diagnostic | None:
    """`tp == 8`, `tp => 8`, `2 ** 4`, `[0-3]`."""
    found, before = fault.found, fault.before
    touches = before.end == found.start
    if found.text == "*" and before.text == "*" and touches:
        span = fault.span(before, found)
        advice = "there is no power: multiply, as in `2 * 2 * 2`"
        return say.StrangeCharacter(span, "`**`", "", advice).diagnostic()
    if fault.opened and fault.opened[-1].text == "[" and before.kind is Kind.NUMBER:
        return _range(fault)
    # The grammar has read the `=` of `==` and stopped at its second half, or at the `>` of `=>`.
    doubled = found.text == "==" and fault.offset > found.start
    arrow = found.text == ">" and before.text == "=" and touches
    head = fault.statement[:-1] if arrow else fault.statement
    if not (doubled or arrow) or not _is_path(head):
        return None
    span = fault.span(before, found) if arrow else fault.span(found)
    value = fault.token(1)
    written = fault.text(value, value) if value.kind in (Kind.NUMBER, Kind.WORD, Kind.TEXT) else "…"
    sign = "=>" if arrow else "=="
    problem = f"an attribute gets its value with `=`, not `{sign}`"
    instead = f"{fault.text(head[0], head[-1])} = {written}"
    return say.WrongSign(span, problem, instead).diagnostic(fix=Fix("write `=`", span, "="))


def _range(fault: Fault) -> Diagnostic | None:
    """`[0-3]`, `[0...3]`: two numbers with another sign between them."""
    sign, last = fault.found, fault.token(1)
    first = fault.before
    if sign.text not in ("-", "..") or last.kind not in (Kind.NUMBER, Kind.MARK):
        return None
    end = last
    if last.text == "." and fault.token(2).kind is Kind.NUMBER:
        end = fault.token(2)
    if end.kind is not Kind.NUMBER:
        return None
    return _dotted_range(fault, first, sign, end)


def _dotted_range(fault: Fault, first: Token, sign: Token, last: Token) -> Diagnostic:
    span = fault.source.span(sign.start, last.start)
    problem = "a range is written with `..`, both ends included"
    instead = f"{first.text}..{last.text}"
    return say.WrongSign(span, problem, instead).diagnostic(fix=Fix("write `..`", span, ".."))


def third_point(fault: Fault) -> Diagnostic | None:
    """`[0...3]`: the grammar has read `0..` and stops at the third point."""
    found, before, last, first = fault.found, fault.before, fault.token(1), fault.token(-2)
    if found.text != "." or before.text != ".." or before.end != found.start:
        return None
    if first.kind is not Kind.NUMBER or last.kind is not Kind.NUMBER:
        return None
    return _dotted_range(fault, first, before, last)


def foreign_statement(fault: Fault) -> Diagnostic | None:
    """`assert …`, `for …`, `include "…"`: told once, at the word, as what it is here."""
    statement = fault.statement or (fault.found,)
    first = statement[0]
    advice = _INSTEAD.get(first.text, "")
    behind = statement[1] if len(statement) > 1 else fault.found
    if not advice or behind.text in ("=", "{", ".") or behind.kind is Kind.NEWLINE:
        return None
    if first.text == "require" or (behind.text == "==" and behind is not first):
        return None
    problem = "opens no statement"
    return say.MisplacedWord(fault.span(first), first.text, problem, advice).diagnostic()


def _is_path(tokens: tuple[Token, ...]) -> bool:
    """Whether these tokens could be what an attribute is called."""
    return bool(tokens) and all(t.kind is Kind.WORD or t.text == "." for t in tokens)
