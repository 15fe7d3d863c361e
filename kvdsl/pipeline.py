"""The street: text, tree, typed spec, placement, costs, checks, plan. Stages in order, no logic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvdsl.diagnostics import Diagnostic, Report, Severity
from kvdsl.plan import Input, SweepTable
from kvdsl.planning.deploy import NO_RULES, Outcome, Rulebook, outcome
from kvdsl.planning.fleets import changed, fleet_outcome, members_of
from kvdsl.planning.neighbours import in_fleets_with
from kvdsl.planning.questions import Answer, Questions
from kvdsl.planning.subjects import layout_faults
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import Project, load, load_text
from kvdsl.project.shelves import DISK, Shelf
from kvdsl.recall import Recall
from kvdsl.requirements import Judged
from kvdsl.resolve.changes import Change
from kvdsl.resolve.resolver import Resolver
from kvdsl.source import SourceFile, Span
from kvdsl.spec.deployment import Fleet, Policy
from kvdsl.spec.layout import Layout

if TYPE_CHECKING:
    from kvdsl.plan import Plan
    from kvdsl.plan.fleets import FleetPlan
    from kvdsl.planning.bulk import Prepared, Served
    from kvdsl.planning.lever_studies import Asked, Levers
    from kvdsl.planning.quotes import Quoter


@dataclass(frozen=True, slots=True)
class Compilation:
    """Every diagnostic of a run, and the plans of deployments and fleets that were asked for."""

    report: Report
    plans: tuple[Plan, ...] = ()
    fleets: tuple[FleetPlan, ...] = ()

    def plan(self, name: str) -> Plan:
        """The plan of a deployment. Raises KeyError."""
        for plan in self.plans:
            if plan.name == name:
                return plan
        raise KeyError(name)


def compile_path(path: str, changes: Sequence[Change] = (), only: str | None = None) -> Compilation:
    """Compiles a file (`-` is the standard input). `only` names one deployment or fleet;
    `changes` are overrides from outside."""
    return compiled(load(path), changes, only)


def compile_text(
    text: str, name: str = "<text>", changes: Sequence[Change] = (), only: str | None = None
) -> Compilation:
    return compiled(load_text(text, name), changes, only)


def compiled(
    project: Project, changes: Sequence[Change] = (), only: str | None = None
) -> Compilation:
    """Compiles what was loaded: for a caller that keeps files between runs."""
    # A check makes no plan: what only plans need is imported here.
    from kvdsl.planning.build import build
    from kvdsl.planning.fleet_plans import fleet_plan
    from kvdsl.planning.sweeps import sweeps

    resolver = Resolver(project)
    found = declared_faults(resolver)
    book = book_of(resolver)
    plans = []
    known: dict[Span | None, Outcome] = {}
    declared = fleets(resolver)
    for name in resolver.concrete("deployment"):
        if only is not None and name != only:
            continue
        own = changes if only is not None else resolver.heard(changes, name)
        deployment, faults = resolver.deployment(name, own)
        found.extend(faults)
        if deployment is None:
            continue
        made = known[deployment.at] = outcome(deployment, book=book)
        found.extend(made.diagnostics)
        tables = sweeps(resolver, deployment, own)
        written = _written(resolver, name) if own else None
        doc = project.main.module.doc
        beside = in_fleets_with(deployment, declared)
        plans.append(build(made, sources(project), tables, doc, written, beside))
    summed = []
    for fleet in declared:
        if only is not None and fleet.name != only:
            continue
        names = [deployment.name for deployment in fleet.deployments]
        own = changes if only is not None else resolver.heard(changes, *names)
        made_of = changed(resolver, fleet.name, own, known)
        found.extend(made_of.faults)
        if made_of.outcome is None:
            continue
        known |= {each.deployment.at: each for each in made_of.parts}
        found.extend(told.diagnostic for told in made_of.outcome.told)
        summed.append(fleet_plan(made_of.outcome, made_of.parts, sources(project)))
    read = _inputs(project)  # after all plans: each may have read more of the catalog
    planned = tuple(replace(plan, inputs=read) for plan in plans)
    every = tuple(replace(fleet, inputs=read) for fleet in summed)
    return Compilation(Report.of(found), planned, every)


def declared_faults(resolver: Resolver) -> list[Diagnostic]:
    """What is wrong with the file's declarations, each by itself."""
    found = list(resolver.check())
    for name in resolver.concrete("layout"):
        layout, _ = resolver.declaration(name)
        if isinstance(layout, Layout):
            found.extend(layout_faults(layout))
    return found


def _written(resolver: Resolver, name: str) -> Layout | None:
    """The layout of a deployment as it is written, without changes from outside."""
    deployment, _ = resolver.deployment(name)
    if deployment is None or len(deployment.pools) != 1:
        return None
    return next(iter(deployment.pools.values())).layout


def sources(project: Project) -> tuple[SourceFile, ...]:
    """The main file, then what it imports."""
    rest = (file for file in project.files if file is not project.main)
    return tuple(file.source for file in (project.main, *rest))


def _files(project: Project) -> tuple[SourceFile, ...]:
    """Everything of the project that was read, the configs that models name too."""
    configs = (read.source for file in project.files for read in file.configs.values())
    every = (*sources(project), *(source for source in configs if source is not None))
    return tuple({source.name: source for source in every}.values())


def _inputs(project: Project) -> tuple[Input, ...]:
    """Every text that was read, the catalog's behind the spec's, as it can be told again."""
    catalog = sorted((file.source for file in project.catalog.loaded), key=lambda s: s.name)
    return tuple(
        _INPUTS.get((source,), (), lambda source=source: _input(source))  # type: ignore[misc]
        for source in (*_files(project), *catalog)
    )


_INPUTS: Recall[Input] = Recall(4096)
"""Of many specs each has the same entries of the catalog."""


def _input(source: SourceFile) -> Input:
    from hashlib import sha256

    return Input(source.name, sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest())


def swept(
    path: str, name: str | None = None, changes: Sequence[Change] = ()
) -> tuple[Report, tuple[tuple[str, SweepTable], ...]]:
    """The sweeps of one deployment, or of all, by the deployment's name."""
    from kvdsl.planning.sweeps import sweeps

    resolver = Resolver(load(path))
    found = declared_faults(resolver)
    tables = []
    for each in resolver.concrete("deployment"):
        if name is not None and each != name:
            continue
        own = changes if name is not None else resolver.heard(changes, each)
        deployment, faults = resolver.deployment(each, own)
        found.extend(faults)
        if deployment is not None:
            tables += [(each, table) for table in sweeps(resolver, deployment, own, None)]
    return Report.of(found), tuple(tables)


@dataclass(frozen=True, slots=True)
class Bulk:
    """A deployment prepared for many loads: `serve` takes arrays. `errors` stand against it, and
    `refusal` says in one line why there are no times."""

    name: str
    errors: tuple[Diagnostic, ...] = ()
    pools: tuple[Prepared, ...] = ()
    refusal: str = ""

    def serve(
        self,
        prompt: Sequence[int],
        output: Sequence[int],
        concurrency: Sequence[int] | None = None,
        *,
        rate: Sequence[float] | None = None,
    ) -> Served:
        """Times of each load, in the order given: tokens of prompt and output, and requests in
        flight or requests a second. Without pools there are none. ValueError where both or neither
        of the last two are given, where lengths differ, and where a number is not above 0, not
        finite or, of tokens and requests, not whole."""
        from kvdsl.planning.bulk import Loads, Served, served

        loads = Loads.of(prompt, output, concurrency, rate)
        if not self.pools:
            return Served({}, None, self.errors, self.refusal)
        return served(self.pools, loads)


def bulk_text(text: str, name: str = "<text>") -> tuple[Bulk, ...]:
    """The deployments of a text, prepared one by one: a fault of one does not stop the others."""
    from kvdsl.planning.bulk import prepared

    resolver = Resolver(load_text(text, name))
    found = []
    for each in resolver.concrete("deployment"):
        deployment, faults = resolver.deployment(each)
        wrong = tuple(d for d in faults if d.severity is Severity.ERROR)
        if deployment is None or wrong:
            said = wrong[0].headline if wrong else "the deployment has errors"
            found.append(Bulk(each, wrong, refusal=said))
            continue
        pools, errors, refusal = prepared(deployment)
        found.append(Bulk(each, errors, pools, refusal))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found, how many requirements it judged and how many hold, and the files that
    it read, the catalog's apart; `inputs` are all of them."""

    report: Report
    asked: int = 0
    held: int = 0
    read: tuple[SourceFile, ...] = ()
    inputs: tuple[Input, ...] = ()


def check_path(path: str, catalog: Catalog | None = None, book: Rulebook = NO_RULES) -> Checked:
    """What `check` tells: no comparison, charts or pictures are made. One catalog for several files
    reads its own files once."""
    return checked(load(path, catalog), book)


def check_text(text: str, name: str = "<text>", book: Rulebook = NO_RULES) -> Checked:
    return checked(load_text(text, name), book)


def policies_of(
    path: str, catalog: Catalog | None = None, shelf: Shelf = DISK
) -> tuple[tuple[Policy, ...], Report]:
    """The policies that a file declares, and what is wrong with it."""
    resolver = Resolver(load(path, catalog, shelf))
    return _policies(resolver), Report.of(resolver.check())


def _policies(resolver: Resolver) -> tuple[Policy, ...]:
    found = (resolver.declaration(name)[0] for name in resolver.concrete("policy"))
    return tuple(policy for policy in found if isinstance(policy, Policy))


def book_of(resolver: Resolver, book: Rulebook = NO_RULES) -> Rulebook:
    """With the policies of the file itself: a policy holds for all that is checked with it."""
    return replace(book, policies=(*book.policies, *_policies(resolver)))


def fleets(resolver: Resolver) -> list[Fleet]:
    """Those that a file declares."""
    found = (resolver.declaration(name)[0] for name in resolver.concrete("fleet"))
    return [fleet for fleet in found if isinstance(fleet, Fleet)]


def checked(project: Project, book: Rulebook = NO_RULES) -> Checked:
    """Checks what was loaded: for a caller that keeps files between runs."""
    resolver = Resolver(project)
    found = declared_faults(resolver)
    book = book_of(resolver, book)
    judged: list[Judged] = []
    known: dict[Span | None, Outcome] = {}
    for name in resolver.concrete("deployment"):
        deployment, _ = resolver.deployment(name)
        if deployment is None:
            continue
        made = known[deployment.at] = outcome(deployment, book=book)
        found.extend(made.diagnostics)
        judged.extend(made.judged)
    for fleet in fleets(resolver):
        # A deployment of another file is judged with that file.
        of_all = fleet_outcome(fleet, members_of(fleet, known))
        found.extend(told.diagnostic for told in of_all.told)
        judged.extend(of_all.judged)
    required = [one.result for one in judged if one.requirement.keyword == "require"]
    asked = sum(result.status != "skipped" for result in required)
    held = sum(result.status == "holds" for result in required)
    return Checked(Report.of(found), asked, held, _files(project), _inputs(project))


def levers(path: str, asked: Asked, changes: Sequence[Change] = ()) -> Levers:
    """What may be done where a cache is too small or too dear, by deployment."""
    from kvdsl.planning.lever_studies import levers_of

    return levers_of(load(path), asked, changes)


def levers_text(text: str, asked: Asked, name: str = "<text>") -> Levers:
    from kvdsl.planning.lever_studies import levers_of

    return levers_of(load_text(text, name), asked)


def ask(
    path: str, dotted: str, changes: Sequence[Change] = (), length: int | None = None
) -> Answer:
    """The value of a dotted name: `llama_405b.kv.tokens`, `models.deepseek_v3.parameters`, or all
    values of `llama_405b`."""
    return Questions(Resolver(load(path)), changes, length).answer(dotted)


def ask_text(text: str, dotted: str, length: int | None = None) -> Answer:
    return Questions(Resolver(load_text(text, "<text>")), (), length).answer(dotted)


def quoter(text: str = "kvspec 1\n", name: str = "<text>") -> Quoter:
    """Answers for collectives on hardware of the catalog, or of a text."""
    from kvdsl.planning.quotes import Quoter

    return Quoter(Resolver(load_text(text, name)))


def quoter_of(path: str) -> tuple[Quoter, Report]:
    """Answers for collectives on hardware that a file declares or imports, and what is wrong with
    the file."""
    from kvdsl.planning.quotes import Quoter

    resolver = Resolver(load(path))
    return Quoter(resolver), Report.of(resolver.check())


@dataclass(frozen=True, slots=True)
class Drawn:
    """Placement graphs of a project as text, by deployment and pool; `known` are deployments."""

    report: Report
    texts: tuple[tuple[str, str], ...] = ()
    known: tuple[str, ...] = ()


def graph(
    project: Project,
    name: str | None = None,
    form: str = "dot",
    changes: Sequence[Change] = (),
    *,
    expanded: bool = False,
) -> Drawn:
    """The placement graph of one deployment, or of all. Raises GraphTooLarge (expanded)."""
    from kvdsl.placement.graph import graph as placement_graph
    from kvdsl.placement.graph_forms import FORMS

    resolver = Resolver(project)
    found = declared_faults(resolver)
    texts = []
    for each in resolver.concrete("deployment"):
        if name is not None and each != name:
            continue
        own = changes if name is not None else resolver.heard(changes, each)
        deployment, faults = resolver.deployment(each, own)
        found.extend(faults)
        if deployment is None:
            continue
        made = outcome(deployment)
        found.extend(made.diagnostics)
        for pool, estimate in made.estimates.items():
            title = f"{each}.{pool}" if pool else each
            drawn = placement_graph(estimate.placement, expanded=expanded)
            texts.append((title, FORMS[form](drawn)))
    return Drawn(Report.of(found), tuple(texts), resolver.concrete("deployment"))


def placement_sheet(
    project: Project, name: str | None = None, changes: Sequence[Change] = ()
) -> Drawn:
    """The same as a drawing, all placements below each other: one text, or none."""
    from kvdsl.render.svg.sheet import sheet

    made = compiled(project, changes, name)
    pictures = [
        (f"{plan.name}.{picture.pool}" if picture.pool else plan.name, picture)
        for plan in made.plans
        for picture in plan.pictures
    ]
    texts = (("", sheet(pictures)),) if pictures else ()
    return Drawn(made.report, texts, Resolver(project).concrete("deployment"))
