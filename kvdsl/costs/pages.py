"""Pages: how an engine cuts the room of a rank into blocks, and how many a request takes.

Comes in: what a rank of a stage keeps, and the engine's policy. Goes out: groups of layers that
share a pool of pages, the bytes of a page, and the pages of a request. Not its job: the room
(memory), or what follows for a holder (capacity).

A pool hands out one kind of page. Layers of one kind (full attention, one width of window, one
state) lie in groups of equal size; a page id stands for one page in every layer of a group, so that
it costs the widest group, and a request takes pages in every group. Source: vLLM 0.33.0,
v1/core/kv_cache_planning.py and v1/kv_cache_interface.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from kvdsl.costs.cache import component_bytes
from kvdsl.placement.cache import Component
from kvdsl.placement.placement import Stage
from kvdsl.placement.shares import CacheShard
from kvdsl.placement.subject import Subject
from kvdsl.recall import Recall
from kvdsl.spec.engine import Engine, HybridCache

EVEN_GROUPS = Fraction(3, 2)
"""Kinds whose largest has fewer than so many times the layers of the smallest share groups of the
largest; else groups of the smallest. vLLM 0.33.0, v1/core/kv_cache_planning.py."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Layers of one kind on a rank. `block` tokens a page, of the rank's own run of the sequence;
    `groups` of the pool; `limit` tokens of a window, 0 where all are kept; `record` bytes of a
    token in all its layers; `state` pages that a request takes once, instead of by tokens; `keep`
    is the share of tokens that are not evicted."""

    word: str
    layers: int
    groups: int
    block: int
    limit: int
    spare: int
    state: int
    record: Fraction
    ways: int
    keep: Fraction = Fraction(1)

    def blocks(self, length: int) -> int:
        """Pages of a request of so many tokens in one group."""
        if self.state:
            return self.state
        kept = -(-ceil(length * self.keep) // self.ways)
        if self.limit:
            return -(-min(self.limit, kept) // self.block) + self.spare
        return -(-kept // self.block)


@dataclass(frozen=True, slots=True)
class Pool:
    """Pages of one size that all kinds draw from. `tokens` of the whole sequence a page of full
    attention stands for."""

    kinds: tuple[Kind, ...]
    page: Fraction
    tokens: int

    @property
    def uniform(self) -> bool:
        """Whether every token takes as much of a page as any other."""
        return all(not k.state and not k.limit and k.keep == 1 for k in self.kinds)

    @property
    def whole(self) -> Pool:
        """The same without eviction, of which an engine knows nothing when it starts."""
        kinds = tuple(replace(kind, keep=Fraction(1)) for kind in self.kinds)
        return replace(self, kinds=kinds)

    def blocks(self, length: int) -> int:
        """Pages of a request of so many tokens."""
        return sum(k.groups * k.blocks(length) for k in self.kinds)

    def shared(self, length: int) -> int:
        """Pages of a prefix of so many tokens that all requests hold in common: those of full
        attention, whole ones."""
        full = (k for k in self.kinds if not k.state and not k.limit)
        return sum(k.groups * (ceil(length * k.keep) // (k.block * k.ways)) for k in full)


def page_tokens(engine: Engine, stage: Stage) -> int:
    """Tokens of a page: the engine's, or the largest that a cache of the stage wants."""
    found = [engine.block]
    forms = {s.part.form for s in stage.cache}
    if engine.blocks is not None:
        wanted = (
            ("mla", engine.blocks.mla),
            ("indexer", engine.blocks.indexer),
            ("compressed", engine.blocks.compressed),
        )
        found += [size for form, size in wanted if size is not None and form in forms]
    return max(found)


def token_bytes(share: CacheShard, *, even: bool = False) -> Fraction:
    """Bytes of a token in one layer on a rank that keeps the token; `even` takes KV heads over TP
    however few they are."""
    found = Fraction(0)
    for component, cut in share.heads:
        whole = even and component.dimension == "kv_heads"
        held = Fraction(1, cut.size) if whole else cut.held
        found += Fraction(_whole(component)) * held
    return found / share.part.every


def _whole(component: Component) -> Fraction:
    return Fraction(component_bytes(component) * component.heads)


def pool(subject: Subject, stage: Stage, *, counted: bool = False) -> Pool | None:
    """The pool of pages of a rank of a stage; None where parts have pools of their own. `counted`
    takes a token's bytes as the engine counts them when it sizes the pool."""
    engine = subject.engine
    if engine is None or not stage.cache:
        return None
    return _KNOWN.get(
        (subject, stage), (counted,), lambda: _pool(subject, stage, engine, counted=counted)
    )


_KNOWN: Recall[Pool | None] = Recall(64)
"""Rules ask for the pool of a stage at one length after the other."""


def _pool(subject: Subject, stage: Stage, engine: Engine, *, counted: bool) -> Pool | None:
    shares = [s for s in stage.cache if s.part.growth != "request" or s.part.state]
    uneven = [s for s in shares if s.part.growth != "token"]
    if engine.hybrid == "full":
        uneven = [s for s in uneven if s.part.state]
    if not uneven and len(shares) == len(stage.cache):
        found = _uniform(stage, engine, shares, even=counted and engine.sizing == "even")
    elif engine.hybrid == "one_pool":
        found = _mixed(subject, stage, engine, shares)
    else:
        return None
    return replace(found, kinds=tuple(replace(k, keep=subject.keep) for k in found.kinds))


def _uniform(stage: Stage, engine: Engine, shares: list[CacheShard], *, even: bool) -> Pool:
    """All layers in one group: a page is the plain sum of theirs."""
    size = page_tokens(engine, stage)
    # A page id stands for a page on each rank of the sequence; a page of one token is that token,
    # on one of them. Keys that every cp rank keeps stand for as many tokens as the others' pages.
    ways = max(s.tokens.size for s in shares) if size > 1 else 1
    record = sum(
        (token_bytes(s, even=even) * s.layers * ways / s.tokens.size for s in shares),
        start=Fraction(0),
    )
    layers = sum(s.layers for s in shares)
    kind = Kind("full attention", layers, 1, size, 0, 0, 0, record, ways)
    return Pool((kind,), record * size, size * ways)


# --- kinds that share a pool --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers whose pages are alike, before they are grouped."""

    word: str
    limit: int
    state: bool
    layers: int
    bytes: Fraction
    """Of a token in one layer, or of a state."""
    ways: int


def _mixed(subject: Subject, stage: Stage, engine: Engine, shares: list[CacheShard]) -> Pool:
    how = engine.hybrid_cache or HybridCache()
    buckets = _buckets(shares)
    block = _block(page_tokens(engine, stage), how, buckets)
    widest = max(b.bytes if b.state else b.bytes * block for b in buckets)
    counts = [b.layers for b in buckets]
    size = max(counts) if max(counts) < EVEN_GROUPS * min(counts) else min(counts)
    kinds = []
    for bucket in buckets:
        groups = -(-bucket.layers // size)
        if bucket.state:
            kinds.append(
                Kind(bucket.word, bucket.layers, groups, 0, 0, 0, how.state_copies,
                     bucket.bytes * bucket.layers, 1)
            )  # fmt: skip
            continue
        # A smaller page that divides the widest stands for more tokens; another is padded.
        page = bucket.bytes * block
        own = block * int(widest / page) if (widest / page).denominator == 1 else block
        limit = _kept(subject, how, bucket.limit) if bucket.limit else 0
        spare = how.window_spare if bucket.limit else 0
        kinds.append(
            Kind(bucket.word, bucket.layers, groups, own, limit, spare, 0,
                 bucket.bytes * bucket.layers, bucket.ways)
        )  # fmt: skip
    full = next((k for k in kinds if not k.limit and not k.state), kinds[0])
    return Pool(tuple(kinds), widest * size, max(full.block, 1) * full.ways)


def _buckets(shares: list[CacheShard]) -> list[_Bucket]:
    """Layers of full attention together, windows by their width, states by their size."""
    found: dict[tuple[str, int, Fraction], _Bucket] = {}
    for share in shares:
        part = share.part
        each = token_bytes(share)
        limit = part.limit if part.growth == "window" else 0
        word = "states" if part.state else f"window of {limit:,}" if limit else "full attention"
        key = (word, limit, each)
        known = found.get(key)
        layers = share.layers + (known.layers if known else 0)
        found[key] = _Bucket(word, limit, part.state, layers, each, share.tokens.size)
    return list(found.values())


def _block(size: int, how: HybridCache, buckets: list[_Bucket]) -> int:
    """Tokens of a page, raised until a page of attention holds a state."""
    states = [b.bytes for b in buckets if b.state]
    tokens = [b.bytes for b in buckets if not b.state]
    if not states or not tokens or how.state_block is None:
        return size
    step = how.state_block
    return max(size, step * int(-(-max(states) // (step * max(tokens)))))


def _kept(subject: Subject, how: HybridCache, window: int) -> int:
    """Tokens that a window holds: its own but the newest, and those of steps in flight."""
    if how.window_steps is None:
        return window
    step = subject.limits.step or 0
    return window - 1 + step * (subject.degrees.pp + how.window_steps)
