"""Shares: how much of each tensor and cache component a rank of a stage holds.

Comes in: tensors, cache parts and degrees. Goes out: shards with their cuts. The policy of an
engine says which modules it copies; without one every module divides exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from kvdsl.placement.atoms import Cut
from kvdsl.placement.cache import CachePart, Component
from kvdsl.placement.degrees import Degrees
from kvdsl.placement.depths import Depths
from kvdsl.placement.tensor import Tensor
from kvdsl.spec.engine import Engine

OUTPUT = frozenset({"o", "o_down", "o_up"})
"""Tensors of the output projection."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A tensor's share on each rank of a stage: `depths` are its layers there, `held` is the
    part of each, `copies` the ranks of the stage that hold each byte."""

    tensor: Tensor
    depths: Depths
    cuts: tuple[Cut, ...]
    mesh: str
    size: int

    @property
    def layers(self) -> int:
        return self.depths.count

    def in_layers(self, depths: Depths) -> Shard:
        """The same of other layers."""
        return Shard(self.tensor, depths, self.cuts, self.mesh, self.size)

    @property
    def held(self) -> Fraction:
        return Fraction(1, self.parts)

    @property
    def parts(self) -> int:
        """How many such parts make the tensor."""
        return prod([cut.parts for cut in self.cuts])

    @property
    def copies(self) -> Fraction:
        return self.held * self.size


@dataclass(frozen=True, slots=True)
class CacheShard:
    """A cache part's share on each rank of a stage, for the requests of its DP rank: per
    component the cut of its heads or columns; `tokens` the cut of the sequence."""

    part: CachePart
    layers: int
    heads: tuple[tuple[Component, Cut], ...]
    tokens: Cut
    ranks: int
    """Ranks that share the requests of one DP rank in this stage."""


def shard(tensor: Tensor, depths: Depths, degrees: Degrees, engine: Engine | None) -> Shard:
    mesh, cuts = _cuts(tensor, degrees, engine)
    return Shard(tensor, depths, cuts, mesh, degrees.size)


@dataclass(frozen=True, slots=True)
class Spread:
    """How a width-cut module lies over a stage: in `tp` pieces on an axis of a mesh, the requests
    shared out over `dp` parts. `own`: each set of ranks that owns tokens has a copy, also those
    that a prompt is cut over (pcp), and works on its own tokens."""

    mesh: str
    dp: int
    tp: int
    own: bool = False

    def parts(self, owners: int) -> int:
        """Parts of the tokens in a phase in which so many sets of ranks own different ones."""
        return owners if self.own else self.dp


def spread(module: str, degrees: Degrees, engine: Engine | None) -> Spread:
    """Where a module with a width or vocabulary lies, by the layout and the engine's policy.
    Weights and exchanges both follow from it."""
    policy = _policy(engine, module)
    attention = degrees.attention
    if module == "shared_experts" and engine is not None and attention.dp > 1:
        under_dp = engine.shared_experts_dp if degrees.experts.ep > 1 else None
        policy = under_dp or policy
    if policy == "copy":
        # Every device has all of it and works on the tokens of its own DP rank.
        return Spread("stage", attention.dp, 1, own=True)
    if policy == "attention":
        ways = attention.tp
        if engine is not None and engine.cp_weights == "split":
            ways *= attention.cp
        if ways < degrees.size:
            return Spread("attention", attention.dp, ways, own=True)
    if module in ("embedding", "head"):
        return Spread("vocab", degrees.vocab.dp, degrees.vocab.tp)
    if module == "shared_experts":
        return Spread("shared_experts", degrees.shared.dp, degrees.shared.tp)
    return Spread("ffn", degrees.ffn.dp, degrees.ffn.tp)


def _cuts(tensor: Tensor, degrees: Degrees, engine: Engine | None) -> tuple[str, tuple[Cut, ...]]:
    attention = degrees.attention
    module, cut = tensor.module, tensor.cut
    if cut == "copies":
        return "stage", ()
    if module == "tower":
        return "stage", () if cut == "copy" else (Cut("tower", None, "stage", degrees.size),)
    if module in ("attention", "state_mixer"):
        return "attention", _attention_cuts(tensor, degrees, engine)
    if module == "indexer":
        split = _policy(engine, "indexer") != "copy"
        return "attention", (Cut(cut, None, "attention.tp", attention.tp),) if split else ()
    if module == "routed_experts":
        return "experts", _expert_cuts(tensor, degrees)
    lies = spread(module, degrees, engine)
    if lies.mesh == "stage":
        return "stage", ()
    if lies.mesh == "attention" and lies.tp > attention.tp:
        cuts = (Cut(cut, None, "attention.tp", attention.tp),
                Cut(cut, None, "attention.cp", attention.cp))  # fmt: skip
        return lies.mesh, cuts
    return lies.mesh, (Cut(cut, None, f"{lies.mesh}.tp", lies.tp),)


def _policy(engine: Engine | None, module: str) -> str:
    """How an engine shares a module out. Without an engine everything divides."""
    if engine is None:
        return "split"
    policy = _POLICIES.get(module)
    return policy(engine) if policy is not None else "split"


_POLICIES: Mapping[str, Callable[[Engine], str]] = {
    "embedding": lambda engine: engine.embedding,
    "head": lambda engine: engine.head,
    "ffn": lambda engine: engine.ffn,
    "shared_experts": lambda engine: engine.shared_experts,
    "norms": lambda engine: engine.norms,
    "router": lambda engine: engine.router,
    "mtp": lambda engine: engine.router,
    "latent_projection": lambda engine: engine.latent_projections,
    "indexer": lambda engine: engine.indexer,
}


def _attention_cuts(tensor: Tensor, degrees: Degrees, engine: Engine | None) -> tuple[Cut, ...]:
    """Attention weights are split over its tp alone, and over cp where the engine cuts them."""
    attention = degrees.attention
    policy = _policy(engine, "latent_projection" if tensor.cut == "latent_projection" else "")
    if policy == "copy" or (tensor.cut == "norm" and _policy(engine, "norms") == "copy"):
        return ()
    # An engine places whole heads; without one the weights divide like any matrix.
    whole = engine is not None and tensor.cut == "kv_heads"
    cuts = [Cut(tensor.cut, tensor.atoms if whole else None, "attention.tp", attention.tp)]
    over_all = attention.output_split and tensor.name in OUTPUT
    if over_all or (engine is not None and engine.cp_weights == "split"):
        # Heads that tp has cut to one are not cut again.
        rest = max(1, tensor.atoms // attention.tp) if whole else None
        cuts.append(Cut(tensor.cut, rest, "attention.cp", attention.cp))
    return tuple(cuts)


def _expert_cuts(tensor: Tensor, degrees: Degrees) -> tuple[Cut, ...]:
    """Redundant experts are further copies: each rank holds (experts + redundant) / ep of them."""
    experts = degrees.experts
    inside = Cut("width", None, "experts.tp", experts.tp)
    if tensor.cut != "experts":
        return (Cut(tensor.cut, None, "experts.ep", experts.ep), inside)
    return (Cut("experts", None, "experts.ep", experts.ep), inside)


def redundancy(tensor: Tensor, degrees: Degrees) -> int | Fraction:
    """How many times over the experts of a layer are stored: 1 + redundant / experts."""
    if tensor.cut != "experts" or not degrees.experts.redundant:
        return 1
    return 1 + Fraction(degrees.experts.redundant, tensor.atoms)


def cache_shard(
    part: CachePart, layers: int, degrees: Degrees, engine: Engine | None = None
) -> CacheShard:
    attention = degrees.attention
    heads = []
    for component in part.components:
        atoms = component.heads
        if component.dimension == "latent" and attention.latent_split:
            atoms = component.width
        heads.append((component, Cut(component.dimension, atoms, "attention.tp", attention.tp)))
    # A state has no tokens: each rank of the sequence has it whole. An engine may copy the keys
    # of an indexer too.
    copied = part.form == "indexer" and engine is not None and engine.index_cache == "copy"
    ways = 1 if part.state or copied else attention.cp
    tokens = Cut("tokens", None, "attention.cp", ways)
    ranks = attention.size // attention.dp
    return CacheShard(part, layers, tuple(heads), tokens, ranks)
