"""Worlds for the laws: small models, layouts and hardware, drawn at random, as subjects.

A `World` is a record of what a spec would say. A law changes one field with `replace` and compares.
Sizes are small and odd on purpose: what holds for them holds for real ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from hypothesis import strategies as st

from kvdsl.placement.atoms import Cut
from kvdsl.placement.degrees import AttentionAxes, Degrees, ExpertAxes, WidthAxes
from kvdsl.placement.subject import Subject
from kvdsl.placement.topology import topology
from kvdsl.source import SourceFile
from kvdsl.spec.deployment import Budget, Deployment, Pool
from kvdsl.spec.engine import Engine
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.spec.hardware import (
    Cluster,
    Device,
    Domain,
    Fabric,
    Link,
    ManyDevices,
    ManyNodes,
    ManyRacks,
    Node,
    Rack,
    Selection,
)
from kvdsl.spec.model import AnyPart, Gated, Gqa, Layer, Mla, Model, Moe, Run
from kvdsl.spec.workload import Workload

PLACE = SourceFile("law.kvspec", "kvspec 1\n").span(0, 8)
AXES = ("replicas", "pp", "dp", "cp", "pcp", "tp")
GB = 10**9

BF16 = Format(name="bf16", bits=2)
FP8 = Format(name="fp8", bits=1)
BLOCK8 = Format(name="block8", bits=1, scale=4, block=(8, 8))
NVFP4 = Format(name="nvfp4", bits=Fraction(1, 2), scale=1, block=(16,))
SHRINKING = (BF16, FP8, NVFP4)
"""Each smaller than the one before it, for heads of 16 values or more."""


def recipe(form: Format) -> Recipe:
    return Recipe(lines=(RecipeLine(format=form),))


@dataclass(frozen=True)
class World:
    """What a deployment would say. `node_devices` are the devices of each node, by their kind: more
    than one kind is mixed hardware."""

    model: Model
    degrees: Degrees
    node_devices: tuple[int, ...] = (8,)
    nodes: int = 1
    nodes_of_rack: int = 0
    memory: int = 80 * GB
    bandwidth: int = 3000 * GB
    link: int = 450 * GB
    fabric: int = 50 * GB
    latency: Fraction = Fraction(2, 10**6)
    utilization: Fraction = Fraction(9, 10)
    reserve: int = 0
    weights: Format = FP8
    kv: Format = BF16
    context: int = 4096
    concurrency: int = 16
    engine: Engine | None = None

    @property
    def subject(self) -> Subject:
        pool = Pool()
        return Subject(
            deployment=Deployment(name="law", pools={"": pool}, at=PLACE),
            pool=pool,
            model=self.model,
            workload=Workload(context=self.context, concurrency=self.concurrency),
            weights=recipe(self.weights),
            kv=recipe(self.kv),
            activations=BF16,
            degrees=self.degrees,
            topology=topology(self.selection),
            engine=self.engine,
            budget=Budget(utilization=self.utilization, reserve=self.reserve),
            ideal=True,
            places={"deployment": PLACE},
        )

    @property
    def selection(self) -> Selection:
        fast = Link(name="fast", bandwidth=self.link, latency=self.latency)
        slow = Link(name="slow", bandwidth=self.fabric, latency=2 * self.latency)
        kinds = [self._device(number) for number in range(len(self.node_devices))]
        many = zip(self.node_devices, kinds, strict=True)
        node = Node(
            name="box",
            devices=tuple(ManyDevices(count=count, of=kind) for count, kind in many),
            scale_up=Domain(link=fast),
        )
        if not self.nodes_of_rack:
            boxes = (ManyNodes(count=self.nodes, of=node),)
            return Selection(of=Cluster(name="hall", fabric=Fabric(link=slow), nodes=boxes))
        inner = (ManyNodes(count=self.nodes_of_rack, of=node),)
        rack = Rack(name="rack", nodes=inner, scale_up=Domain(link=fast))
        racks = -(-self.nodes // self.nodes_of_rack)
        joined = (ManyRacks(count=racks, of=rack),)
        return Selection(of=Cluster(name="hall", fabric=Fabric(link=slow), racks=joined))

    def _device(self, number: int) -> Device:
        return Device(
            name=f"kind{number}",
            memory=self.memory + number * GB,
            bandwidth=self.bandwidth,
            compute={"bf16": 10**15, "fp8": 2 * 10**15},
        )

    def roomy(self) -> World:
        """The same on so many nodes that every rank has a device."""
        return replace(self, nodes=-(-self.degrees.devices // sum(self.node_devices)))


# --- models ------------------------------------------------------------------------------------

FEW = st.integers(1, 3)
POWERS = st.sampled_from((1, 2, 4, 8))


@st.composite
def gqa(draw: st.DrawFn) -> Gqa:
    kv_heads = draw(st.sampled_from((1, 2, 3, 4, 8)))
    return Gqa(
        name="mix",
        query_heads=kv_heads * draw(POWERS),
        kv_heads=kv_heads,
        head_dim=16 * draw(FEW),
        value_dim=draw(st.none() | st.just(16)),
        bias=draw(st.sampled_from(((), ("q", "k", "v"), ("q", "k", "v", "o")))),
        qk_norm=draw(st.sampled_from(("none", "per_head", "full"))),
        sinks=draw(st.booleans()),
        window=draw(st.none() | st.just(1024)),
    )


@st.composite
def mla(draw: st.DrawFn) -> Mla:
    return Mla(
        name="mix",
        query_heads=draw(st.sampled_from((4, 8, 12, 16))),
        q_rank=draw(st.none() | st.just(48)),
        kv_rank=64,
        nope_dim=16,
        rope_dim=draw(st.sampled_from((0, 16))),
        value_dim=16 * draw(FEW),
    )


@st.composite
def moe(draw: st.DrawFn) -> Moe:
    experts = draw(st.sampled_from((4, 8, 16)))
    return Moe(
        name="sparse",
        experts=experts,
        active=draw(st.integers(1, experts)),
        intermediate=8 * draw(FEW),
        shared_experts=draw(st.integers(0, 2)),
        router_bias=draw(st.booleans()),
        shared_gate=draw(st.booleans()),
        bias=draw(st.booleans()),
    )


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Attention of one kind; dense layers, sparse layers or dense ones first."""
    parts: dict[str, AnyPart] = {"mix": draw(gqa() | mla())}
    stack: list[Run] = []
    for name, part in (("dense", Gated(name="dense", intermediate=48)), ("sparse", draw(moe()))):
        count = draw(st.integers(0, 4))
        if count or (name == "sparse" and not stack):
            parts[name] = part
            stack.append(Run(count=max(1, count), layer=Layer(parts=("mix", name))))
    return Model(
        name="small",
        hidden=32 * draw(FEW),
        vocab=draw(st.sampled_from((101, 512))),
        tied_embeddings=draw(st.booleans()),
        positions=draw(st.sampled_from((0, 64))),
        norm_bias=draw(st.booleans()),
        parts=parts,
        stack=tuple(stack),
    )


# --- layouts -----------------------------------------------------------------------------------


def _split(draw: st.DrawFn, size: int) -> tuple[int, int]:
    """Two factors of a size."""
    first = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
    return first, size // first


@st.composite
def degrees(draw: st.DrawFn, model: Model) -> Degrees:
    """A layout that this model divides over: at most 16 devices a stage."""
    part = model.parts["mix"]
    heads = part.query_heads if isinstance(part, Gqa | Mla) else 1
    kv = part.kv_heads if isinstance(part, Gqa) else 1
    ways = [t for t in (1, 2, 3, 4, 8, 16) if heads % t == 0 and Cut("", kv, "", t).even]
    tp = draw(st.sampled_from(ways))
    sizes = [n for n in (1, 2, 4) if n * tp <= 16]
    dp = draw(st.sampled_from(sizes))
    cp = draw(st.sampled_from([n for n in (1, 2) if n * dp * tp <= 16]))
    pcp = draw(st.sampled_from([n for n in (1, 2) if n * cp * dp * tp <= 16]))
    run = draw(st.sampled_from((1, 64)))
    truth = st.booleans()
    attention = AttentionAxes(
        dp=dp,
        cp=cp,
        pcp=pcp,
        tp=tp,
        interleave=run,
        latent_split=draw(truth),
        exact=draw(truth),
        output_split=draw(truth),
        ring=draw(truth),
        overlap=draw(truth),
    )
    size = attention.size
    ffn, shared, vocab = (WidthAxes(*_split(draw, size)) for _ in range(3))
    pp = draw(st.integers(1, min(3, model.layers)))
    return Degrees(
        size=size,
        pp=pp,
        attention=attention,
        ffn=ffn,
        shared=shared,
        vocab=vocab,
        experts=draw(expert_axes(model, size)),
        replicas=draw(st.sampled_from((1, 2, 3) if size * pp > 6 else (1, 3, 5, 7))),
        stage_layers=draw(st.none() | stages(model.layers, pp)),
        order=draw(st.just(AXES) | st.permutations(AXES).map(tuple)),
    )


@st.composite
def expert_axes(draw: st.DrawFn, model: Model, size: int) -> ExpertAxes:
    """Redundant experts, if any, make the experts divide."""
    ep, tp = _split(draw, size)
    part = model.parts.get("sparse")
    many = part.experts if isinstance(part, Moe) else 0
    even = [extra for extra in range(many + 1) if (many + extra) % ep == 0]
    return ExpertAxes(ep, tp, draw(st.sampled_from(even or [0])))


@st.composite
def stages(draw: st.DrawFn, layers: int, pp: int) -> tuple[int, ...]:
    """Layers of each stage, at least one in each."""
    cuts = st.sets(st.integers(1, layers - 1), min_size=pp - 1, max_size=pp - 1)
    edges = [0, *sorted(draw(cuts if pp > 1 else st.just(set()))), layers]
    return tuple(b - a for a, b in pairwise(edges))


# --- engines and worlds ------------------------------------------------------------------------

Sharing = Literal["split", "copy", "attention"]
SHARING: st.SearchStrategy[Sharing] = st.sampled_from(("split", "copy", "attention"))


@st.composite
def engines(draw: st.DrawFn) -> Engine:
    """An engine that shares modules out as it likes; pages and budgets as without one."""
    return Engine(
        partial_block="refuse",  # padded parts are no parameters
        family="law",
        version="1",
        embedding=draw(SHARING),
        head=draw(SHARING),
        ffn=draw(SHARING),
        shared_experts=draw(SHARING),
        norms=draw(SHARING),
        router=draw(SHARING),
        latent_projections=draw(SHARING),
        cp_weights=draw(st.sampled_from(("split", "copy"))),
        cp_exchange=draw(st.sampled_from((None, "ag_rs", "a2a"))),
        all_to_all=draw(st.sampled_from((None, "allgather_reducescatter", "deepep_low_latency"))),
        stage_sends=draw(st.sampled_from(("hidden", "hidden_residual"))),
        scattered_output=draw(st.booleans()),
        remainder=draw(st.sampled_from(("first", "last", "inner"))),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    model = draw(models())
    return World(
        model=model,
        degrees=draw(degrees(model)),
        node_devices=draw(st.sampled_from(((1,), (4,), (6,), (8,), (3, 5)))),
        nodes_of_rack=draw(st.integers(0, 2)),
        weights=draw(st.sampled_from((BF16, FP8, BLOCK8, NVFP4))),
        kv=draw(st.sampled_from(SHRINKING)),
        context=draw(st.sampled_from((1, 100, 4096))),
        concurrency=draw(st.integers(1, 200)),
        reserve=draw(st.integers(0, 10 * GB)),
        utilization=Fraction(draw(st.integers(50, 100)), 100),
        engine=draw(st.none() | engines()),
    ).roomy()
