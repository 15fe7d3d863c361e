"""What is wrong with the head of a statement: the name of a declaration, the `=` of an attribute.

Comes in: a fault. Goes out: a diagnostic, or None where the fault is another's. Not its job: all
other faults, and the order in which they are tried (faults).
"""

from __future__ import annotations

import re

from kvdsl.diagnostics import Diagnostic, Fix
from kvdsl.syntax import messages as say
from kvdsl.syntax.expected import CLAUSE_WORDS, OPENING_WORDS
from kvdsl.syntax.fault import Fault, rest_of_statement
from kvdsl.syntax.outline import Kind, Token

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def edition_line(fault: Fault) -> Diagnostic | None:
    """`kvspec = 1`, `kvspec "1"`, `kvspec v1`."""
    statement = fault.statement
    if len(statement) != 1 or statement[0].text != "kvspec" or fault.opened or fault.line_ends:
        return None
    advice = f"write `kvspec {say.EDITION}`"
    expected = "the number of an edition"
    message = say.Unexpected(fault.place, expected, fault.after, fault.sight, "", advice)
    return message.diagnostic()


def import_line(fault: Fault) -> Diagnostic | None:
    """`import hardware`, `import { a } from "a.kvspec"`."""
    statement, found = fault.statement, fault.found
    if len(statement) != 1 or statement[0].text != "import" or found.kind is Kind.TEXT:
        return None
    if found.kind is not Kind.WORD and found.text != "{":
        return None
    name = found.text if found.kind is Kind.WORD else "hardware"
    advice = f'it takes a path in quotes: `import "{name}.kvspec"`; the catalog needs no import'
    expected = "a text in double quotes"
    message = say.Unexpected(fault.place, expected, fault.after, fault.sight, "", advice)
    return message.diagnostic()


def quoted_name(fault: Fault) -> Diagnostic | None:
    """`layout "tp16" {`, `resource "layout" "tp16" {`, `2 x "hgx"`, `as "pace"`."""
    found = fault.found
    if found.kind is not Kind.TEXT or "NAME" not in fault.accepted:
        return None
    texts = [found]
    while fault.token(len(texts)).kind is Kind.TEXT:
        texts.append(fault.token(len(texts)))
    names = [token.text.strip('"') for token in texts]
    if not all(_NAME.fullmatch(name) for name in names):
        return _unreadable_name(fault, found, re.sub(r"\W+", "_", found.text.strip('"')))
    statement = fault.statement
    words = " ".join([fault.text(statement[0], statement[-1])] if statement else [])
    opens = fault.token(len(texts)).text == "{"
    instead = " ".join([*([words] if len(texts) == 1 and words else []), *names])
    message = say.QuotedName(fault.span(found), f"{instead} {{" if opens else instead)
    fix = Fix("delete the quotes", fault.span(found), names[0]) if len(texts) == 1 else None
    return message.diagnostic(fix=fix)


def unreadable_name(fault: Fault) -> Diagnostic | None:
    """`layout tp-16 {`, `layout tp.16 {`, `layout 16tp {`, `models.llama_3.1_405b`."""
    statement, found, before = fault.statement, fault.found, fault.before
    if before.text == "." and found.kind is Kind.NUMBER and found.start == before.end:
        first = _first_of_name(fault)
        return _unreadable_name(fault, first, _joined(fault, first))
    heads = [token.kind for token in statement] == [Kind.WORD, Kind.WORD]
    touches = before.end == found.start
    if heads and statement[0].text == "let" and found.text in ("-", ".") and touches:
        return _unreadable_name(fault, before, _joined(fault, before))
    heads = heads and statement[0].text not in OPENING_WORDS
    if heads and found.text in ("-", ".") and touches and _opens_behind(fault):
        return _unreadable_name(fault, before, _joined(fault, before))
    alone = len(statement) == 1 and statement[0].kind is Kind.WORD
    behind = fault.token(1)
    digits = found.kind is Kind.NUMBER and behind.kind is Kind.WORD and behind.start == found.end
    if alone and digits and _opens_behind(fault):
        return _unreadable_name(fault, found, "_" + _joined(fault, found))
    return None


def _unreadable_name(fault: Fault, first: Token, instead: str) -> Diagnostic | None:
    if not _NAME.fullmatch(instead):
        return None
    last = first.end
    while last < len(fault.source.text) and re.match(r"[\w.\-/\"]", fault.source.text[last]):
        last += 1
    span = fault.source.span(first.start, last)
    written = span.text.strip('"')
    return say.UnreadableName(span, written, instead).diagnostic(fix=Fix("rename", span, instead))


def _first_of_name(fault: Fault) -> Token:
    """The word before the point behind which no name stands."""
    word = fault.token(-2)
    return word if word.kind is Kind.WORD else fault.before


def _joined(fault: Fault, first: Token) -> str:
    """What is written from a token to the next blank, as one name."""
    written = re.match(r"[\w.\-]*", fault.source.text[first.start :])
    assert written is not None
    return re.sub(r"\W+", "_", written.group())


def _opens_behind(fault: Fault) -> bool:
    """Whether a block opens on this line, so that what stands before it is a head."""
    index = 0
    while fault.token(index).kind in (Kind.WORD, Kind.NUMBER, Kind.MARK, Kind.TEXT):
        index += 1
    return fault.token(index).text == "{"


def wrong_opener(fault: Fault) -> Diagnostic | None:
    """`layout tp16 = {`, `layout tp16 (`, `layout tp16 [`, `stack = 32 x layer {`, `32 x {`."""
    statement, found = fault.statement, fault.found
    kinds = [token.kind for token in statement[:2]]
    if not statement or found.text not in ("{", "(", "["):
        return None
    instead, problem = "", "a block opens with `{` right behind the head"
    words = fault.text(statement[0], statement[-1])
    if kinds == [Kind.WORD, Kind.WORD] and statement[0].text not in OPENING_WORDS:
        head = fault.text(statement[0], statement[1])
        equals = len(statement) == 3 and statement[2].text == "=" and found.text == "{"
        if equals or (len(statement) == 2 and found.text != "{"):
            instead = f"{head} {{"
    elif kinds == [Kind.NUMBER, Kind.WORD] and len(statement) == 2 and found.text == "{":
        problem = "a count is of something"
        instead = f"{words} layer {{"
    elif len(statement) == 5 and statement[1].text == "=" and statement[3].text == "x":
        problem = "a block stands behind no value"
        counted = fault.text(statement[2], statement[4])
        instead = f"{statement[0].text} {{ {counted} {{ … }} }}" if found.text == "{" else ""
    if not instead:
        return None
    return say.WrongSign(fault.span(found), problem, instead).diagnostic()


def missing_equals(fault: Fault) -> Diagnostic | None:
    """`tp 16`, `model models.llama`, `let long 128 ktok`, and `layout tp8` on a line of a block."""
    statement, found, before = fault.statement, fault.found, fault.before
    if not fault.on_one_line or not statement or statement[0].kind is not Kind.WORD:
        return None
    words = [token.text for token in statement]
    if words[0] == "let":
        value = found.kind in (Kind.NUMBER, Kind.WORD, Kind.TEXT)
        named = len(words) == 2 and statement[1].kind is Kind.WORD
        return _missing(fault, before, found, f"let {words[1]}") if named and value else None
    if words[0] in OPENING_WORDS or not fault.opened:
        return None
    if len(words) == 2 and statement[1].kind is Kind.WORD and words[1] not in CLAUSE_WORDS:
        ends = found.text == "." or fault.line_ends or found.kind is Kind.CLOSE
        return _missing(fault, statement[0], statement[1], words[0]) if ends else None
    dotted = all(t.kind is Kind.WORD or t.text == "." for t in statement)
    if not dotted or before.kind is not Kind.WORD or CLAUSE_WORDS.keys() & set(words):
        return None
    if found.kind not in (Kind.NUMBER, Kind.TEXT) or fault.token(1).text in ("x", "{"):
        return None
    return _missing(fault, before, found, fault.text(statement[0], before))


def _missing(fault: Fault, before: Token, value: Token, head: str) -> Diagnostic:
    written = rest_of_statement(fault.source, value.start)
    span = fault.source.span(value.start, value.end)
    gap = fault.source.span(before.end, value.start)
    message = say.MissingEquals(span, f"{head} = {written}")
    return message.diagnostic(fix=Fix("write `=`", gap, " = "))
