"""What is wrong where a block was meant: opened behind a value, or by a count alone.

Comes in: a fault. Goes out: a diagnostic, or advice for one. Not its job: all other faults, and
the order in which they are tried (faults).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kvdsl.diagnostics import Diagnostic
from kvdsl.syntax import messages as say
from kvdsl.syntax.fault import Fault, rest_of_statement
from kvdsl.syntax.outline import Kind

WRITTEN: Mapping[str, str] = MappingProxyType(
    {
        "require": "a requirement is written `require kv.tokens >= 1 Mtok`",
        "expect": "an expectation is written `expect decode.tpot <= 30 ms`",
        "allow": 'a waiver is written `allow KV101 because "…"`',
        "compare": "it takes names of layouts: `compare tp8, tp16`",
        "drop": "it takes what is inherited: `drop budget`",
        "let": "it gives a value a name: `let long = 128 Kitok`",
        "import": 'it takes a path in quotes: `import "hardware.kvspec"`',
    }
)
"""How statements are written that open with a word of their own."""

FORMS: Mapping[str, str] = MappingProxyType(
    {
        "sweep": "sweep{name} {{ workload.concurrency = [50 req, 100 req] }}",
        "search": "search {{ axes = [tp, pp]; minimize = cost.per_mtok }}",
        "pool": "pool{name} {{ on = hall.nodes[0..1]; layout = tp8 }}",
        "policy": "policy{name} {{ require memory.reserve >= 2 GB }}",
        "fleet": "fleet{name} {{ deployments = [chat, batch] }}",
        "tiers": "tiers {{ host {{ tier = tiers.ddr5; capacity = 1 TB per node }} }}",
        "transfer": "transfer {{ over = links.infiniband_ndr }}",
        "budget": "budget {{ utilization = 90 %; reserve = 3 GB }}",
    }
)
"""How blocks are written that are no attribute's plain value. Each holds `{name}` where the block
has one."""

_NAMES = {"pool": "decode", "policy": "house", "fleet": "all"}
"""Of an example whose own name is not written."""


def form_of(word: str, name: str = "") -> str:
    """How a block of this word is written; empty where the word opens none of them."""
    name = name or _NAMES.get(word, "")
    return FORMS.get(word, "").format(name=f" {name}" if name else "")


REPEATED = ("layer", "pattern")
PARTS = ("attention", "ffn")


def block_without_braces(fault: Fault) -> Diagnostic | None:
    """`sweep workload.concurrency = [50 req]`, `pool decode = tp8`, `fleet all = [a, b]`."""
    statement, found = fault.statement, fault.found
    if not statement or statement[0].text not in FORMS or not fault.on_one_line:
        return None
    words = [token.text for token in statement]
    if words[1:2] == ["="] or "extends" in words or found.text in ("{", "=", "-", "extends"):
        return None
    word = words[0]
    if len(words) == 1 and (found.kind is Kind.WORD or fault.line_ends):
        return None
    named = len(words) > 1 and statement[1].kind is Kind.WORD
    dotted = named and (words[2:3] or [found.text])[0] == "."
    instead = form_of(word, words[1] if named and not dotted else "")
    rest = rest_of_statement(fault.source, statement[1].start if named else found.start)
    path, equals, value = rest.partition(" = ")
    if word == "sweep" and equals and ("." in path or value.lstrip("[ ")[:1].isalpha()):
        instead = f"sweep {{ {rest} }}"
    problem = f"`{word}` opens a block: what it says stands between `{{` and `}}`"
    return say.WrongSign(fault.span(found), problem, instead).diagnostic()


def block_behind_value(fault: Fault) -> Diagnostic | None:
    """`model = base { … }`, `attention = gqa { … }`: a block behind the value of an attribute."""
    statement, found = fault.statement, fault.found
    if found.text != "{" or len(statement) < 3 or statement[1].text != "=":
        return None
    value = statement[2:]
    dotted = all(token.kind is Kind.WORD or token.text == "." for token in value)
    if statement[0].kind is not Kind.WORD or not dotted:
        return None
    name, of = statement[0].text, fault.text(value[0], value[-1])
    advice = f"write `{name} extends {of} {{ … }}` for `{of}` with changes"
    if name in PARTS:
        advice = f"a part of a model has a name: write `{name} NAME = {of} {{ … }}`"
    return say.BlockBehindValue(fault.span(found), name, of, advice).diagnostic()


def lone_count(fault: Fault) -> str:
    """Advice where a count stands for itself: `4 x gpu` in a node, `64 x layer` in a stack."""
    statement = fault.statement
    if len(statement) < 3 or statement[0].kind is not Kind.NUMBER or statement[1].text != "x":
        return ""
    end = 0
    while fault.token(end).text == "." and fault.token(end + 1).kind is Kind.WORD:
        end += 2
    what = fault.text(statement[0], fault.token(end - 1) if end else statement[-1])
    if statement[2].text in REPEATED:
        return f"write `{what} {{ … }}`, with the names of its parts in it"
    return f"so many of something are a value, as in `devices = {what}` or `nodes = {what}`"
