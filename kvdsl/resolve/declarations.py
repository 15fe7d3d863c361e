"""Declarations as a whole: each resolved once, with what it inherits, and what was wrong with it.

Comes in: names of a project. Goes out: raw blocks, specs and values of `let`s, cached; it is the
`Context` that the other parts ask. Not its job: what a block of some kind may hold (building and
the modules behind BUILDERS).

Every answer is cached with its diagnostics, so whoever asks again is told again: a fault in a
catalog file reaches each deployment that uses it, and a report tells it once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from kvdsl.diagnostics import Diagnostic, Label, Message
from kvdsl.project.catalog import Catalog
from kvdsl.project.configs import ConfigRead
from kvdsl.project.files import Loaded
from kvdsl.resolve.blocks import Raw, merged, read_block
from kvdsl.resolve.building import abstract, build_block, finished, gathered
from kvdsl.resolve.configs import over_config
from kvdsl.resolve.context import DECLARATION, EXTENDS, LET, Context
from kvdsl.resolve.deployments import build_deployment, build_fleet, build_policy
from kvdsl.resolve.expressions import evaluate
from kvdsl.resolve.hardware import fabric_whole, shapes_whole
from kvdsl.resolve.libraries import build_engine, build_library
from kvdsl.resolve.models import build_model
from kvdsl.resolve.names import Bound, Declared, FileNames, Scope, names_of
from kvdsl.resolve.naming_messages import (
    AbstractUsed,
    BadExtends,
    CircularExtends,
    CircularValue,
    MissingAttribute,
    TooDeep,
    either,
)
from kvdsl.resolve.recipes import build_format, build_recipe
from kvdsl.resolve.replay import as_it_was
from kvdsl.resolve.schema import KINDS, left_behind
from kvdsl.resolve.suggestions import children
from kvdsl.resolve.values import Reference, Value, described
from kvdsl.resolve.workloads import build_workload
from kvdsl.source import Span
from kvdsl.spec.declaration import Declaration
from kvdsl.spec.hardware import Cluster, Node, Rack
from kvdsl.syntax.nodes import Expr, Path

MOST_FRAMES = 560
"""Python frames that nested work may take; the interpreter's own limit is 1,000, and others stand
on the stack already."""

MOST_ANCESTORS = 64
"""A longer line of children is no plan that a reviewer follows; merging it takes its square."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A result, and what was told on the way to it."""

    result: T | None
    found: tuple[Diagnostic, ...]


def _plain(kind: str) -> Builder:
    def build(context: Context, raw: Raw, owner: str) -> Declaration | None:
        return build_block(context, KINDS[kind], raw, owner)

    return build


def _build_node(context: Context, raw: Raw, owner: str) -> Node | None:
    built = build_block(context, Node, raw, owner)
    return built if built is None or context.lenient or shapes_whole(context, built) else None


def _build_rack(context: Context, raw: Raw, owner: str) -> Rack | None:
    built = build_block(context, Rack, raw, owner)
    return built if built is None or context.lenient or shapes_whole(context, built) else None


def _build_cluster(context: Context, raw: Raw, owner: str) -> Cluster | None:
    built = finished(Cluster, gathered(context, Cluster, raw, owner))
    if built is None or context.lenient:
        return built
    if built.nodes or built.racks or built.clusters:
        return built if fabric_whole(context, built) else None
    example = "`nodes = 2 x nodes.hgx_h100`"
    context.tell(MissingAttribute(raw.at, owner, "`nodes`, `racks` or `clusters`", example))
    return None


Builder = Callable[[Context, Raw, str], Declaration | None]

BUILDERS: Mapping[str, Builder] = MappingProxyType(
    {
        **{kind: _plain(kind) for kind in KINDS},
        "model": build_model,
        "library": build_library,
        "engine": build_engine,
        "format": build_format,
        "recipe": build_recipe,
        "workload": build_workload,
        "node": _build_node,
        "rack": _build_rack,
        "cluster": _build_cluster,
        "deployment": build_deployment,
        "fleet": build_fleet,
        "policy": build_policy,
    }
)


@dataclass(slots=True)
class Sound:
    """What is known of the catalog's entries, whoever asks: they use no names but the catalog's.
    Only answers without faults are here. One may have come of how deep the asker stood."""

    files: dict[tuple[Loaded, str], FileNames] = field(default_factory=dict)
    raws: dict[Declared, Raw] = field(default_factory=dict)
    specs: dict[Declared, Declaration] = field(default_factory=dict)


def _sound(catalog: Catalog) -> Sound:
    found = catalog.kept.setdefault(Sound, Sound())
    assert isinstance(found, Sound)
    return found


@dataclass(slots=True)
class Declarations:
    """All that a project declares, resolved when asked. Of the catalog it asks what other projects
    with the same one have found."""

    catalog: Catalog
    found: list[Diagnostic] = field(default_factory=list)
    lenient: bool = False
    wanted: tuple[str, ...] = ()
    _frames: int = 0
    _files: dict[tuple[Loaded, str], FileNames] = field(default_factory=dict)
    _raws: dict[Declared, Answer[Raw]] = field(default_factory=dict)
    _specs: dict[Declared, Answer[Declaration]] = field(default_factory=dict)
    _values: dict[Bound, Answer[Value]] = field(default_factory=dict)
    _ancestors: dict[Declared, int] = field(default_factory=dict)
    _parents: dict[Declared, Declared] = field(default_factory=dict)
    _open: list[Hashable] = field(default_factory=list)
    _scopes: dict[Span, Scope] = field(default_factory=dict)

    # --- telling -------------------------------------------------------------------------------

    def tell(self, message: Message, *labels: Label) -> None:
        self.found.append(message.diagnostic(*labels))

    def deeper(self, cost: int, span: Span) -> bool:
        if self._frames + cost > MOST_FRAMES:
            self.tell(TooDeep(span))
            return False
        self._frames += cost
        return True

    def shallower(self, cost: int) -> None:
        self._frames -= cost

    def collected(self, work: Callable[[], T | None]) -> Answer[T]:
        """Work done with a list of its own for what it tells."""
        outer, self.found = self.found, []
        try:
            result = work()
            return Answer(result, tuple(dict.fromkeys(self.found)))
        finally:
            self.found = outer

    def _told(self, answer: Answer[T]) -> T | None:
        self.found += answer.found
        return answer.result

    # --- names and values ----------------------------------------------------------------------

    def names(self, file: Loaded, plural: str = "") -> FileNames:
        key = (file, plural)
        if key not in self._files:
            known = _sound(self.catalog).files if plural else self._files
            if key not in known:
                known[key] = names_of(file, plural)
            self._files[key] = known[key]
        return self._files[key]

    @property
    def files(self) -> tuple[FileNames, ...]:
        """Names of every file that was asked so far."""
        return tuple(self._files.values())

    def config(self, at: Span) -> ConfigRead | None:
        return next((f.configs[at] for f, _ in self._files if at in f.configs), None)

    def evaluate(self, expr: Expr, scope: Scope) -> Value | None:
        return evaluate(self, expr, scope)

    def remember(self, expr: Expr, scope: Scope) -> None:
        self._scopes[expr.span] = scope

    def remembered(self, expr: Expr) -> Scope | None:
        return self._scopes.get(expr.span)

    def bound(self, let: Bound, at: Span) -> Value | None:
        if let not in self._values:
            if self._circular(let, at) or not self.deeper(LET, at):
                return None
            self._open.append(let)
            self._values[let] = self.collected(lambda: evaluate(self, let.value, let.scope))
            self._open.pop()
            self.shallower(LET)
        return self._told(self._values[let])

    def _circular(self, wanted: Bound | Declared, at: Span) -> bool:
        if wanted not in self._open:
            return False
        circle = [*self._open[self._open.index(wanted) :], wanted]
        titles = [_title(item) for item in circle]
        self.tell(CircularValue(at, _title(wanted), " → ".join(titles)))
        return True

    # --- declarations --------------------------------------------------------------------------

    def raw(self, declared: Declared, at: Span) -> Raw | None:
        known = _sound(self.catalog).raws
        if declared in known:
            return known[declared]
        if declared not in self._raws:
            if declared.node is None:
                return None
            key = ("extends", declared)
            if key in self._open:
                self._told_circle(declared, at)
                return None
            if not self.deeper(EXTENDS, at):
                return None
            self._open.append(key)
            answer = self.collected(lambda: self._inherited(declared))
            self._open.pop()
            self.shallower(EXTENDS)
            self._raws[declared] = answer
            if declared.catalog and answer.result is not None and not answer.found:
                known[declared] = answer.result
        return self._told(self._raws[declared])

    def _told_circle(self, declared: Declared, at: Span) -> None:
        start = self._open.index(("extends", declared))
        chain = [_title(item) for item in self._open[start:]] + [declared.title]
        self.tell(CircularExtends(at, declared.title, " → ".join(chain)))

    def _inherited(self, declared: Declared) -> Raw | None:
        node = declared.node
        assert node is not None
        own = read_block(node.body, declared.scope, heading(declared), self.found)
        base: Raw | None = Raw(own.at)
        if node.extends is not None:
            base = self._parent(declared, node.extends)
        if base is None:
            return None
        base = base.without("abstract", *left_behind(declared.kind, own.entries))
        if declared.kind == "model":
            base = over_config(self, base, own, declared.scope)
        raw = merged(base, own, self.found)
        were = self.catalog.figures.get(declared.catalog)
        return as_it_was(declared, raw, were) if were else raw

    def _parent(self, declared: Declared, path: Path) -> Raw | None:
        value = self.evaluate(path, declared.scope)
        if value is None:
            return None
        if isinstance(value, Reference) and value.declared is not None:
            if value.kind == declared.kind:
                self._parents[declared] = value.declared
                parent = self.raw(value.declared, path.span)
                self._ancestors[declared] = self._ancestors.get(value.declared, 0) + 1
                if self._ancestors[declared] > MOST_ANCESTORS and parent is not None:
                    self.tell(TooDeep(path.span))
                    return None
                return parent
            if not value.kind:
                return None
        reason = f"it is a {value.kind}" if isinstance(value, Reference) else described(value)
        child = f"the {declared.kind} `{declared.name}`"
        self.tell(BadExtends(path.span, child, path.dotted, reason, "start from one of its kind"))
        return None

    def spec(self, reference: Reference, at: Span) -> Declaration | None:
        if reference.spec is not None:
            return reference.spec
        declared = reference.declared
        if declared is None or declared.node is None:
            return None
        raw = self.raw(declared, at)
        if raw is None:
            return None
        if abstract(raw):
            near = either(children(self, declared)[-3:]) or None
            self.tell(AbstractUsed(at, declared.title, declared.kind, near))
            return None
        return self.resolved(declared, at)

    def resolved(self, declared: Declared, at: Span) -> Declaration | None:
        """The spec of a declaration, abstract or not."""
        known = _sound(self.catalog).specs
        if declared in known:
            return known[declared]
        if declared not in self._specs:
            if self._circular(declared, at) or not self.deeper(DECLARATION, at):
                return None
            self._open.append(declared)
            answer = self.collected(lambda: self._resolved(declared, at))
            self._open.pop()
            self.shallower(DECLARATION)
            self._specs[declared] = answer  # known already to a parent in a circle
            found = self.of_parent(declared, answer.found)
            self._specs[declared] = Answer(answer.result, found)
            if declared.catalog and answer.result is not None and not found:
                known[declared] = answer.result
        return self._told(self._specs[declared])

    def of_parent(
        self, declared: Declared, found: tuple[Diagnostic, ...]
    ) -> tuple[Diagnostic, ...]:
        """The same faults; those that the declaration it starts from has too in that one's words,
        so that a report tells them once."""
        parent = self._parents.get(declared)
        if parent is None or not found:
            return found
        theirs = self.collected(lambda: self.resolved(parent, parent.span)).found

        def same(own: Diagnostic, other: Diagnostic) -> bool:
            if own.code != other.code or own.span == other.span:
                return own.code == other.code
            words = own.headline.replace(_owner(declared), _owner(parent), 1)
            places = (own.span, other.span) == (heading(declared), heading(parent))
            return places and words == other.headline

        def first(own: Diagnostic) -> Diagnostic:
            return next((other for other in theirs if same(own, other)), own)

        return tuple(dict.fromkeys(map(first, found)))

    def _resolved(self, declared: Declared, at: Span) -> Declaration | None:
        raw = self.raw(declared, at)
        if raw is None:
            return None
        return self.titled(declared, raw)

    def titled(self, declared: Declared, raw: Raw) -> Declaration | None:
        """The spec of a raw block under the name of a declaration."""
        before, self.lenient = self.lenient, abstract(raw)
        try:
            spec = self.build(declared.kind, raw, _owner(declared))
        finally:
            self.lenient = before
        if spec is None or declared.node is None:
            return None
        title = {"name": declared.name, "doc": declared.node.doc, "catalog": declared.catalog}
        return spec.model_copy(update=title)

    def build(self, kind: str, raw: Raw, owner: str) -> Declaration | None:
        return BUILDERS[kind](self, raw, owner)


def _owner(declared: Declared) -> str:
    """As messages call it."""
    return f"the {declared.kind} `{declared.name}`"


def heading(declared: Declared) -> Span:
    """`deployment prod`: where a fault of the whole is told."""
    assert declared.node is not None
    return declared.node.kind.span.to(declared.span)


def _title(item: Hashable) -> str:
    match item:
        case Declared():
            return item.title
        case Bound():
            return item.name
        case (_, Declared() as declared):
            return declared.title
        case _:
            return str(item)
