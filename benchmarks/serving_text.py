"""A fit as the catalog writes it: the `pace` block of each engine, each figure with its error.

Comes in: a fit. Goes out: text to put into specs/catalog/engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.serving_fit import ROUND, Fit

LAUNCHES = ("layer", "sparse", "unfused", "latent", "state", "indexer", "prefill", "decode")
REACHED = ("weights", "experts", "emulated", "cache", "attention", "products_16", "products_8",
           "products_4", "grouped")  # fmt: skip
FIRST = ("entry", "steps", "own", "queue", "crowd", "length", "full")
TIMES = frozenset({"layer", "sparse", "unfused", "latent", "state", "indexer"})
BOUND = 0.9999
"""A share past this stands at its bound, 1."""

SAME = 1e-6
"""A constant so near to its start is one that no row moves."""


def pace(
    fit: Fit, engine: str, rows: str, before: str, bands: Mapping[str, Sequence[float]]
) -> str:
    """The block of one engine. `rows` says what was fitted; `before` is the first version that is
    not old; `bands` are usual and wide of tpot and ttft."""
    out = ["  pace {"]
    for block, names in (("launches", LAUNCHES), ("reached", REACHED)):
        out += [f"    {block} {{", *_lines(fit, engine, names, rows), "    }", ""]
    out += [*_lines(fit, engine, ("vectors", "prompts"), rows, "    "), "", "    first {"]
    out += [*_lines(fit, engine, FIRST, rows), "    }", ""]
    for name, band in bands.items():
        usual, wide = (f"{round(b * 100)} %" for b in band)
        said = f'from "{rows}, groups left out"'
        out += [f"    {name} {{", f"      usual = {usual} {said}", f"      wide  = {wide} {said}",
                "    }", ""]  # fmt: skip
    said = _said(fit, engine, "age", rows)
    value = fit.values[f"age.{engine}"]
    out += ["    older {", f'      before   = "{before}"', f"      launches = {value:.2f} {said}",
            "    }", "  }"]  # fmt: skip
    return "\n".join(out) + "\n"


def _lines(
    fit: Fit, engine: str, names: Sequence[str], rows: str, indent: str = "      "
) -> Iterator[str]:
    width = max(map(len, names))
    for name in names:
        said = _said(fit, engine, name, rows)
        yield f"{indent}{name:{width}} = {_figure(fit, engine, name)} {said}"


def _value(values: Mapping[str, float], engine: str, name: str) -> float:
    return values.get(f"{name}.{engine}", values.get(name, 0.0))


def _figure(fit: Fit, engine: str, name: str) -> str:
    value = _value(fit.values, engine, "latent" if name == "indexer" else name)
    if name in TIMES:
        return f"{value * 1e6:.1f} us"
    if name == "entry":
        return f"{value * 1e3:.1f} ms"
    if name in REACHED:
        return "100 %" if value > BOUND else f"{value * 100:.1f} %"
    return f"{value:.3f}"


def _said(fit: Fit, engine: str, name: str, rows: str) -> str:
    if name == "indexer":
        return 'from "no row has one: as a latent"'
    error = _value(fit.errors, engine, name) * 100
    value = _value(fit.values, engine, name)
    begun = ROUND["latent" if name == "indexer" else name]
    if abs(value / begun - 1) < SAME and name == "decode":
        return 'from "no row has one here: as beside prompts"'
    if abs(value / begun - 1) < SAME:
        return 'from "no row has one here: where the fit begins, between those of other engines"'
    if name in REACHED and value > BOUND:
        return f'from "{rows}: at its bound"'
    return f'from "{rows}: +-{error:.0f} %"'
