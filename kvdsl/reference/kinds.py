"""The kinds in the order that the reference tells them, and the blocks that stand in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvdsl.reference.markdown import code
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import (
    Budget,
    Deployment,
    Draft,
    Fleet,
    Policy,
    Pool,
    TierUse,
    Transfer,
)
from kvdsl.spec.engine import Blocks, Engine, HeldBack, HybridCache, Limits, Overhead, Size
from kvdsl.spec.engine_pace import Band as PaceBand
from kvdsl.spec.engine_pace import First, Launches, Older, Pace, Reached
from kvdsl.spec.formats import Format, Recipe
from kvdsl.spec.hardware import Cluster, Device, Domain, Fabric, Host, Link, Node, Rack, Tier
from kvdsl.spec.layout import AttentionLayout, ExpertLayout, Layout, WidthLayout
from kvdsl.spec.library import Algorithm, Band, Library
from kvdsl.spec.model import (
    FORMS,
    Compression,
    Gqa,
    Indexer,
    Layer,
    Mla,
    Model,
    Moe,
    SharedCache,
    Softmax,
    Tower,
)
from kvdsl.spec.workload import RequestClass, Workload


@dataclass(frozen=True, slots=True)
class Section:
    """A table of attributes: of the kind itself (no title), or of a block in it."""

    title: str
    model: type[Block]
    note: str = ""
    without: frozenset[str] = frozenset()


_SOFTMAX = frozenset(Softmax.model_fields)
_EXTRA = frozenset({"extra"})


def _forms() -> tuple[Section, ...]:
    """The forms of parts that are told by their own attributes alone."""
    every = {name: form for forms in FORMS.values() for name, form in forms.items()}
    told = (Gqa, Mla, SharedCache, Moe)
    return tuple(
        Section(code(name), form, _doc(form), _EXTRA)
        for name, form in every.items()
        if form not in told
    )


def _doc(model: type[Block]) -> str:
    """The model's own docstring (a class without one has that of its base)."""
    return " ".join((model.__dict__.get("__doc__") or "").split())


def _section(title: str, model: type[Block], without: frozenset[str] = frozenset()) -> Section:
    return Section(title, model, _doc(model), without)


_MODEL = (
    Section("", Model),
    Section(
        "attention `gqa` and `mla`",
        Softmax,
        "Attention whose cache grows with each token; what both forms take:",
    ),
    _section("`gqa`, beside these", Gqa, _SOFTMAX),
    _section("`mla`, beside these", Mla, _SOFTMAX),
    _section("`indexer`", Indexer),
    _section("`compress`", Compression),
    _section("`shared`", SharedCache, _EXTRA),
    _section("`moe`", Moe, _EXTRA),
    *_forms(),
    Section("`layer`", Layer, "In a `stack`, `mtp` or `pattern`: `3 x layer { latent; dense }`."),
    _section("`tower`", Tower),
)

_LAYOUT = (
    "The devices of a stage are `tp`, or else the product of the axes of each written block; all "
    "must agree. In a block that writes an axis the others are 1; a module without a block is cut "
    "by `tp` over the whole stage."
)
_POOL = (
    "Of the deployment, or of one of its pools. `model`, `layout`, `workload`, `on`, `weights` and "
    "`kv` must be given, here or in every pool."
)

_LIBRARY = (
    "Of the algorithms of a library that may do a collective the fastest is taken; of an engine's "
    "`libraries` the first that takes the message. With `time = ideal` no library is asked."
)
_ALGORITHM = (
    "Its time is launch + steps x step + bytes / (bandwidth x efficiency) + fill x root(launch x "
    "wire time), where the slowest wire counts. `way` gives steps and bytes of n ranks: `ring` "
    "2 (n - 1) steps and 2 (n - 1) / n of an all-reduce's bytes, half for the others; `in_switch` "
    "1 + 1 / n of the bytes; `one_shot` n - 1 times the bytes, `two_shot` 2 (n - 1) / n; "
    "`pairwise` and `per_expert` a copy for each rank or expert; `per_rank` one for each rank and "
    "node that a token reaches; `gather` all tokens to all ranks; `direct` from one to another. "
    "Across domains 2 log2 k network steps are added for an all-reduce, log2 k for a gather."
)

KINDS: Mapping[str, tuple[str, tuple[Section, ...]]] = MappingProxyType(
    {
        "model": ("a language model as a checkpoint stores it", _MODEL),
        "device": ("one GPU", (Section("", Device),)),
        "link": ("one link between two ends", (Section("", Link),)),
        "node": (
            "one machine, never a rack",
            (
                Section("", Node),
                _section("`scale_up`, `bridge`", Domain),
                _section("`host`", Host),
            ),
        ),
        "rack": ("nodes side by side, joined or not", (Section("", Rack),)),
        "cluster": (
            "nodes, racks or clusters, and what joins them",
            (Section("", Cluster), _section("`fabric`", Fabric)),
        ),
        "format": ("how a number is stored", (Section("", Format),)),
        "recipe": ("a format for each module or component", (Section("", Recipe),)),
        "tier": ("memory below the devices'", (Section("", Tier),)),
        "engine": (
            "how one version of a serving engine budgets, shards and refuses",
            (
                Section("", Engine),
                _section("`overhead`", Overhead),
                _section("`limits`", Limits),
                _section("`size`", Size),
                _section("`pace`", Pace),
                _section("`pace launches`", Launches),
                _section("`pace reached`", Reached),
                _section("`pace first`", First),
                _section("`pace tpot`, `pace ttft`", PaceBand),
                _section("`pace older`", Older),
                _section("`blocks`", Blocks),
                _section("`hybrid_cache`", HybridCache),
                _section("`held_back`", HeldBack),
            ),
        ),
        "library": (
            "how one version of a communication library moves bytes, and how long that takes",
            (
                Section("", Library, _LIBRARY),
                Section("`algorithm`", Algorithm, _ALGORITHM),
                _section("`band`, `loose`", Band),
            ),
        ),
        "layout": (
            "how a model is cut over devices",
            (
                Section("", Layout, _LAYOUT),
                _section("`attention`", AttentionLayout),
                _section("`ffn`, `shared_experts`, `vocab`", WidthLayout),
                _section("`experts`", ExpertLayout),
            ),
        ),
        "workload": (
            "how long requests are, and how many",
            (Section("", Workload), _section("`class`", RequestClass)),
        ),
        "deployment": (
            "a model on hardware, under a layout, for a workload",
            (
                Section("", Pool, _POOL),
                Section("of the deployment alone", Deployment, "", frozenset(Pool.model_fields)),
                _section("`budget`", Budget),
                _section("`draft`", Draft),
                _section("`transfer`", Transfer),
                _section("an entry of `tiers`", TierUse),
            ),
        ),
        "fleet": ("deployments on the same hardware", (Section("", Fleet),)),
        "policy": ("requirements for all that is checked with it", (Section("", Policy),)),
    }
)

SPECIAL: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType(
    {
        ("Model", "parts"): ("`attention NAME`, `ffn NAME`", "`= FORM { … }`"),
        ("Model", "stack"): (
            "`stack { … }`",
            "one `N x layer { … }` or `N x pattern { … }` a line",
        ),
        ("Model", "mtp"): ("`mtp`", "`N x layer { … }`"),
        ("Model", "towers"): ("`tower NAME`", "block"),
        ("Recipe", "lines"): ("`default`, `NAME`, `layers[a..b]`", "format"),
        ("Workload", "classes"): ("`class NAME`", "block"),
        ("Library", "algorithms"): ("`algorithm NAME`", "block"),
        ("Engine", "sizes"): ("`size NAME`", "block"),
        ("Deployment", "pools"): ("`pool NAME`", "block"),
        ("Deployment", "tiers"): ("`tiers`", "blocks by name"),
        ("Deployment", "requirements"): ("`require`, `expect`", "a condition"),
        ("Deployment", "waivers"): ("`allow CODE`", '`because "…" until "2027-01-31"`'),
        ("Deployment", "compare"): ("`compare`", "layouts"),
        ("Deployment", "sweeps"): (
            "`sweep`, `sweep NAME`",
            "`PATH = [values]` lines, and `show = [values]`",
        ),
        ("Deployment", "search"): (
            "`search`",
            "`axes`, `devices`, `minimize` or `maximize` a value",
        ),
        ("Fleet", "requirements"): ("`require`, `expect`", "a condition"),
        ("Policy", "requirements"): ("`require`, `expect`", "a condition"),
    }
)
"""Attributes that have a form of their own: how each is written, and what it takes."""
