"""Deployments, fleets and policies: a model on hardware under a layout for a workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from kvdsl import units
from kvdsl.source import Span
from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.engine import Engine, Limits
from kvdsl.spec.formats import Format, Recipe
from kvdsl.spec.hardware import Link, Selection, Tier
from kvdsl.spec.layout import Layout
from kvdsl.spec.library import Library
from kvdsl.spec.model import Model
from kvdsl.spec.slots import (
    Bytes,
    Exact,
    Listed,
    Measured,
    Nested,
    Number,
    PerScope,
    Positive,
    PositiveBytes,
    PositiveTokens,
    Ratio,
    Referred,
    Seconds,
    Selected,
    Share,
    Special,
    Word,
    Yes,
)
from kvdsl.spec.workload import Workload
from kvdsl.syntax.nodes import Expr
from kvdsl.units import Quantity

Formats = Annotated[Recipe | None, Referred(("recipe",), "default", ("format",))]


Kept = Annotated[Exact, Ratio(above=True)]


class Budget(Block):
    utilization: Share | None = Field(
        default=None, description="of a device's memory; the engine's, else 90 %"
    )
    reserve: Bytes | None = Field(
        default=None, description="a device; the engine's overhead, else 0 B"
    )
    kv: Bytes | None = Field(
        default=None, description="a device: given outright, instead of the two"
    )


class Draft(Block):
    method: Annotated[
        Literal["mtp", "eagle", "model", "ngram"], Word(("mtp", "eagle", "model", "ngram"))
    ] = Field(description="how tokens are drafted")
    model: Annotated[Model | None, Referred(("model",))] = Field(
        default=None, description="of the method `model` or `eagle`"
    )
    layers: Number | None = Field(default=None, description="of the draft")
    tokens: Positive = Field(default=1, description="drafted in a step")
    acceptance: Share | None = Field(
        default=None, description="of a token whose forerunner was accepted"
    )


class Transfer(Block):
    over: Annotated[Link, Referred(("link",))] = Field(description="what joins the pools")
    lanes: Positive | None = Field(
        default=None,
        description="of a request; one a device that holds it, on the smaller side, unless given",
    )
    format: Annotated[Format | None, Referred(("format",))] = Field(
        default=None, description="that of kv unless given"
    )
    overlap: Annotated[Literal["none", "layerwise"], Word(("none", "layerwise"))] = Field(
        default="none", description="layerwise: blocks leave while later layers are computed"
    )
    exact: Yes = Field(default=False, description="only lossless formats")
    library: Annotated[Library | None, Referred(("library",))] = Field(
        default=None, description="what moves the bytes; the engine's unless given"
    )
    setup: Seconds | None = Field(
        default=None,
        description="of one request, before its first byte; the library's unless given",
    )
    piece: PositiveBytes | None = Field(
        default=None, description="contiguous bytes; a page of one layer on a rank unless given"
    )
    pipelined: Yes = Field(
        default=False, description="a codec encodes, sends and decodes at the same time"
    )


class Rate(Block):
    """A quantity for each of a scope."""

    value: Exact
    scope: str


class TierUse(Block):
    name: str = ""
    tier: Annotated[Tier, Referred(("tier",))] = Field(description="what it is")
    capacity: Annotated[Rate, PerScope(units.BYTES, ("device", "node", "rack", "cluster"))] = Field(
        description="must say per what"
    )
    format: Annotated[Format | None, Referred(("format",))] = Field(
        default=None, description="that of kv unless given"
    )
    chunk: PositiveTokens | None = Field(
        default=None, description="read and written as one; a page unless given"
    )
    count: Positive | None = Field(
        default=None, description="units of it where capacity is one; a node's drives, else one"
    )
    over: Annotated[Link | None, Referred(("link",))] = Field(
        default=None, description="its path to a device; the tier's link unless given"
    )
    lanes: Positive | None = Field(
        default=None, description="of that path, a node; one a device unless given"
    )
    through: Annotated[Tier | None, Referred(("tier",))] = Field(
        default=None, description="what it is staged in on the way; direct unless given"
    )
    pipelined: Yes = Field(
        default=False, description="staging, and a codec, work at the same time as the reads"
    )
    overlap: Annotated[Literal["none", "layerwise"], Word(("none", "layerwise"))] = Field(
        default="none", description="layerwise: a layer is brought while earlier ones are computed"
    )
    setup: Seconds | None = Field(
        default=None, description="of one request, before its first byte; none unless given"
    )
    store: Annotated[Literal["all", "evicted"], Word(("all", "evicted"))] = Field(
        default="all",
        description="what is written: every new prefix, or what leaves the tier above",
    )
    in_place: Yes = Field(
        default=False, description="kernels read the cache where it is, in every step"
    )


class Requirement(Block):
    """`require` or `expect`. Names of the vocabulary stay in the expressions; every other name has
    its value in `constants`, by its dotted path. `inherited`: it stands in a declaration that the
    one it is judged for extends."""

    keyword: Literal["require", "expect"]
    condition: Expr
    when: Expr | None = None
    label: str | None = None
    because: str | None = None
    constants: Mapping[str, Quantity] = Field(default_factory=dict)
    inherited: bool = False
    span: Span


class Waiver(Block):
    """`allow CODE because "…"`, and the last day on which it holds, as `2027-01-31`."""

    code: str
    because: str
    until: str | None = None
    span: Span


class Axis(Block):
    """One line of a sweep: a path of the deployment and the expressions it takes in turn."""

    path: str
    values: tuple[Expr, ...]


class Sweep(Block):
    name: str = ""
    axes: tuple[Axis, ...] = ()
    show: tuple[str, ...] = ()


class Search(Block):
    axes: tuple[str, ...] = ()
    devices: int | None = None
    minimize: str | None = None
    maximize: str | None = None


Role = Literal["prefill", "decode", "both"]


class Pool(Block):
    """What a deployment says for all its devices, and a pool for its own: None is 'as the
    deployment', and in the deployment 'not said'."""

    name: str = ""
    role: Annotated[Role, Word(("prefill", "decode", "both"))] = Field(
        default="both", description="what its devices do; its name, if that is one of these"
    )
    share: Share | None = Field(
        default=None, description="of requests; equal ones of pools that do the same unless given"
    )
    model: Annotated[Model | None, Referred(("model",))] = Field(
        default=None, description="what is served"
    )
    layout: Annotated[Layout | None, Referred(("layout",))] = Field(
        default=None, description="how it is cut over the devices"
    )
    workload: Annotated[Workload | None, Referred(("workload",))] = Field(
        default=None, description="what is asked of it"
    )
    on: Annotated[Selection | None, Selected()] = Field(
        default=None, description="where it runs; nothing joins the N of `N x`"
    )
    weights: Formats = Field(default=None, description="of the model")
    kv: Formats = Field(default=None, description="of the cache")
    keep: Kept = Field(
        default=1, description="of a request's tokens that stay in the cache, the rest evicted"
    )
    activations: Formats = Field(default=None, description="of hidden states; bf16 unless given")
    engine: Annotated[Engine | None, Referred(("engine",))] = Field(
        default=None, description="what serves it; without one everything divides exactly"
    )
    replicas: Positive | None = Field(
        default=None, description="whole copies; here or in the layout"
    )
    budget: Annotated[Budget | None, Nested()] = Field(
        default=None, description="what of the memory may be used, and for what"
    )
    limits: Annotated[Limits | None, Nested()] = Field(
        default=None, description="the engine's unless given"
    )
    draft: Annotated[Draft | None, Nested()] = Field(
        default=None, description="speculative decoding"
    )
    libraries: tuple[Library, ...] = ()
    """Those of its devices' makers, filled in by the resolver where times are fitted."""


class MeasuredRun(Block):
    """What a run of the deployment gave elsewhere: shown, and its cost reckoned; never fitted."""

    throughput: Annotated[Exact, Measured(units.TOKEN_RATE, inclusive=False)] = Field(
        description="output of the deployment"
    )


class Deployment(Declaration):
    """The resolver leaves in `pools` one complete pool at the least: without `pool` blocks it is
    one of role `both` and an empty name. What a pool does not say it has from the deployment."""

    pools: Annotated[dict[str, Pool], Special()] = Field(
        default_factory=dict,
        description="devices apart, with any of the above; else the deployment's holds",
    )
    time: Annotated[Literal["ideal", "fitted"] | None, Word(("ideal", "fitted"))] = Field(
        default=None, description="fitted with an engine, else ideal"
    )
    transfer: Annotated[Transfer | None, Nested()] = Field(
        default=None, description="how a request's cache goes from prefill to decode"
    )
    tiers: Annotated[dict[str, TierUse], Special()] = Field(
        default_factory=dict, description="memory below the devices', nearest first"
    )
    price: Annotated[
        Rate | None, PerScope(units.MONEY_RATE, ("device", "node", "rack", "cluster"))
    ] = Field(default=None, description="the catalog's unless given")
    measured: Annotated[MeasuredRun | None, Nested()] = Field(
        default=None, description="figures of a run: throughput and cost of a token are its own"
    )
    requirements: Annotated[tuple[Requirement, ...], Special()] = Field(
        default=(),
        description="what must hold, or should: a failed `expect` only warns",
    )
    waivers: Annotated[tuple[Waiver, ...], Special()] = Field(
        default=(), description="silences a finding here; one itself if it silences none"
    )
    compare: Annotated[tuple[Layout, ...], Special()] = Field(
        default=(), description="the same under other layouts"
    )
    sweeps: Annotated[tuple[Sweep, ...], Special()] = Field(
        default=(), description="all combinations of the values"
    )
    search: Annotated[Search | None, Special()] = Field(
        default=None, description="layouts within the requirements, the best first"
    )

    @property
    def ideal(self) -> bool:
        """Whether efficiencies are taken as 1: so asked, or no engine to fit."""
        if self.time is not None:
            return self.time == "ideal"
        return all(pool.engine is None for pool in self.pools.values())


class Fleet(Declaration):
    deployments: Annotated[tuple[Deployment, ...], Listed(Referred(("deployment",)))] = Field(
        description="on the same hardware, no device in two"
    )
    price: Annotated[
        Rate | None, PerScope(units.MONEY_RATE, ("device", "node", "rack", "cluster"))
    ] = Field(default=None, description="the catalog's unless given")
    requirements: Annotated[tuple[Requirement, ...], Special()] = Field(
        default=(),
        description="on sums (`gpus`, `power`, `cost.per_hour`, `cost.per_year`, "
        "`decode.throughput`) or `deployments.NAME.VALUE`",
    )


class Policy(Declaration):
    """Holds for all that is checked with it."""

    requirements: Annotated[tuple[Requirement, ...], Special()] = Field(
        default=(), description="no `allow` waives one"
    )
