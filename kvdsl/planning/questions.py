"""One question to a project: a value by its dotted name, or all values of what it names.

Comes in: a project, `llama_405b.kv.tokens` and changes from outside. Goes out: an `Answer`, and
where there is none, the whole name that was likely meant, which has been asked itself. Not its job:
words for a reader (cli).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kvdsl.diagnostics import Report
from kvdsl.formulas import Term
from kvdsl.planning.deploy import outcome
from kvdsl.planning.fleets import changed
from kvdsl.resolve.changes import Change
from kvdsl.resolve.foreign_names import answered_name
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.model import Model
from kvdsl.spec.vocabulary import asked
from kvdsl.spelling import nearest

ANSWERING = ("deployment", "fleet", "model")
"""Kinds of declarations that have values."""

MOST_TRIED = 3
"""Declarations that are asked whether they have what was meant."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question found: one term, or all values of a deployment, fleet or model. Where it
    found neither, `head` is the declaration that the name begins with, `known` what that answers,
    or, without one, what the file declares; `meant` is a name that is answered."""

    report: Report
    value: Term | None = None
    values: Mapping[str, Term] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    absent: str = ""
    """Why the value that was asked is missing, where that is known."""
    head: str = ""
    meant: str = ""


class Questions:
    """What a project answers, each declaration planned once. `length` is that of a request, in
    tokens, for a model that is asked alone."""

    def __init__(
        self, resolver: Resolver, changes: Sequence[Change] = (), length: int | None = None
    ) -> None:
        self.resolver = resolver
        self._changes = changes
        self._length = length
        self._known: dict[str, tuple[Answer, Mapping[str, str]]] = {}

    def answer(self, dotted: str) -> Answer:
        head = self.head_of(dotted)
        if not head:
            report = Report.of(self.resolver.check())
            return Answer(report, known=self.declared, meant=_meant_anywhere(self, dotted))
        whole = self.of(head)
        rest = dotted.removeprefix(head).lstrip(".")
        if not rest:
            return whole
        if value := whole.values.get(rest):
            return Answer(whole.report, value)
        known = tuple(whole.values)
        meant = _meant_in(rest, known)
        name = f"{head}.{meant}" if meant else ""
        return Answer(whole.report, None, {}, known, self.absent(head).get(rest, ""), head, name)

    @property
    def declared(self) -> tuple[str, ...]:
        return tuple(name for kind in ANSWERING for name in self.resolver.declared(kind))

    def head_of(self, dotted: str) -> str:
        """The longest head of a dotted name that is a declaration."""
        names = dotted.split(".")
        heads = (".".join(names[:count]) for count in range(len(names), 0, -1))
        return next((head for head in heads if self.resolver.kind_of(head) is not None), "")

    def of(self, head: str) -> Answer:
        """All values of a declaration."""
        return self._asked(head)[0]

    def absent(self, head: str) -> Mapping[str, str]:
        """Why values are missing, by their names."""
        return self._asked(head)[1]

    def _asked(self, head: str) -> tuple[Answer, Mapping[str, str]]:
        if head not in self._known:
            self._known[head] = self._made(head)
        return self._known[head]

    def _made(self, head: str) -> tuple[Answer, Mapping[str, str]]:
        faults, kind = Report.of(self.resolver.check()), self.resolver.kind_of(head)
        if kind == "deployment":
            deployment, wrong = self.resolver.deployment(head, self._changes)
            if deployment is None:
                return Answer(faults + Report.of(wrong)), {}
            made = outcome(deployment)
            report = faults + Report.of((*wrong, *made.diagnostics))
            return Answer(report, values=made.values), made.absent
        if kind == "fleet":
            of_all = changed(self.resolver, head, self._changes)
            report = faults + Report.of(of_all.faults)
            if of_all.outcome is None:
                return Answer(report), {}
            return Answer(report, values=of_all.outcome.values), of_all.outcome.absent
        declaration, wrong = self.resolver.declaration(head)
        report = faults + Report.of(wrong)
        match declaration:
            case Model():
                from kvdsl.planning.models import model_values

                return Answer(report, values=model_values(declaration, self._length)), {}
            case _:
                return Answer(report), {}


# --- what was meant ----------------------------------------------------------------------------


def _meant_in(name: str, known: Sequence[str]) -> str:
    """The one of the known values that was likely meant; empty where none is near, and where the
    name is one that is not answered here."""
    behind = [each for each in known if each.endswith(f".{name}")]
    if behind:
        return min(behind, key=len)
    own, _ = answered_name(name)
    if own in known:
        return own
    if asked(name) is not None and _placed(name, known):
        return ""
    return next(iter(nearest(name, known, most=1)), "")


def _placed(name: str, known: Sequence[str]) -> bool:
    """Whether the pool or tier that a name goes through is there."""
    first, _, rest = name.partition(".")
    through = f"{first}.{rest.partition('.')[0]}."
    return first not in ("pools", "tier") or any(each.startswith(through) for each in known)


def _meant_anywhere(questions: Questions, dotted: str) -> str:
    """A value without its declaration before it, or one of a declaration that is misspelt."""
    return next(_tried(questions, dotted), "")


def _tried(questions: Questions, dotted: str) -> Iterator[str]:
    heads, names = questions.declared, dotted.split(".")
    own, _ = answered_name(dotted)
    for head in heads[:MOST_TRIED]:
        values = questions.of(head).values
        yield from (f"{head}.{name}" for name in (dotted, own) if name in values)
    near: dict[str, str] = {}
    for count in range(1, len(names) + 1):
        word = ".".join(names[:count])
        for head in nearest(word, (*heads, *_models(questions)), most=1):
            near.setdefault(head, ".".join(names[count:]))
    best = nearest(dotted, (f"{h}.{r}" if r else h for h, r in near.items()), most=MOST_TRIED)
    for whole in best:
        head = questions.head_of(whole)
        rest, values = whole.removeprefix(head).lstrip("."), questions.of(head).values
        if not rest or rest in values:
            yield from (whole,) if values else ()
        elif meant := _meant_in(rest, tuple(values)):
            yield f"{head}.{meant}"
        elif values:
            yield head
    for head in heads[:MOST_TRIED]:
        if meant := _meant_in(dotted, tuple(questions.of(head).values)):
            yield f"{head}.{meant}"


def _models(questions: Questions) -> tuple[str, ...]:
    return questions.resolver.catalog_names("models")
