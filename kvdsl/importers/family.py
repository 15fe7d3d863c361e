"""The rules of a class of models, as a record: what its configs leave unsaid.

Not its job: which class has which rules (families), or how a rule is applied (attention,
feed_forward, stacks).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Sides = tuple[str, ...]
ALL: Sides = ("q", "k", "v", "o")
QKV: Sides = ("q", "k", "v")


@dataclass(frozen=True, slots=True)
class Family:
    """Rules of one class. `*_key` names the key that decides; the value beside it is what the
    class takes where the key is absent."""

    kv_heads: str = "required"
    """Where the key is absent: `required`, `mha` (as many as query heads) or `falcon`."""
    multi_query: bool = False
    """The key `multi_query`, on by default, means one KV head."""
    head_dim: int | None = None
    tied: bool = False
    bias: Sides = ()
    bias_key: str = "attention_bias"
    bias_sides: Sides = ALL
    bias_default: bool = False
    qk_norm: str = "none"
    """Of every layer; with a key, what the class takes where the key is absent."""
    qk_norm_key: str = ""
    qk_norm_bias: bool = False
    gate: str = "none"
    gate_key: str = ""
    sinks: bool = False
    norms: int | None = None
    """Norms of width hidden a layer; None: as many as the layer has parts."""
    norm_bias: bool = False
    norm_weight: bool = True
    head_bias: bool = False
    head_bias_key: str = ""
    embedding_norm: bool = False
    positions: str = ""
    positions_more: int = 0
    kinds: str = "full"
    """The rule of layer kinds where the config has no `layer_types`."""
    window_default: int | None = None
    linear: str = "gated_delta"
    feed_forward: str = "gated"
    ffn_bias: bool = False
    ffn_bias_key: str = "mlp_bias"
    ffn_times: int | None = None
    """Width of the feed-forward in widths of the model, where no key gives it."""
    ffn_keys: tuple[str, ...] = ("intermediate_size",)
    sparse: str = "none"
    """Which layers have experts: none, all, first_dense, step, llama4, period."""
    expert_keys: tuple[str, ...] = ("moe_intermediate_size",)
    expert_gated: bool = True
    expert_bias: bool = False
    router_bias: bool = False
    score_bias: bool = False
    score_key: str = ""
    """A key that turns the score bias off or on; `sigmoid`: `scoring_func` does."""
    shared: str = "none"
    """Shared experts: none, count, width, width_gated, one."""
    norm_rule: str = ""
    """`falcon`, `parallel`, `post`: keys of the class say how many norms a layer has."""
    stack: str = "blocks"
    """How layers are made: blocks of attention and feed-forward, or a rule of its own."""
    more_rows: int = 0
    """Rows of the embedding that the head does not have: for images, in mllama."""
    norms_of_layers: bool = False
    """Each layer says how many norms it has, so the model says nothing."""
    copies_key: str = ""
    """The key that says into how many copies the hidden state is spread (hyper-connections)."""
    beside: tuple[tuple[str, str, int], ...] = ()
    """Parameters of a part that no key tells: the sort of part, a width of it (`heads`, `head`,
    `width` or `one`), and how many times."""
    mixer_norms: bool = False
    """Mamba-1: norms of the step and of what goes in and out of the state."""
    gated_norm: bool = True
    """Mamba-2: a norm before the output, where the key `mamba_rms_norm` does not say."""
    one_for_all: tuple[str, ...] = ()
    """Keys that may be lists, with one item a layer; all items must be equal."""
    ffn_halves: bool = False
    """The width in the file is that of gate and up together."""
    router_also: str = ""
    """The key of experts that a router scores and that have no weights."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, int] = field(default_factory=dict)
    """What the class takes where a published config leaves a key out."""
    needed: tuple[str, ...] = ()
    """Keys whose absence the class fills with a figure of one model: then the config is refused.
    A null is no absence."""
    ignored: tuple[str, ...] = ()
    """Keys of this class that decide no size."""
