"""Subjects of a deployment: each pool made ready to be placed and costed."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from kvdsl import units
from kvdsl.diagnostics import Diagnostic
from kvdsl.formulas import Term
from kvdsl.placement.degrees import degrees
from kvdsl.placement.subject import Subject
from kvdsl.placement.topology import topology
from kvdsl.source import Span
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import Budget, Deployment, Pool
from kvdsl.spec.formats import Format, Recipe
from kvdsl.spec.layout import Layout

DEFAULT_ACTIVATIONS = Format(name="bf16", catalog="formats.bf16", bits=2)
"""language.md, `activations`: bf16 where the deployment says nothing."""


def subject(
    deployment: Deployment, pool: Pool, layout: Layout | None = None
) -> tuple[Subject | None, tuple[Diagnostic, ...]]:
    """A pool under its own layout, or under `layout` (a compared one)."""
    chosen = layout or pool.layout
    place = deployment.at
    if place is None or chosen is None or pool.on is None or pool.model is None:
        return None, ()
    if pool.workload is None or pool.weights is None or pool.kv is None:
        return None, ()
    sizes, faults = degrees(chosen, pool.replicas or 1, chosen.at or place)
    if sizes is None:
        return None, faults
    recipe = pool.activations
    made = Subject(
        deployment,
        pool,
        pool.model,
        pool.workload,
        pool.weights,
        pool.kv,
        (recipe.format_of("activations") if recipe else None) or DEFAULT_ACTIVATIONS,
        sizes,
        topology(pool.on),
        pool.engine,
        pool.budget or Budget(at=place),
        ideal(deployment),
        places(deployment, pool, layout),
        Fraction(pool.keep),
    )
    return made, ()


def layout_faults(layout: Layout) -> tuple[Diagnostic, ...]:
    """What is wrong with a layout by itself, also where nothing uses it."""
    if layout.at is None:
        return ()
    return degrees(layout, 1, layout.at)[1]


def ideal(deployment: Deployment) -> bool:
    return deployment.ideal


def places(deployment: Deployment, pool: Pool, layout: Layout | None) -> Mapping[str, Span]:
    """Where each part was written; a part that was not is at the deployment."""
    found: dict[str, Span] = {}
    for block in (deployment, pool):
        for word, origin in block.origins.items():
            found[word] = origin.span
    if deployment.at is not None:
        found["deployment"] = deployment.at
    chosen = layout or pool.layout
    if chosen is not None and chosen.at is not None:
        found["declared layout"] = chosen.at
    if layout is not None and layout.at is not None:
        found["layout"] = layout.at
    return found


def inputs(made: Subject) -> dict[str, Term]:
    """Inputs of the plan by their paths, as requirements ask them."""
    found: dict[str, Term] = {}

    def put(name: str, value: int | Fraction | None, dimension: units.Dimension, at: Block) -> None:
        if value is not None:
            origin = at.origin(name.rpartition(".")[2])
            found[name] = Term(
                name,
                value,
                dimension,
                basis="spec" if origin else "default",
                span=origin.span if origin else None,
                note="" if origin else f"nothing says `{name}`",
            )

    workload, budget, d = made.workload, made.budget, made.degrees
    for word, amount, dimension in (
        ("prompt", workload.prompt, units.TOKENS),
        ("output", workload.output, units.TOKENS),
        ("context", workload.context, units.TOKENS),
        ("concurrency", workload.concurrency, units.REQUESTS),
        ("rate", workload.rate, units.REQUEST_RATE),
        ("prefix_hits", workload.prefix_hits, units.NONE),
        ("prefix_common", workload.prefix_common, units.TOKENS),
        ("reuse", workload.reuse, units.TIME),
    ):
        put(f"workload.{word}", amount, dimension, workload)
    put("budget.utilization", budget.utilization, units.NONE, budget)
    put("budget.reserve", budget.reserve, units.BYTES, budget)
    put("budget.kv", budget.kv, units.BYTES, budget)
    sizes = {
        "layout.tp": d.size,
        "layout.pp": d.pp,
        "layout.replicas": d.replicas,
        "replicas": d.replicas,
        "layout.attention.dp": d.attention.dp,
        "layout.attention.cp": d.attention.cp,
        "layout.attention.pcp": d.attention.pcp,
        "layout.attention.tp": d.attention.tp,
        "layout.ffn.dp": d.ffn.dp,
        "layout.ffn.tp": d.ffn.tp,
        "layout.shared_experts.dp": d.shared.dp,
        "layout.shared_experts.tp": d.shared.tp,
        "layout.vocab.dp": d.vocab.dp,
        "layout.vocab.tp": d.vocab.tp,
        "layout.experts.ep": d.experts.ep,
        "layout.experts.tp": d.experts.tp,
        "layout.experts.redundant": d.experts.redundant,
    }
    for word, size in sizes.items():
        found[word] = Term(word, size, basis="spec", span=made.place("layout"))
    return found


def recipe_title(recipe: Recipe) -> str:
    """`fp8`, or the recipe's name; of one without a name its formats: `fp8, head bf16`."""
    one = recipe.uniform
    if one is None and not recipe.name and not recipe.catalog:
        return _formats_in(recipe)
    title = one.title if one is not None else recipe.title
    return title.rpartition(".")[2]


def _formats_in(recipe: Recipe) -> str:
    kept: dict[str, list[str]] = {}
    for line in recipe.lines:
        layers = [f"layers {a}..{b}" if a != b else f"layer {a}" for a, b in line.layers]
        words = [line.name.replace("_", " ")] if not line.layers and line.name != "default" else []
        form = line.format.title.rpartition(".")[2]
        kept.setdefault(form, []).extend((*words, *layers))
    said = [f"{' and '.join(words)} {form}".strip() for form, words in kept.items()]
    return ", ".join(said)
