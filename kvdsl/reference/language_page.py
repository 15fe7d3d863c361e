"""docs/language.md: units, kinds and their attributes, values that can be asked, codes.

Comes in: the unit table, the spec models, the vocabulary, the catalogues of messages. Goes out:
markdown. Not its job: why the language is so (docs/rationale.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.placement.degrees import CODES as SIZES
from kvdsl.project.catalog import PLURALS
from kvdsl.reference.kinds import KINDS, SPECIAL, Section
from kvdsl.reference.markdown import code, document, link, spec, table
from kvdsl.reference.values import default, example, takes
from kvdsl.resolve.code_pages import PAGES
from kvdsl.resolve.messages import CODES as NAMES
from kvdsl.resolve.schema import schema_of
from kvdsl.spec.formats import COMPONENTS, MODULES
from kvdsl.spec.vocabulary import FLEET, INPUTS, PATTERNS, VOCABULARY
from kvdsl.syntax.messages import CODES as SYNTAX
from kvdsl.units import MONEY_PER_TOKEN, MONEY_RATE, POWER, UNIT_ROWS, Dimension

INTRODUCTION = """\
Beside this page stand [why the language is so](rationale.md), [whole specs](../specs/examples),
[the rules](rules.md) of a check, and [the catalog](catalog.md) of what needs no writing.

```kvspec
kvspec 1                                  # the edition, first in every file

let long_context = 128 Kitok              # a value with a name

## Documents the declaration below it, also in reports.
deployment chat {
  model   = models.llama_3_1_8b           # from the catalog
  weights = formats.bf16
  kv      = formats.fp8
  on      = 1 x nodes.hgx_h100
  layout  { tp = 2; replicas = 4 }        # inline; or the name of a `layout NAME { … }`
  budget  { utilization = 90 %; reserve = 3 GB }
  workload { context = long_context; concurrency = 16 req }

  require kv.sequences >= 16 req because "agreed with product"
}

deployment long extends chat {            # the same but for what it says
  workload { concurrency = 8 req }        # a block merges; `workload = { … }` would replace it
}
```"""

WRITING = """\
| written | meaning |
| --- | --- |
| `import "hardware.kvspec"`, behind it `as own` | its names are `hardware.NAME`, `own.NAME` |
| `80 GB`, `92 %`, `1_402_348` | exact numbers; a unit stands behind its number, on its line |
| `3.35 TB/s`, `80 GB / 8` | a rate has no space in its unit; with spaces it is a division |
| `[a, b]`, `true`, `"text"` | list, truth value, text |
| `8 x devices.h200_sxm` | so many |
| `pod.nodes[0..1]`, `pod.devices[0, 4..7]` | some of it, from 0, both ends included |
| `1 TB per node` | where a table says `per`, and only there |
| `+ - * / < <= > >= == != and or not` | `+`, `-` and comparison want equal dimensions |
| `a within 5 % of b` | for times and rates, which are rounded |
| `min(…) max(…) sum(list) ceil(a, step) floor(a, step)` | functions; `step` is 1, or one unit |
| `from "source"` behind a value, `source = "…"` in a block | where a figure is from |
| `a = …`, `a { … }` in a child | replaces; merges |
| `drop a`, `require … as NAME` in a child | removes; replaces the requirement of that name |
| `require A when B as NAME because "…"`, `expect …` | what follows `A` may be left out |
| `allow CODE because "…" until "2027-01-31"` | without `until` it never ends |
| `abstract = true` | only to be extended |"""


def page() -> str:
    return document(
        "Language",
        INTRODUCTION,
        "## Writing\n\n" + WRITING,
        "## Units\n\n" + _units(),
        "## Kinds\n\n" + _kinds(),
        *_sections(),
        "## Values that can be asked\n\n" + _vocabulary(),
        "## Codes\n\n" + _codes(),
    )


def _units() -> str:
    by_dimension: dict[Dimension, list[str]] = {}
    for dimension, names in UNIT_ROWS:
        by_dimension.setdefault(dimension, []).append(" ".join(map(code, names)))
    rows = [
        (_noun(dimension), " · ".join(names), example(dimension))
        for dimension, names in by_dimension.items()
    ]
    rate = ("rates", f"one unit over another: {code('GB/s')} {code('USD/h')} {code('B/tok')}",
            code("3.35 TB/s"))  # fmt: skip
    note = (
        "`k`, `M`, `G`, `T`, `P`, `E` are powers of 1,000, `Ki`, `Mi`, `Gi`, `Ti`, `Pi` of 1,024. "
        "8 bit are 1 B."
    )
    return table(("dimension", "units", "as in"), [*rows, rate]) + f"\n\n{note}"


def _noun(dimension: Dimension) -> str:
    return "a ratio" if dimension == Dimension() else dimension.noun


def _kinds() -> str:
    plural = {kind: name for name, kind in PLURALS.items()}
    rows = [
        (link(kind, f"`{kind}`"), said, code(f"{plural[kind]}.NAME") if kind in plural else "-")
        for kind, (said, _) in KINDS.items()
    ]
    return table(("kind", "what it is", "in the catalog"), rows)


def _sections() -> Iterator[str]:
    for kind, (_, sections) in KINDS.items():
        yield f"## {code(kind)}"
        for section in sections:
            yield (f"### {section.title}\n\n" if section.title else "") + _attributes(section)
        if kind == "recipe":
            yield "Modules: " + " ".join(map(code, MODULES)) + "."
            yield "Components of the cache: " + " ".join(map(code, COMPONENTS)) + "."


def _attributes(section: Section) -> str:
    fields = section.model.model_fields
    rows = []
    for name, attribute in schema_of(section.model).attributes.items():
        if name in section.without:
            continue
        written, wanted = code(name), takes(attribute.slots)
        if attribute.special:
            written, wanted = SPECIAL[section.model.__name__, name]
        fallback = default(fields[name], attribute.slots)
        rows.append((written, wanted, fallback, fields[name].description or ""))
    note = f"{section.note}\n\n" if section.note else ""
    return note + table(("attribute", "takes", "default", "meaning"), rows)


def _unit(dimension: Dimension) -> str:
    """The unit that a person would write."""
    return {MONEY_RATE: "USD/h", MONEY_PER_TOKEN: "USD/Mtok", POWER: "W"}.get(
        dimension, dimension.base_unit
    )


def _vocabulary() -> str:
    asked = [*VOCABULARY.values(), *(term for _, term in PATTERNS)]
    rows = [(code(t.name), _unit(t.dimension), t.meaning) for t in asked]
    inputs = [f"{code(name)} ({_unit(dimension)})" for name, dimension in INPUTS.items()]
    sums = [f"{code(t.name)} ({_unit(t.dimension)}, {t.meaning})" for t in FLEET.values()]
    return "\n\n".join(
        (
            "In `require`, `expect`, `show`, `kvdsl get` and `kvdsl explain`. With pools, "
            "`pools.NAME.VALUE` asks one.",
            table(("value", "unit", "meaning"), rows),
            f"Inputs are asked by path: {', '.join(inputs)}.",
            f"A fleet answers {', '.join(sums)}, and `deployments.NAME.VALUE`.",
        )
    )


def _codes() -> str:
    told = sorted((*SYNTAX, *NAMES, *SIZES))
    rows = [(link(c, f"{c} {name}") if c in PAGES else c, name, text) for c, name, text in told]
    note = "Errors of a text, its names, values and sizes. Those of plans are [rules](rules.md)."
    sections = [_code_page(c, name, text) for c, name, text in told if c in PAGES]
    return "\n\n".join((note, table(("code", "name", "what is wrong"), rows), *sections))


def _code_page(code_: str, name: str, sentence: str) -> str:
    page = PAGES[code_]
    # A file that is imported does not stand beside this page.
    alone = not page.better.startswith("import")
    return "\n\n".join(
        (
            f"### {code_} {name}",
            f"{sentence} {page.checks}",
            page.why,
            spec(f"kvspec 1\n{page.example}", "error"),
            page.instead,
            spec(page.better, "part") if alone else f"```\n{page.better}\n```",
        )
    )
