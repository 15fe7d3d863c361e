"""docs/catalog.md: what kvdsl knows, a table a kind, each entry with its figures and source.

Comes in: the catalog, through the resolver. Goes out: markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from kvdsl.costs.weights import stored
from kvdsl.planning.models import model_values
from kvdsl.project.catalog import PLURALS, Catalog
from kvdsl.project.loader import load_text
from kvdsl.reference.markdown import code, document, table
from kvdsl.resolve.naming_messages import AbstractUsed
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.engine import Engine
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.spec.hardware import (
    Cluster,
    Device,
    Domain,
    Link,
    ManyDevices,
    ManyLinks,
    ManyNodes,
    ManyRacks,
    Node,
    Rack,
    Tier,
)
from kvdsl.spec.library import Library
from kvdsl.spec.model import Model
from kvdsl.units import (
    BYTE_RATE,
    BYTES,
    MONEY_RATE,
    POWER,
    TIME,
    WORK_RATE,
    Dimension,
    Quantity,
    grouped,
    shown,
)

INTRODUCTION = """\
Every entry is a small kvspec file, which a spec names without an import (`models.llama_3_1_405b`)
and may extend. A figure that no source gives is left out (-). Figures of a model are counted from
its shape, those of its cache in bf16."""

Row = tuple[str, ...]


def page() -> str:
    catalog = Catalog()
    resolver = Resolver(load_text("kvspec 1\n", catalog=catalog))
    blocks = [INTRODUCTION]
    for plural in PLURALS:
        entries = list(_entries(resolver, catalog, plural))
        if not entries:
            continue
        heads, row = TABLES[plural]
        rows = [(_name(e), *row(e), _source(e)) for e in entries]
        blocks += [f"## {plural}", table(*_filled(("name", *heads, "source"), rows))]
    return document("Catalog", *blocks)


def _filled(heads: Row, rows: list[Row]) -> tuple[Row, list[Row]]:
    """Without the columns in which no entry has a figure."""
    kept = [n for n in range(len(heads)) if any(row[n] != "-" for row in rows)]
    return tuple(heads[n] for n in kept), [tuple(row[n] for n in kept) for row in rows]


def _entries(resolver: Resolver, catalog: Catalog, plural: str) -> Iterator[Declaration]:
    for name in catalog.names(plural):
        entry, problems = resolver.declaration(f"{plural}.{name}")
        if [p.code for p in problems] == [AbstractUsed.code]:
            continue  # its versions have rows
        if entry is None:
            raise ValueError(f"{plural}.{name}: {[p.headline for p in problems]}")
        yield entry


def _name(entry: Declaration) -> str:
    plural, _, name = entry.catalog.partition(".")
    return f"[{code(name)}](../specs/catalog/{plural}/{name}.kvspec)"


def _source(entry: Declaration) -> str:
    """The block's source, then those of single figures, each once."""
    found = [entry.source] if entry.source else []
    found += [o.source for b in _own_blocks(entry) for o in b.origins.values() if o.source]
    return "; ".join(dict.fromkeys(found))


def _own_blocks(entry: Declaration) -> Iterator[Block]:
    """The entry and the blocks written in it; what it refers to has sources of its own."""
    yield entry
    for value in vars(entry).values():
        for inner in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(inner, Block) and not isinstance(inner, Declaration):
                yield inner


def _figure(value: int | Fraction | None, dimension: Dimension) -> str:
    return "-" if value is None else shown(Quantity(value, dimension))


# --- a row of each kind ------------------------------------------------------------------------


def _model(entry: Declaration) -> Row:
    assert isinstance(entry, Model)
    values = model_values(entry)
    active = values["active_parameters"].quantity
    context = entry.max_context
    return (
        grouped(values["parameters"].value),
        shown(active),
        str(entry.layers),
        ", ".join(dict.fromkeys(part.form for part in entry.parts.values())),
        shown(values["kv.bytes_per_token"].quantity),
        "-" if context is None else grouped(context),
    )


def _device(entry: Declaration) -> Row:
    assert isinstance(entry, Device)
    peaks = [f"{word} {_figure(peak, WORK_RATE)}" for word, peak in entry.compute.items()]
    return (
        entry.generation or "-",
        _figure(entry.memory, BYTES),
        _figure(entry.reported, BYTES),
        _figure(entry.bandwidth, BYTE_RATE),
        ", ".join(peaks) or "-",
        _many(entry.ports),
        _figure(entry.power, POWER),
        _figure(entry.price, MONEY_RATE),
    )


def _link(entry: Declaration) -> Row:
    assert isinstance(entry, Link)
    said = "efficiency" in entry.origins
    efficiency = f"{grouped(entry.efficiency * 100)} %" if said else "-"
    reduces = {True: "yes", False: "no", None: "-"}[entry.in_switch]
    return (
        _figure(entry.bandwidth, BYTE_RATE),
        _figure(entry.latency, TIME),
        _figure(entry.step, TIME),
        reduces,
        efficiency,
    )


def _many(runs: tuple[ManyDevices | ManyLinks | ManyNodes | ManyRacks, ...]) -> str:
    return ", ".join(f"{run.count} x {_short(run.of)}" for run in runs) or "-"


def _short(entry: Declaration) -> str:
    return entry.title.rpartition(".")[2]


def _joined(domain: Domain | None) -> str:
    if domain is None:
        return "-"
    dims = " x ".join(map(str, domain.dims or ()))
    return f"{_short(domain.link)}, {domain.shape} {dims}".rstrip()


def _node(entry: Declaration) -> Row:
    assert isinstance(entry, Node)
    domain = entry.scale_up or entry.bridge
    memory = entry.host.memory if entry.host is not None else None
    return _many(entry.devices), _joined(domain), _many(entry.nics), _figure(memory, BYTES)


def _rack(entry: Declaration) -> Row:
    assert isinstance(entry, Rack)
    return _many(entry.nodes), _joined(entry.scale_up or entry.bridge)


def _cluster(entry: Declaration) -> Row:
    assert isinstance(entry, Cluster)
    fabric = entry.fabric
    return _many((*entry.nodes, *entry.racks)), "-" if fabric is None else _short(fabric.link)


def _format(entry: Declaration) -> Row:
    assert isinstance(entry, Format)
    block = " x ".join(map(str, entry.block)) if entry.block else "-"
    values = 128 * 128
    bits = Fraction(stored(entry, 128, 128)) * 8 / values if entry.block else None
    own = "-" if entry.bits is None else grouped(entry.bits * 8)
    return own, block, own if bits is None else grouped(bits), entry.arithmetic, entry.holds


def _recipe(entry: Declaration) -> Row:
    assert isinstance(entry, Recipe)
    return (", ".join(f"{_line(line)} {_short(line.format)}" for line in entry.lines),)


def _line(line: RecipeLine) -> str:
    runs = (str(a) if a == b else f"{a}..{b}" for a, b in line.layers)
    return f"layers[{', '.join(runs)}]" if line.layers else line.name


def _tier(entry: Declaration) -> Row:
    assert isinstance(entry, Tier)
    return (
        _figure(entry.read, BYTE_RATE),
        _figure(entry.write, BYTE_RATE),
        _figure(entry.latency, TIME),
        "-" if entry.link is None else _short(entry.link),
    )


def _engine(entry: Declaration) -> Row:
    assert isinstance(entry, Engine)
    own = ("family", "version", "overhead", "limits", "utilization", "block", "source")
    copied = [n for n, value in vars(entry).items() if value == "copy" and n not in own]
    share = "-" if entry.utilization is None else f"{grouped(entry.utilization * 100)} %"
    return entry.family, entry.version, share, f"{entry.block} tok", ", ".join(copied) or "-"


def _library(entry: Declaration) -> Row:
    assert isinstance(entry, Library)
    does = dict.fromkeys(kind for each in entry.algorithms.values() for kind in each.does)
    names = ", ".join(name.replace("_", " ") for name in entry.algorithms)
    told = ", ".join(kind.replace("_", "-") for kind in does)
    return entry.version or "-", told, names, entry.basis


Table = tuple[tuple[str, ...], Callable[[Declaration], Row]]

TABLES: dict[str, Table] = {
    "models": (
        ("parameters", "active", "layers", "parts", "KV cache", "longest context (tok)"),
        _model,
    ),
    "devices": (
        (
            "generation",
            "memory, as sold",
            "as reported",
            "bandwidth",
            "dense peaks",
            "links",
            "power",
            "price",
        ),
        _device,
    ),
    "links": (
        (
            "bandwidth, one way",
            "latency",
            "step of a collective",
            "reduces in switch",
            "efficiency",
        ),
        _link,
    ),
    "nodes": (("devices", "scale-up", "NICs", "host memory"), _node),
    "racks": (("nodes", "scale-up"), _rack),
    "clusters": (("of", "fabric"), _cluster),
    "formats": (("bits", "block", "bits with scales", "arithmetic", "holds"), _format),
    "recipes": (("lines",), _recipe),
    "tiers": (("read", "write", "latency", "path"), _tier),
    "engines": (("family", "version", "utilization", "page", "copied whole"), _engine),
    "libraries": (("version", "does", "algorithms", "constants"), _library),
}
