"""Builds the Plan of a deployment from its outcome: everything that a renderer shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvdsl.checks.findings import FLIPS, advice
from kvdsl.comparison import LABELS, Candidate, compare
from kvdsl.costs.estimate import Estimate
from kvdsl.placement.topology import made_of, topology
from kvdsl.plan import (
    Alternative,
    Change,
    Chart,
    Comparison,
    Finding,
    Picture,
    Plan,
    SweepTable,
)
from kvdsl.planning import charts, flows, headlines, pictures, views
from kvdsl.planning.answers import MORE, answers
from kvdsl.planning.deploy import Outcome, outcome
from kvdsl.planning.facts import deployment_facts
from kvdsl.planning.neighbours import taken
from kvdsl.planning.subjects import ideal, recipe_title, subject
from kvdsl.planning.sweep_charts import sweep_charts
from kvdsl.planning.told import Told
from kvdsl.requirements import JUDGED
from kvdsl.source import SourceFile, Span
from kvdsl.spec.deployment import Deployment, Pool
from kvdsl.spec.engine import Engine
from kvdsl.spec.hardware import Device, Node, Selection
from kvdsl.spec.layout import Layout
from kvdsl.spec.vocabulary import VOCABULARY
from kvdsl.units import counted, grouped


def build(
    found: Outcome,
    sources: Sequence[SourceFile],
    sweeps: Sequence[SweepTable] = (),
    doc: str = "",
    written: Layout | None = None,
    beside: Sequence[Deployment] = (),
) -> Plan:
    """The plan of an outcome. `sources` are the spec's files, the deployment's own first; `doc`
    documents the file, for a deployment that has no words of its own; `written` is the spec's
    layout where another was asked for from outside; `beside` are the other deployments of its
    fleets."""
    deployment = found.deployment
    pool = next(iter(deployment.pools.values()))
    judged = tuple(one.result for one in found.judged)
    findings = tuple(finding(t) for t in found.told)
    others = _others(deployment, written) if found.values else []
    comparison = _comparison(found, others)
    made, _ = subject(deployment, pool)
    layout = made.degrees.text() if made is not None else ""
    place = deployment.at or Span(sources[0], 0, 0)
    plan = Plan(
        name=deployment.name,
        doc=deployment.doc or doc,
        file=place.file.name,
        model=_title(pool.model.title if pool.model else ""),
        layout=_layouts(deployment, layout),
        layout_name=_layout_name(deployment),
        hardware=hardware(deployment),
        workload=_workload(pool),
        formats=_formats(pool),
        engine=_engines(deployment),
        verdict=headlines.verdict(found.values, judged, findings, comparison, _decoding(found)),
        tiles=headlines.tiles(found.values),
        values=found.values,
        requirements=judged,
        findings=findings,
        pictures=_pictures(found, beside),
        memory=tuple(bar for n, e in found.estimates.items() for bar in views.memory_bars(n, e)),
        cache=tuple(row for n, e in found.estimates.items() for row in views.cache_rows(n, e)),
        charts=(*_charts(found, others), *flows.fetch_charts(found.service), *sweep_charts(sweeps)),
        collectives=tuple(
            row for n, e in found.estimates.items() for row in views.collective_rows(n, e)
        ),
        steps=tuple(bar for n, e in found.estimates.items() for bar in views.step_bars(n, e)),
        comparison=comparison,
        sweeps=tuple(sweeps),
        assumptions=headlines.assumptions(found.values, ideal=ideal(deployment)),
        sources=headlines.sources(found.values),
        texts=tuple((source.name, source.text) for source in sources),
        span=place,
        unplanned="" if found.values else found.why,
        facts=deployment_facts(deployment),
        agreed=found.agreed,
        flow=flows.flow(found.service, _selections(deployment)) if found.service else None,
    )
    return replace(plan, answers=answers(plan))


def sketch(found: Outcome, sources: Sequence[SourceFile]) -> Plan:
    """The plan without what only a report shows: no comparison, charts, pictures or bars."""
    deployment = found.deployment
    pool = next(iter(deployment.pools.values()))
    judged = tuple(one.result for one in found.judged)
    findings = tuple(finding(t) for t in found.told)
    made, _ = subject(deployment, pool)
    layout = made.degrees.text() if made is not None else ""
    place = deployment.at or Span(sources[0], 0, 0)
    return Plan(
        name=deployment.name,
        doc=deployment.doc,
        file=sources[0].name,
        model=_title(pool.model.title if pool.model else ""),
        layout=_layouts(deployment, layout),
        layout_name=_layout_name(deployment) or layout,
        hardware=hardware(deployment),
        workload=_workload(pool),
        formats=_formats(pool),
        engine=_engines(deployment),
        verdict=headlines.verdict(found.values, judged, findings, None, _decoding(found)),
        tiles=(),
        values=found.values,
        requirements=judged,
        findings=findings,
        pictures=(),
        memory=(),
        cache=(),
        charts=(),
        collectives=(),
        steps=(),
        comparison=None,
        sweeps=(),
        assumptions=headlines.times(found.values, ideal=ideal(deployment)),
        sources=(),
        texts=(),
        span=place,
        unplanned="" if found.values else found.why,
        facts=deployment_facts(deployment),
        agreed=found.agreed,
    )


def _decoding(found: Outcome) -> int:
    """GPUs of the pools whose cache `kv.tokens` counts."""
    return sum(
        e.placement.used for e in found.estimates.values() if e.subject.pool.role != "prefill"
    )


def _title(title: str) -> str:
    return title.rpartition(".")[2]


def finding(told: Told) -> Finding:
    made = told.fact.suggestion
    alternative = None
    if made is not None and told.estimate is not None:
        changes = tuple(
            Change(name, _label(name), told.estimate.values[name].quantity,
                   made.estimate.values[name].quantity, MORE.get(name))
            for name in made.shows
            if name in told.estimate.values and name in made.estimate.values
        )  # fmt: skip
        alternative = Alternative(made.title, made.text, changes)
    flips = next((h for h in told.diagnostic.helps if h.startswith(FLIPS)), "")
    # What has a field of its own in a finding is not told twice.
    apart = (flips, advice(told.fact)) if alternative is not None else (flips,)
    helps = tuple(h for h in told.diagnostic.helps if h not in apart)
    return Finding(
        told.rule.code,
        told.rule.name,
        told.severity,
        replace(told.diagnostic, helps=helps),
        told.fact.quantities,
        alternative,
        flips.removeprefix(FLIPS),
        told.waived,
        told.agreed,
    )


def _label(name: str) -> str:
    """A short label: the comparison's, else the vocabulary's meaning."""
    if name in LABELS:
        return LABELS[name]
    term = VOCABULARY.get(name)
    return term.meaning if term is not None else name


# --- words of the deployment -------------------------------------------------------------------


def _layouts(deployment: Deployment, single: str) -> str:
    if len(deployment.pools) == 1:
        return single
    said = []
    for name, pool in deployment.pools.items():
        made, _ = subject(deployment, pool)
        if made is not None:
            said.append(f"{name}: {made.degrees.text()}")
    return " | ".join(said)


def _layout_name(deployment: Deployment) -> str:
    """The layout's name, if it has one; several pools have several."""
    pools = list(deployment.pools.values())
    layout = pools[0].layout if len(pools) == 1 else None
    return layout.name if layout is not None else ""


def hardware(deployment: Deployment) -> str:
    said = [_selection(pool.on) for pool in deployment.pools.values() if pool.on is not None]
    return ", ".join(dict.fromkeys(said))


def _engines(deployment: Deployment) -> str:
    """The engine of all pools, or that of each."""
    named = {n: _engine(p.engine) for n, p in deployment.pools.items() if p.engine is not None}
    if len(named) == len(deployment.pools) and len(set(named.values())) == 1:
        return next(iter(named.values()))
    return " | ".join(f"{name}: {title}" for name, title in named.items())


def _engine(engine: Engine) -> str:
    """`vLLM 0.33.0`; of one that a spec declares `house (vLLM 0.33.0)`."""
    maker = engine.written or engine.family
    # That of an engine which extends its maker's entry and none of a version.
    text = f"{maker}, any version" if engine.version == "any" else f"{maker} {engine.version}"
    own = not engine.catalog and engine.name
    return f"{engine.name} ({text})" if own else text


def _selections(deployment: Deployment) -> dict[str, str]:
    """What each pool stands on."""
    pools = deployment.pools.items()
    return {name: _selection(pool.on) for name, pool in pools if pool.on is not None}


def _selection(on: Selection) -> str:
    title = _title(on.of.title)
    text = f"{on.count} x {title}" if on.count > 1 else title
    text += on.pick.text if on.pick is not None else ""
    inside = _inside(on)
    return f"{text} ({inside})" if inside else text


def _inside(on: Selection) -> str:
    """`2 x hgx_h100, 16 x h100_sxm`: the nodes and devices of a selection that names neither."""
    if isinstance(on.of, Device):
        return ""
    levels = ("device",) if isinstance(on.of, Node) else ("node", "device")
    there = topology(on)
    return ", ".join(
        f"{grouped(count)} x {_title(title)}"
        for level in levels
        for title, count in made_of(there, level).items()
    )


def _workload(pool: Pool) -> str:
    workload = pool.workload
    if workload is None:
        return ""
    said = []
    if workload.context is not None:
        said.append(f"{grouped(workload.context)} tok of context")
    elif workload.classes:
        said.append(f"{counted(len(workload.classes), 'classes')} of requests")
    else:
        said.append(
            f"{grouped(workload.prompt or 0)} tok in, {grouped(workload.output or 0)} tok out"
        )
    if workload.concurrency is not None:
        said.append(f"{grouped(workload.concurrency)} in flight")
    if workload.rate is not None:
        said.append(f"{float(workload.rate):g} req/s")
    return ", ".join(said)


def _formats(pool: Pool) -> str:
    said = []
    if pool.weights is not None:
        said.append(f"weights {recipe_title(pool.weights)}")
    if pool.kv is not None:
        said.append(f"KV {recipe_title(pool.kv)}")
    return ", ".join(said)


# --- parts -------------------------------------------------------------------------------------


def _pictures(found: Outcome, beside: Sequence[Deployment]) -> tuple[Picture, ...]:
    return pictures.joined(
        [
            pictures.picture(name, each.placement, taken(each.subject.pool.on, beside))
            for name, each in found.estimates.items()
        ]
    )


Others = Sequence[tuple[Layout, Outcome]]


def _others(deployment: Deployment, written: Layout | None) -> Others:
    """The deployment under each compared layout, and under the written one where another was
    asked for; not under its own once more."""
    pool = next(iter(deployment.pools.values()))
    chosen = pool.layout
    beside = [layout for layout in (written, *deployment.compare) if layout is not None]
    unlike = [one for one in beside if chosen is None or not one.same_meaning(chosen)]
    return [(layout, outcome(deployment, layout)) for layout in unlike]


def _comparison(found: Outcome, others: Others) -> Comparison | None:
    if not found.values:
        return None
    rest = [_candidate(other, layout, main=False) for layout, other in others]
    return compare([_candidate(found, None, main=True), *rest])


def _candidate(found: Outcome, layout: Layout | None, *, main: bool) -> Candidate:
    pool = next(iter(found.deployment.pools.values()))
    made, _ = subject(found.deployment, pool, layout)
    name = (layout.name if layout else pool.layout.name if pool.layout else "") or "here"
    codes = tuple(dict.fromkeys(t.rule.code for t in found.told if _planning(t)))
    fits = all(e.fits for e in found.estimates.values()) and bool(found.values)
    note = "" if found.values else found.why
    return Candidate(name, made.degrees.text() if made else "", dict(found.values), codes, fits,
                     main, note)  # fmt: skip


def _planning(told: Told) -> bool:
    return told.rule.stage != "plan" or told.rule.code in JUDGED


def _charts(found: Outcome, others: Others) -> tuple[Chart, ...]:
    if len(found.estimates) != 1 or not found.values:
        return ()
    estimate = next(iter(found.estimates.values()))
    compared: dict[str, Estimate] = {}
    for _, other in others:
        if len(other.estimates) == 1:
            made = next(iter(other.estimates.values()))
            compared[made.subject.degrees.name or made.subject.degrees.text()] = made
    return charts.charts(estimate, compared)
