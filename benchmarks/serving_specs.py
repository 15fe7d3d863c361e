"""A row of a benchmark as the `.kvspec` text that a user would write.

Comes in: a `Row`. Goes out: the text of its deployment, or why there is none. Names of models and
systems are looked up in the catalog: a model by its repository, which its `source` names, or by its
stem; a system as the node or rack whose devices have its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from benchmarks.serving_rows import Row, Width, stem
from kvdsl.costs.pace import is_older, numbers_of
from kvdsl.project.catalog import catalog_root

ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm"}
"""What the table calls an engine, and the catalog."""

CHANGED = "2025-12"
"""Builds measured before are old ones, whatever a front end says is its version."""

LAST_OLD = {"vllm": "0.12", "sglang": "0.5.5", "trtllm": "1.0"}
"""The last versions before `older` of the catalog's entries: told of rows that have a date alone.
Release dates: vLLM 0.13, SGLang 0.5.6 and TensorRT-LLM 1.1 stand beside December 2025."""


class NoSpec(Exception):
    """A row that cannot be written down: the text is the reason."""


@cache
def _declarations(plural: str) -> dict[str, str]:
    root = catalog_root() / plural
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted(root.glob("*.kvspec"))}


@cache
def model(path: str) -> str:
    """The catalog's model of a repository: by the one that its source names, or by its stem."""
    models = _declarations("models")
    owner = path.lower()
    for name, text in models.items():
        if re.search(rf'source\s*=\s*"{re.escape(owner)}[ "]', text.lower()):
            return name
    wanted = stem(path)
    if wanted in models:
        return wanted
    sources = {}
    for name, text in models.items():
        found = re.search(r'source\s*=\s*"([^ "]+)', text)
        if found:
            sources[stem(found.group(1))] = name
    if wanted in sources:
        return sources[wanted]
    sibling = _sibling(wanted, sorted({*models, *sources}))
    if sibling:
        return sources.get(sibling, sibling)
    raise NoSpec(f"the catalog has no model {path}")


def _sibling(wanted: str, known: list[str]) -> str:
    """Another release of the same series: the name with a further number, or with its last number
    changed. Releases of a series mostly share a shape; the report tells what stands for what."""
    further = [n for n in known if re.fullmatch(rf"{re.escape(wanted)}_\d", n)]
    base = re.sub(r"_\d$", "", wanted)
    if further or base == wanted:
        return further[0] if further else ""
    # Of a series with two numbers at least: `glm_5_1`, not `phi_4`.
    others = [n for n in known if re.fullmatch(rf"{re.escape(base)}_\d", n)]
    return others[0] if others and re.search(r"_\d$", base) else ""


@dataclass(frozen=True, slots=True)
class System:
    """`whole` holds `size` devices that one domain joins; `native_fp4` where the device multiplies
    in four bits. `declared` is the text of a host that the catalog lacks."""

    device: str
    whole: str
    size: int
    native_fp4: bool
    declared: str = ""


@cache
def system(name: str) -> System:
    devices = _declarations("devices")
    name = _device(name, sorted(devices))
    native = bool(re.search(r"^\s*fp4\s*=", devices[name], re.MULTILINE))
    nodes = _declarations("nodes")
    found = [(node, int(n)) for node, text in nodes.items()
             for n in re.findall(rf"devices\s*=\s*(\d+) x devices\.{name}\b", text)]  # fmt: skip
    if not found:
        return _host(name, devices[name], native=native)
    boards = [each for each in found if each[0].startswith(("hgx_", "oam_"))]
    node, size = min(boards or found, key=_plainest)
    racks = [(rack, int(n)) for rack, text in _declarations("racks").items()
             for n in re.findall(rf"nodes\s*=\s*(\d+) x nodes\.{node}\b", text)]  # fmt: skip
    if racks:
        rack, many = min(racks, key=_plainest)
        return System(name, f"racks.{rack}", many * size, native)
    return System(name, f"nodes.{node}", size, native)


def _host(name: str, device: str, *, native: bool) -> System:
    """Eight of a device on their slots, as a user writes a host that the catalog lacks."""
    link = re.search(r"^\s*pcie\s*=\s*(links\.\w+)", device, re.MULTILINE)
    if link is None:
        raise NoSpec(f"the catalog has no node of {name}, and no slot that it stands in")
    text = (f"node host_of_{name} {{ devices = {SLOTS} x devices.{name}; "
            f"host {{ link = {link[1]} }} }}\n")  # fmt: skip
    return System(name, f"host_of_{name}", SLOTS, native, text)


SLOTS = 8
"""Devices of a host whose catalog entry is missing."""


def _device(system: str, known: list[str]) -> str:
    """The catalog's name of a device: the system's own, or one that says more of it (on a board,
    with the largest memory), or that of a shorter name that still has a number: `h100` and
    `nvidia_h100_80gb` are `h100_sxm`."""
    wanted = re.sub(r"[^a-z0-9]+", "_", system.lower()).strip("_")
    wanted = wanted.removeprefix("nvidia_").removeprefix("amd_")
    while re.search(r"\d", wanted):
        if wanted in known:
            return wanted
        found = [n for n in known if n.startswith(f"{wanted}_")]
        if found:
            return max(found, key=_likeliest)
        wanted = wanted.rpartition("_")[0]
    raise NoSpec(f"the catalog has no device {system}")


def _likeliest(name: str) -> tuple[bool, int, int, str]:
    size = re.search(r"_(\d+)gb$", name)
    return "_sxm" in name, int(size[1]) if size else 0, -len(name), name


def _plainest(found: tuple[str, int]) -> tuple[int, str]:
    """Machines of one kind of device join it alike; the shortest name is nobody's product."""
    return len(found[0]), found[0]


def _sparse(name: str) -> bool:
    return " moe {" in _declarations("models")[name]


_TAGS = {"fp4": "nvfp4"}
"""How a recipe's name ends for a precision, where it is another word."""


def _recipe(row: Row, name: str) -> str:
    """The weights' formats: a recipe of the model's own, or what its kind of checkpoint stores."""
    for own in _declarations("recipes"):
        if name.startswith(own) or own == f"{name}_{_TAGS.get(row.precision, row.precision)}":
            return f"weights = recipes.{own}"
    if row.precision in ("bf16", "fp16"):
        return f"weights = formats.{row.precision}"
    form = {"fp8": "fp8", "fp4": "nvfp4", "int4": "awq_int4", "mxfp4": "mxfp4", "int8": "int8"}.get(
        row.precision
    )
    if form is None:
        raise NoSpec(f"unknown precision {row.precision}")
    modules = ["ffn", "routed_experts", "shared_experts"]
    if row.precision in ("fp8", "int8") or not _sparse(name):
        modules = ["attention", "state_mixer", *modules]
    lines = "".join(f"    {module} = formats.{form}\n" for module in modules)
    return f"weights {{\n    default = formats.bf16\n{lines}  }}"


def _kv(row: Row, here: System) -> str:
    """fp8 on devices with four-bit arithmetic and under TensorRT-LLM, for checkpoints of eight
    bits or fewer that are multiplied so; else bf16: the rule of the fit (no column tells)."""
    narrow = row.precision in ("fp8", "fp4")
    return "fp8" if narrow and (here.native_fp4 or row.engine == "trtllm") else "bf16"


def layout(width: Width, *, sparse: bool) -> str:
    """The body of a layout."""
    said = []
    if width.dp > 1 or (sparse and width.ep > 1):
        inner = f"dp = {width.dp}; tp = {width.tp}" if width.dp > 1 else f"tp = {width.tp}"
        said.append(f"attention {{ {inner} }}")
        if width.dp > 1:
            said.append(f"ffn {{ {inner} }}")
        if sparse:
            said.append(f"experts {{ ep = {width.ep}; tp = {width.moe_tp} }}")
    else:
        said.append(f"tp = {width.tp}")
    if width.pp > 1:
        said.append(f"pp = {width.pp}")
    return "; ".join(said)


def engine(row: Row) -> str:
    """The engine's entry with the row's version: the newest entry of the catalog that is no newer
    than the row, else the oldest, else what all versions extend."""
    name = ENGINES.get(row.engine)
    if name is None:
        raise NoSpec(f"unknown engine {row.engine}")
    version = _version(row, name)
    entries = sorted(_versions(name))
    numbers = numbers_of(version)
    fitting = [entry for number, entry in entries if number <= numbers] if numbers else []
    newest = entries[-1:] if not numbers else entries[:1]
    chosen = [*(entry for _, entry in newest), *fitting]
    entry = chosen[-1] if chosen else name
    return f'engine extends engines.{entry} {{ version = "{version}" }}'


def _version(row: Row, name: str) -> str:
    """The row's version, or one on the side of `older` on which its date stands."""
    before = re.search(r'before\s*=\s*"([^"]+)"', _declarations("engines")[name])
    if not row.measured or before is None:
        return row.version or "unknown"
    old = row.measured < CHANGED
    if row.version and is_older(row.version, before[1]) == old and numbers_of(row.version):
        return row.version
    return LAST_OLD[row.engine] if old else before[1]


@cache
def _versions(name: str) -> tuple[tuple[tuple[int, ...], str], ...]:
    """The concrete entries of an engine, by their versions."""
    found = []
    for entry, text in _declarations("engines").items():
        said = re.search(r'^\s*version\s*=\s*"([^"]+)"', text, re.MULTILINE)
        if said and entry.startswith(f"{name}_") and "abstract" not in text:
            found.append((numbers_of(said[1]), entry))
    return tuple(found)


def text(row: Row) -> str:
    """A deployment of the row. Raises NoSpec with the reason where there is none."""
    return f"{head(row)}{workload(row)}}}\n"


def head(row: Row) -> str:
    """All of it but the workload: rows that share it are predicted in one call."""
    name = model(row.model)
    here = system(row.system)
    return (
        f"kvspec 1\n\n{_declared(row, here)}{BEGIN}\n"
        f"  model = models.{name}\n"
        f"  {_recipe(row, name)}\n"
        f"  kv = formats.{_kv(row, here)}\n"
        f"  {engine(row)}\n"
        f"  {LIMITS}\n"
        f"{_placed(row, here, sparse=_sparse(name))}"
    )


BEGIN = "deployment row {"

LIMITS = "limits { step = 8192 tok }"
"""No row says its limit, and launches of a benchmark seldom leave it at an engine's default: each
is taken with the step that the constants were fitted with, the `chunk` of the catalog's `pace`."""


def _pools(row: Row) -> list[tuple[str, Width, int]]:
    pools = [("decode", row.layout, row.workers or 1)]
    if row.mode == "disagg" and row.prefill is not None:
        pools.insert(0, ("prefill", row.prefill, row.prefill_workers or 1))
    return pools


def _declared(row: Row, here: System) -> str:
    """Hosts that the catalog lacks, and clusters of nodes that replicas reach over."""
    clusters = {_cluster(width, count, here) for _, width, count in _pools(row)
                if width.devices > here.size}  # fmt: skip
    return here.declared + "".join(
        f"cluster {name} {{ nodes = {many} x {here.whole}; fabric = links.infiniband_ndr }}\n"
        for name, many in sorted(clusters)
    )


def _cluster(width: Width, count: int, here: System) -> tuple[str, int]:
    """Whole nodes for each replica of a pool."""
    if width.devices % here.size or here.whole.startswith("racks."):
        raise NoSpec(f"{width.devices} devices are not whole {here.whole} of {here.size}")
    many = count * width.devices // here.size
    return f"of_{many}_{here.whole.rpartition('.')[2]}", many


def _placed(row: Row, here: System, *, sparse: bool) -> str:
    """Layout and hardware: of one replica, or of the workers of each kind."""
    if row.mode != "disagg":
        on = _on(row.layout, 1, here)
        return f"  on = {on}\n  layout {{ {layout(row.layout, sparse=sparse)} }}\n"
    return "".join(
        f"  pool {role} {{\n    on = {_on(width, count, here)}\n    replicas = {count}\n"
        f"    layout {{ {layout(width, sparse=sparse)} }}\n  }}\n"
        for role, width, count in _pools(row)
    )


def _on(width: Width, count: int, here: System) -> str:
    """So many nodes or racks that each replica stands in one, or a cluster of those it needs."""
    if width.devices > here.size:
        return _cluster(width, count, here)[0]
    each = here.size // width.devices
    return f"{-(-count // each)} x {here.whole}"


def workload(row: Row) -> str:
    return (
        f"  workload {{ prompt = {row.prompt} tok; output = {row.output} tok; "
        f"concurrency = {row.concurrency} req }}\n"
    )
