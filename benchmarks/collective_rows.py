"""Rows of measured collectives: files read, hardware and libraries recognised, questions asked.

Comes in: CSV files with the columns of the tables that this project was fitted on. Goes out: rows
with a question for the public API, or with a reason why none can be asked. Nothing here knows a
constant; what a name in a file means is found by its words in the catalog.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kvdsl.pipeline import quoter
from kvdsl.planning.quotes import Question
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.hardware import Device, Link, Node, Rack

Record = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. `on` is a name in `spec`, a text of its own where the hardware needs one;
    `question` None: it cannot be asked, `why` says so."""

    file: str
    hardware: str
    group: str
    collective: str
    library: str
    ranks: int
    nodes: int
    size: float
    seconds: float
    on: str = ""
    spec: str = ""
    libraries: tuple[str, ...] = ()
    question: Question | None = None
    why: str = ""


# --- hardware by its words ------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """`A100-SXM4-80GB` as a100, sxm, 80gb."""
    found = re.findall(r"[a-z0-9]+", text.lower().replace("rtx pro", "rtx_pro"))
    return [re.sub(r"^(sxm|oam)\d$", r"\1", word) for word in found]


@cache
def catalog() -> tuple[Resolver, Catalog]:
    project = load_text("kvspec 1\n", "<rows>")
    return Resolver(project), project.catalog


@cache
def device_named(text: str) -> str:
    """The catalog's device that shares most words with a name; empty if none shares the first."""
    _, held = catalog()
    asked = [word for part in words(text) for word in part.split("_")]
    best, most = "", (0, 0, "")
    for name in held.names("devices"):
        have = name.split("_")
        if have[0] != asked[0] and not asked[0].startswith(have[0] + "-"):
            continue
        common = len(set(have) & set(asked))
        key = (common, -len(set(have) - set(asked)), name)
        if best == "" or key > most:
            best, most = name, key
    return best


@cache
def homes(device: str) -> tuple[tuple[str, int, bool], ...]:
    """Nodes and racks of the catalog that hold only this device: name, devices, and whether it is
    a rack, the plainest name of each size first."""
    resolver, held = catalog()
    found = []
    for plural in ("nodes", "racks"):
        for name in held.names(plural):
            spec, _ = resolver.declaration(f"{plural}.{name}")
            if isinstance(spec, Rack):
                inside = [many.of for many in spec.nodes]
                kinds = {d.of.title for node in inside for d in node.devices}
                count = sum(m.count * sum(d.count for d in m.of.devices) for m in spec.nodes)
            elif isinstance(spec, Node):
                kinds = {d.of.title for d in spec.devices}
                count = sum(d.count for d in spec.devices)
            else:
                continue
            if (kinds == {f"devices.{device}"} and spec.scale_up is not None) or (
                kinds == {f"devices.{device}"} and isinstance(spec, Node) and spec.host is not None
            ):
                found.append((f"{plural}.{name}", count, isinstance(spec, Rack)))
    plain = lambda name: (not re.search(r"\.(hgx|oam)_", name), len(name), name)  # noqa: E731
    return tuple(sorted(found, key=lambda f: (f[2], plain(f[0]))))


@cache
def generation(device: str) -> str:
    spec, _ = catalog()[0].declaration(f"devices.{device}")
    return (spec.generation or "unknown") if isinstance(spec, Device) else "unknown"


@cache
def fabric_link(text: str, rate: float) -> str:
    """The catalog's link that an interconnect's words name, of this rate in bytes a second; empty
    if there is none."""
    resolver, held = catalog()
    asked = set(re.findall(r"efa|[a-z]+|\d+", text.lower().replace("efav", "efa v")))
    best, most = "", -1
    for name in held.names("links"):
        have = [w for part in name.split("_") for w in re.findall(r"[a-z]+|\d+", part)]
        spec, _ = resolver.declaration(f"links.{name}")
        if not isinstance(spec, Link) or abs(float(spec.bandwidth) / rate - 1) > 0.01:
            continue
        if have[0] in asked and len(asked & set(have)) > most:
            best, most = f"links.{name}", len(asked & set(have))
    return best


def placed(row: Row, device: str, interconnect: str) -> Row:
    """The row with the hardware that its ranks stand on: a node, a rack, or nodes on a fabric."""
    choice = homes(device)
    rack = next((h for h in choice if h[2]), None)
    wants_rack = rack is not None and ("NVL72" in interconnect or not interconnect)
    many_racks = re.search(r"x(\d+) racks", interconnect)
    if wants_rack and rack is not None and not many_racks and row.ranks <= rack[1]:
        on = next((h for h in choice if not h[2] and h[1] >= row.ranks), rack)
        return replace(row, on=on[0])
    node = next((h for h in choice if not h[2] and h[1] >= row.ranks // max(1, row.nodes)), None)
    if row.nodes <= 1:
        node = next((h for h in choice if h[1] >= row.ranks), None)
        return replace(row, on=node[0]) if node else _unknown(row, device)
    inner = rack if many_racks and rack is not None else node
    if inner is None:
        return _unknown(row, device)
    return _clustered(row, inner, int(many_racks[1]) if many_racks else row.nodes, interconnect)


def _unknown(row: Row, device: str) -> Row:
    where = f"{row.ranks} x {device} on {row.nodes} node{'s' * (row.nodes > 1)}"
    return replace(row, why=f"the catalog has no hardware that holds {where}")


def _clustered(row: Row, inner: tuple[str, int, bool], count: int, interconnect: str) -> Row:
    """Nodes or racks with the NICs that the row states, else with those of the catalog."""
    name, _, is_rack = inner
    lines = ["kvspec 1"]
    found = re.search(r"(\d+)x(\d+) ?G", interconnect)
    one = re.search(r"one (\d+)Gb", interconnect)
    link, of = "links.infiniband_ndr", name
    if found or one:
        nics, rate = (int(found[1]), int(found[2])) if found else (1, int(one[1]) if one else 0)
        link = fabric_link(interconnect, rate * 1e9 / 8)
        if not link:
            lines.append(f"link stated {{ bandwidth = {rate} Gbit/s }}")
            link = "stated"
        if not is_rack:
            lines.append(f"node wired extends {name} {{ nics = {nics} x {link} }}")
            of = "wired"
    word = "racks" if is_rack else "nodes"
    lines.append(f"cluster hall {{ {word} = {count} x {of}; fabric = {link} }}")
    text = "\n".join(lines) + "\n"
    asked = row.question
    nodes = 0 if is_rack else count
    return replace(
        row, on="hall", spec=text, question=replace(asked, nodes=nodes) if asked else None
    )


@dataclass(frozen=True, slots=True)
class Site:
    """Where and how long a row was measured."""

    hardware: str
    ranks: int
    nodes: int
    micros: float
    interconnect: str = ""


# --- files ----------------------------------------------------------------------------------------


def read(path: Path) -> Iterator[Row]:
    """Rows of one file, whichever of the known tables its columns are."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        columns = set(reader.fieldnames or ())
        known = next((r for r, needs in READERS if needs <= columns), None)
        if known is None:
            raise SystemExit(f"{path}: its columns are those of no table that is known")
        for number, record in enumerate(reader, 2):
            for row in known(record):
                yield replace(row, file=f"{path.name}:{number}")


def _nccl(r: Record) -> Iterator[Row]:
    kind = {"alltoall": "all_to_all"}.get(r["op"], r["op"])
    site = Site(r["system"], int(r["num_gpus"]), 1, float(r["latency_us"]))
    yield _asked(site, kind, "nccl", float(r["message_bytes"]))


def _kernels(r: Record) -> Iterator[Row]:
    stack = {"trtllm": "tensorrt_llm"}.get(r["stack"], r["stack"])
    eager = r["mode"].endswith("eager")
    site = Site(r["system"], int(r["num_gpus"]), 1, float(r["latency_us"]))
    name, library = f"{stack}{' eager' if eager else ''}", f"libraries.{stack}_kernels"
    row = _asked(site, "all_reduce", name, float(r["message_bytes"]), (library,))
    yield replace(row, why=EAGER) if eager and not row.why else row


def _deepep_low(r: Record) -> Iterator[Row]:
    nodes = int(r["node_num"])
    for phase in ("dispatch", "combine"):
        site = Site(r["system"], 8 * nodes, nodes, float(r[f"{phase}_avg_t_us"]))
        yield _moe(site, phase, "deepep low latency", "deepep_low_latency", r)


def _deepep_normal(r: Record) -> Iterator[Row]:
    nodes = int(r["node_num"])
    for phase in ("dispatch", "combine"):
        # The notification is awaited apart.
        site = Site(r["system"], 8 * nodes, nodes, float(r[f"{phase}_transmit_us"]))
        row = _moe(site, phase, "deepep normal", "deepep_normal", r)
        if row.question is not None:
            row = replace(row, question=replace(row.question, sms=int(float(r[f"{phase}_sms"]))))
        yield row


def _host_timed(r: Record) -> Iterator[Row]:
    site = Site(r["system"], int(r["ep_size"]), int(r["node_num"]), float(r["latency_us"]))
    row = _moe(site, r["phase"], r["comm_backend"], "", r)
    why = "timed from the host through an engine's wrapper, its dispatch format not stated"
    yield replace(row, question=None, why=why)


EAGER = "timed eagerly: the host's launch is in it, and no host is stated"
COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "moe_dispatch": "dispatch",
    "moe_combine": "combine",
    "kv_transfer": "send",
    "p2p_write_gpu_to_gpu_node": "send",
    "p2p_read_gpu_to_gpu_node": "send",
    "p2p_unidirectional": "send",
}


def _collected(r: Record) -> Iterator[Row]:
    kind = COLLECTIVES.get(r["collective"], r["collective"])
    ranks, nodes = int(r["n_ranks"] or 0), int(r["n_nodes"] or 1)
    size = float(r["bytes"] or 0)
    micros = float(r["latency_us"] or 0)
    if not micros and size and r["algbw_gbs"]:
        micros = size / float(r["algbw_gbs"]) / 1e3
    library, names, backend = _implementation(r["impl"])
    if kind in ("dispatch", "combine"):
        site = Site(r["hardware"], ranks or 8, nodes, micros, r["interconnect"])
        yield _noted(site, kind, library, backend, r["notes"], names)
        return
    site = Site(r["hardware"], ranks, nodes, micros, r["interconnect"])
    row = _asked(site, kind, library, size, names)
    if r["collective"] == "kv_transfer":
        row = _transfer(row)
    if kind not in COLLECTIVES.values():
        row = replace(row, why=f"no collective: {r['collective']}")
    elif not size or not micros:
        row = replace(row, why="a rate without a size")
    elif "eager" in library:
        row = replace(row, why=EAGER)
    yield row


def _noted(
    site: Site, kind: str, library: str, backend: str, notes: str, names: tuple[str, ...]
) -> Row:
    """Expert exchanges, whose tokens stand in the notes."""
    tokens = re.search(r"(\d+) tokens/rank, hidden (\d+), topk (\d+)", notes)
    found = tokens.groups() if tokens else ("0", "0", "1")
    record = {"num_token": found[0], "hidden_size": found[1], "num_topk": found[2]}
    row = replace(_moe(site, kind, library, backend, record), libraries=names)
    return row if tokens else replace(row, why="its tokens are not stated")


def _transfer(row: Row) -> Row:
    """All NICs of one node to another: each device sends its part."""
    each, asked = row.ranks // row.nodes, row.question
    if asked is None or not each:
        return row
    return replace(row, question=replace(asked, size=row.size / each))


def _implementation(text: str) -> tuple[str, tuple[str, ...], str]:
    """What an implementation's name says: its group, its libraries, its backend."""
    low = text.lower()
    if "deepep" in low:
        way = "normal" if "normal" in low else "low_latency"
        group = "deepep v2" if "v2" in low else f"deepep {way.replace('_', ' ')}"
        return group, ("libraries.deepep",), f"deepep_{way}"
    if "onesided" in low:
        return "one-sided", ("libraries.tensorrt_llm_one_sided",), "one_sided"
    if "mooncake" in low:
        return "mooncake", ("libraries.mooncake",), ""
    for word, stack in (("vllm", "vllm"), ("sglang", "sglang"), ("trtllm", "tensorrt_llm")):
        if low.startswith(word):
            eager = " eager" if "eager" in low else ""
            return stack + eager, (f"libraries.{stack}_kernels",), ""
    return ("rccl" if "rccl" in low else "nccl"), (), ""


def _asked(
    site: Site, kind: str, library: str, size: float, libraries: tuple[str, ...] = ()
) -> Row:
    device = device_named(site.hardware)
    row = Row(
        file="",
        hardware=site.hardware,
        group=generation(device) if device else "unknown",
        collective=kind,
        library=library,
        ranks=site.ranks,
        nodes=site.nodes,
        size=size,
        seconds=site.micros / 1e6,
        libraries=_with_own(device, libraries),
        question=Question(kind, site.ranks, size, site.nodes if site.nodes > 1 else 0),
    )
    if not device:
        return replace(row, why=f"the catalog has no device like {site.hardware}")
    if not site.micros:
        return replace(row, why="no time")
    return placed(row, device, site.interconnect)


@cache
def _with_own(device: str, libraries: tuple[str, ...]) -> tuple[str, ...]:
    """An engine's kernels, then what the device's maker gives."""
    spec, _ = catalog()[0].declaration(f"devices.{device}")
    own = f"libraries.{spec.library}" if isinstance(spec, Device) and spec.library else ""
    return (*libraries, own) if libraries and own else libraries


def _moe(site: Site, kind: str, library: str, backend: str, r: Record) -> Row:
    tokens = int(r.get("num_token") or r.get("num_tokens") or 0)
    width, copies = int(r["hidden_size"]), int(r.get("num_topk") or r.get("topk") or 1)
    row = _asked(site, kind, library, tokens * width * 2.0)
    asked = row.question
    if asked is None:
        return row
    asked = replace(asked, size=None, tokens=tokens, width=width, copies=copies, backend=backend)
    own = "libraries.deepep" if "deepep" in library else ""
    return replace(row, question=asked, libraries=(own,) if own else ())


READERS = (
    (_nccl, {"system", "nccl_version", "op", "num_gpus", "message_bytes", "latency_us"}),
    (_kernels, {"system", "stack", "mode", "num_gpus", "message_bytes", "latency_us"}),
    (_deepep_low, {"system", "node_num", "num_token", "dispatch_avg_t_us", "combine_avg_t_us"}),
    (_deepep_normal, {"system", "node_num", "num_token", "dispatch_transmit_us", "dispatch_sms"}),
    (_host_timed, {"system", "comm_backend", "phase", "ep_size", "num_tokens", "latency_us"}),
    (_collected, {"collective", "impl", "hardware", "n_ranks", "n_nodes", "bytes", "latency_us"}),
)

__all__ = ["Row", "quoter", "read"]
