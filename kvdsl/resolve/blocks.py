"""Blocks before they mean anything: what was written, merged with what is inherited.

Comes in: the tree of a block and its scope. Goes out: a `Raw`, entries by attribute, each with the
scope that it was written in: "what is inherited means what it meant in its own file". Not its job:
evaluating a value, so a base that is a reference stays one until the value is read (building).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

from kvdsl.diagnostics import Diagnostic, Label
from kvdsl.resolve.names import Bound, Named, Scope, described, refused
from kvdsl.resolve.naming_messages import (
    Misplaced,
    NothingToDrop,
    WrittenTwice,
    like,
)
from kvdsl.source import Span
from kvdsl.syntax import nodes
from kvdsl.syntax.nodes import Allow, Assign, Compare, Declare, Drop, Expr, Let, Part, Path, Require

Node = TypeVar("Node", Require, Allow, Drop)

WHOLE = frozenset({"stack", "mtp", "sweep", "search"})
"""Blocks that a child replaces whole, and that have statements of their own."""

PART = "part"
SORTS = frozenset({"attention", "ffn"})
"""Parts have one space of names, whatever their sort: a layer names them without it."""

PLURAL_KEYS: Mapping[str, str] = {
    "pools": "pool",
    "classes": "class",
    "towers": "tower",
    "algorithms": "algorithm",
    "sizes": "size",
    "sweeps": "sweep",
    "parts": PART,
    "attention": PART,
    "ffn": PART,
}
"""How `drop pools.decode` and an override `pools.decode.layout` call a block that has a name."""


@dataclass(frozen=True, slots=True, eq=False)
class Verbatim:
    """A block that is replaced whole; its statements are read by a function of their own."""

    node: nodes.Block


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A block value: its own statements over a base. `INHERIT` is filled when it is merged."""

    own: Raw
    base: Entry | Path | Literal["inherit"] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The items of `compare`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One attribute as last written. `form` is that of a model's part, `sort` the word before a
    name; `span` is the value's place, and the name's for a block."""

    key: str
    name: nodes.Name
    value: Expr | Body | Verbatim | Choices
    scope: Scope
    span: Span
    source: str | None = None
    overridden: tuple[Span, ...] = ()
    sort: str = ""
    form: nodes.Name | None = None
    statement: Span | None = None

    def over(self, below: Entry) -> Entry:
        """This entry where `below` is inherited under the same name."""
        value, form, sort = self.value, self.form, self.sort
        if isinstance(value, Body) and value.base == "inherit":
            value = Body(value.own, below)
            form, sort = below.form, sort or below.sort
        return replace(
            self, value=value, form=form, sort=sort, overridden=(*below.overridden, below.span)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Kept(Generic[Node]):
    """A statement that stands for itself, with the scope of its names. `at` is the heading of the
    block that it stands in, where somebody asks."""

    node: Node
    scope: Scope
    at: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A block, merged or not. `at` is its heading."""

    at: Span
    entries: Mapping[str, Entry] = field(default_factory=dict)
    requirements: tuple[Kept[Require], ...] = ()
    waivers: tuple[Kept[Allow], ...] = ()
    drops: tuple[Kept[Drop], ...] = ()
    mentioned: tuple[str, ...] = ()
    """Names alone, which stand for attributes that somebody forgot to give a value."""
    faulty: bool = False
    """An attribute stands twice: which of the two holds is anybody's guess."""

    def without(self, *keys: str) -> Raw:
        return replace(self, entries={k: e for k, e in self.entries.items() if k not in keys})

    def only(self, keys: Iterable[str]) -> Raw:
        kept = frozenset(keys)
        return Raw(self.at, {k: e for k, e in self.entries.items() if k in kept})


# --- reading a block ---------------------------------------------------------------------------


@dataclass(slots=True)
class _Reading:
    """One block while its statements are read."""

    at: Span
    scope: Scope
    source: str | None
    found: list[Diagnostic]
    entries: dict[str, Entry]
    requirements: list[Kept[Require]]
    waivers: list[Kept[Allow]]
    drops: list[Kept[Drop]]
    mentioned: list[str] = field(default_factory=list)
    faulty: bool = False

    def add(self, entry: Entry) -> None:
        first = self.entries.get(entry.key)
        if first is None:
            self.entries[entry.key] = entry
            return
        place = Label(first.name.span, "written here first")
        self.faulty = True
        self.found.append(WrittenTwice(entry.name.span, shown_key(entry.key)).diagnostic(place))

    def require(self, node: Require) -> None:
        for other in self.requirements if node.label else ():
            if other.node.label and other.node.label.text == node.label.text:  # type: ignore[union-attr]
                place = Label(other.node.label.span, "named here first")
                self.found.append(
                    WrittenTwice(node.label.span, node.label.text).diagnostic(place)  # type: ignore[union-attr]
                )
                return
        self.requirements.append(Kept(node, self.scope, self.at))


def shown_key(key: str) -> str:
    return key.removeprefix(PART + " ")


def read_block(
    block: nodes.Block, scope: Scope, at: Span, found: list[Diagnostic], source: str | None = None
) -> Raw:
    """The statements of one block, without what it inherits. Faults go to `found`."""
    inner = scope_of(block, scope, found)
    reading = _Reading(at, inner, _source_of(block) or source, found, {}, [], [], [])
    for statement in block.statements:
        match statement:
            case Assign():
                reading.add(_assigned(statement, reading))
            case Declare():
                reading.add(_declared(statement, reading))
            case Part(kind=kind, name=name, form=form, body=body):
                own = read_block(body, inner, name.span, found, reading.source)
                span = kind.span.to(name.span)
                key = f"{PART} {name.text}"
                reading.add(
                    Entry(
                        key, name, Body(own), inner, span, None, (), kind.text, form, statement.span
                    )
                )
            case Compare(items=items, span=span):
                word = nodes.Name("compare", span.file.span(span.start, span.start + 7))
                reading.add(Entry("compare", word, Choices(items), inner, span))
            case Require():
                reading.require(statement)
            case Allow():
                reading.waivers.append(Kept(statement, inner))
            case Drop():
                reading.drops.append(Kept(statement, inner))
            case Let():
                pass
            case _:
                if isinstance(statement, nodes.Mention):
                    reading.mentioned.append(statement.name.text)
                found.append(_misplaced(statement))
    return Raw(
        at,
        reading.entries,
        tuple(reading.requirements),
        tuple(reading.waivers),
        tuple(reading.drops),
        tuple(reading.mentioned),
        reading.faulty,
    )


def scope_of(block: nodes.Block, scope: Scope, found: list[Diagnostic]) -> Scope:
    """The scope inside a block: its `let`s beside those around it, in any order."""
    if not any(isinstance(statement, Let) for statement in block.statements):
        return scope
    lets = dict(scope.lets)
    inner = Scope(scope.source, scope.names, lets)
    for statement in block.statements:
        if not isinstance(statement, Let):
            continue
        name = statement.name
        taken: dict[str, Named] = {**scope.names, **lets}
        refusals = tuple(refused(name.text, name.span, taken))
        found += refusals
        if not refusals:
            lets[name.text] = Bound(name.text, statement.value, name.span, inner)
    return inner


def _source_of(block: nodes.Block) -> str | None:
    """`source = "…"`, which speaks for the figures of this block that have no `from`."""
    for statement in block.statements:
        match statement:
            case Assign(
                path=Path(names=(nodes.Name(text="source"),)), value=nodes.Text(value=text)
            ):
                return text
            case _:
                pass
    return None


def path_key(path: Path) -> str:
    """`layers[0..2]`, `layout.tp`: one spelling for each path."""
    if not path.ranges:
        return path.dotted
    runs = (str(r.first) if r.first == r.last else f"{r.first}..{r.last}" for r in path.ranges)
    return f"{path.dotted}[{', '.join(runs)}]"


def _assigned(node: Assign, reading: _Reading) -> Entry:
    key = path_key(node.path)
    name = nodes.Name(key, node.path.span)
    source = node.source.value if node.source else reading.source
    if isinstance(node.value, nodes.Block):
        if key in WHOLE:
            value: Body | Verbatim = Verbatim(node.value)
        else:
            own = read_block(node.value, reading.scope, node.path.span, reading.found, source)
            value = Body(own)
        return Entry(key, name, value, reading.scope, node.path.span, source, statement=node.span)
    span = node.value.span
    return Entry(key, name, node.value, reading.scope, span, source, statement=node.span)


def _declared(node: Declare, reading: _Reading) -> Entry:
    """`a { … }`, `pool decode { … }`, `engine extends R { … }`, `attention n { … }`."""
    sort = node.kind.text if node.name else ""
    name = node.name or node.kind
    span = node.kind.span.to(name.span)
    key = f"{PART if sort in SORTS else sort} {name.text}" if sort else name.text
    value: Body | Verbatim
    if node.kind.text in WHOLE:
        value = Verbatim(node.body)
    else:
        own = read_block(node.body, reading.scope, span, reading.found, reading.source)
        value = Body(own, node.extends or "inherit")
    return Entry(key, name, value, reading.scope, span, None, (), sort, statement=node.span)


def _misplaced(statement: nodes.Statement) -> Diagnostic:
    match statement:
        case nodes.Repeat(kind=kind):
            return Misplaced(statement.span, f"`N x {kind.text}`", "a `stack`").diagnostic()
        case nodes.Mention(name=name):
            hint = f"an attribute is written `{name.text} = …`, a block `{name.text} {{ … }}`"
            return Misplaced(statement.span, "a name alone", "a `layer`", hint).diagnostic()
        case _:
            return Misplaced(statement.span, described(statement), "a file").diagnostic()


# --- inheriting --------------------------------------------------------------------------------


def merged(base: Raw, own: Raw, found: list[Diagnostic]) -> Raw:
    """`own` over `base`: drops first, then attribute by attribute."""
    for drop in own.drops:
        base = _dropped(base, drop.node.path, drop, found)
    entries = dict(base.entries)
    for key, entry in own.entries.items():
        below = entries.get(key)
        entries[key] = entry if below is None else entry.over(below)
    return Raw(
        own.at,
        entries,
        _required(base.requirements, own.requirements),
        (*base.waivers, *own.waivers),
        mentioned=(*base.mentioned, *own.mentioned),
        faulty=base.faulty or own.faulty,
    )


def _required(
    base: tuple[Kept[Require], ...], own: tuple[Kept[Require], ...]
) -> tuple[Kept[Require], ...]:
    """A requirement takes the place of one with its label; all others are added."""
    named = {kept.node.label.text: kept for kept in own if kept.node.label}
    kept = [named.pop(old.node.label.text, old) if old.node.label else old for old in base]
    rest = [k for k in own if not k.node.label or k.node.label.text in named]
    return (*kept, *rest)


def _dropped(base: Raw, path: Path, drop: Kept[Drop], found: list[Diagnostic]) -> Raw:
    names = [name.text for name in path.names]
    key, rest = _key_of(base, names)
    if key is None:
        if len(names) == 1 and (kept := _without_requirement(base, names[0])) is not None:
            return kept
        known = [shown_key(k) for k in base.entries]
        near = like(path.dotted, known)
        found.append(NothingToDrop(path.span, path.dotted, near).diagnostic())
        return base
    if not rest:
        return base.without(key)
    entry = base.entries[key]
    inner = Path(path.names[-len(rest) :], path.ranges, path.span)
    below = Raw(entry.span, drops=(Kept(Drop(inner, drop.node.span), drop.scope),))
    changed = replace(entry, value=Body(below, entry))
    return replace(base, entries={**base.entries, key: changed})


def _key_of(base: Raw, names: list[str]) -> tuple[str | None, list[str]]:
    """The key that a path begins with, and what follows it: `pools.decode` is `pool decode`."""
    if names[0] in base.entries:
        return names[0], names[1:]
    sort = PLURAL_KEYS.get(names[0], names[0])
    if len(names) > 1 and f"{sort} {names[1]}" in base.entries:
        return f"{sort} {names[1]}", names[2:]
    return None, names


def _without_requirement(base: Raw, label: str) -> Raw | None:
    kept = tuple(k for k in base.requirements if not k.node.label or k.node.label.text != label)
    return replace(base, requirements=kept) if len(kept) < len(base.requirements) else None
