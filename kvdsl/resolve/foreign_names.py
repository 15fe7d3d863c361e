"""What other tools call the attributes of kvspec, and where an attribute stands.

Comes in: the name of an attribute that its block does not have, with the text of its value. Goes
out: the attribute that was likely meant, as an example of how it is written. Not its job: telling
so (building), or names that are only misspelt (spelling).

The names are those of Hugging Face configurations, of vLLM's, SGLang's and TensorRT-LLM's options,
and of papers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kvdsl.resolve.schema import KINDS, Attribute, schema_of
from kvdsl.resolve.value_messages import example_of
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import Deployment, Pool
from kvdsl.spec.model import FORMS, Model
from kvdsl.spec.slots import (
    Count,
    Counted,
    Measured,
    Nested,
    PerScope,
    Ratio,
    Referred,
    Selected,
    Slot,
    Special,
    Table,
    Word,
)

_CALLED: Mapping[str, str] = {
    # model
    "hidden": "hidden_size d_model n_embd model_dim hidden_dim embed_dim dim",
    "vocab": "vocab_size n_vocab padded_vocab_size",
    "tied_embeddings": "tie_word_embeddings tie_embeddings",
    "max_context": "max_position_embeddings max_sequence_length n_positions n_ctx",
    "stack": "num_hidden_layers num_layers n_layers n_layer hidden_layers layers",
    "query_heads": "num_attention_heads num_heads n_heads n_head heads",
    "kv_heads": "num_key_value_heads num_kv_heads n_kv_heads num_query_groups",
    "head_dim": "head_size d_head kv_channels attention_head_dim",
    "value_dim": "v_head_dim",
    "nope_dim": "qk_nope_head_dim",
    "rope_dim": "qk_rope_head_dim rotary_dim",
    "kv_rank": "kv_lora_rank",
    "q_rank": "q_lora_rank",
    "window": "sliding_window window_size attention_window",
    "chunk": "attention_chunk_size",
    "intermediate": "intermediate_size ffn_dim ffn_hidden_size d_ff n_inner moe_intermediate_size",
    "experts": "num_experts n_routed_experts num_local_experts n_experts",
    "active": "num_experts_per_tok num_experts_per_token top_k moe_top_k experts_per_token",
    "shared_experts": "n_shared_experts num_shared_experts",
    "groups": "n_group num_expert_group",
    "top_groups": "topk_group",
    # layout
    "tp": "tensor_parallel_size tensor_parallel tensor_model_parallel_size tp_size tp_degree",
    "pp": "pipeline_parallel_size pipeline_parallel pipeline_model_parallel_size pp_size stages",
    "dp": "data_parallel_size data_parallel dp_size dp_attention enable_dp_attention",
    "ep": "expert_parallel_size expert_parallel enable_expert_parallel ep_size moe_ep_size",
    "cp": "context_parallel_size context_parallel decode_context_parallel_size dcp dcp_size cp_size"
    " sequence_parallel",
    "pcp": "prefill_context_parallel_size",
    "redundant": "num_redundant_experts ep_num_redundant_experts",
    # deployment
    "on": "gpus gpu hardware devices device cluster nodes node num_gpus machine",
    "weights": "dtype torch_dtype quantization weight_dtype precision",
    "kv": "kv_cache_dtype kv_dtype kv_cache kv_format kv_cache_memory_bytes",
    "utilization": "gpu_memory_utilization mem_fraction_static memory_fraction",
    "replicas": "num_replicas replica_count instances",
    "compare": "compares alternatives",
    # workload
    "prompt": "input inputs input_len input_length prompt_len isl prompt_tokens input_tokens",
    "output": "outputs output_len output_length osl max_tokens max_new_tokens output_tokens",
    "context": "seq_len sequence_length context_length ctx_len max_model_len max_seq_len",
    "concurrency": "batch_size batch max_batch_size max_num_seqs max_running_requests users"
    " requests in_flight",
    "rate": "request_rate qps rps arrival_rate",
    "prefix_hits": "prefix_hit_rate cache_hit_rate prefix_cache_hit_rate hit_rate",
    # hardware
    "memory": "hbm vram memory_size capacity memory_capacity gpu_memory",
    "bandwidth": "speed memory_bandwidth mem_bandwidth hbm_bandwidth bw",
    "compute": "flops tflops peak_flops",
    "power": "tdp watts",
    "scale_up": "nvlink nvswitch intra_node pcie",
    "fabric": "network interconnect inter_node",
}  # fmt: skip

_OWN: Mapping[str, str] = MappingProxyType(
    {foreign: own for own, names in _CALLED.items() for foreign in names.split()}
)

USUAL = ("model", "layout", "workload", "deployment")

FORM_NAMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "mha": ("gqa", "write `gqa`, with as many `kv_heads` as `query_heads`"),
        "mqa": ("gqa", "write `gqa`, with `kv_heads = 1`"),
        "swiglu": ("gated", "write `gated`: three matrices"),
        "geglu": ("gated", "write `gated`: three matrices"),
        "glu": ("gated", "write `gated`: three matrices"),
        "mlp": ("gated", "write `gated` for three matrices, `plain` for two"),
        "dense": ("gated", "write `gated` for three matrices, `plain` for two"),
    }
)
"""Forms of parts by other names, and what to write."""

_ANSWERED: Mapping[str, str] = {
    "prefill.ttft": "ttft time_to_first_token first_token_latency prefill_latency",
    "decode.tpot": "tpot itl tbt time_per_output_token inter_token_latency token_latency"
    " time_between_tokens",
    "decode.throughput": "throughput tokens_per_second tps tok_s output_throughput",
    "kv.tokens": "kv_tokens capacity cache_tokens num_tokens max_num_tokens",
    "kv.sequences": "max_num_seqs max_concurrency max_batch_size sequences",
    "cost.per_mtok": "cost price cost_per_token cost_per_million usd_per_mtok cost_per_mtok",
    "cost.per_hour": "cost_per_hour usd_per_hour price_per_hour",
    "memory.weights": "weights weight_memory model_memory",
    "memory.kv": "kv_cache_memory cache_memory",
    "memory.free": "free_memory headroom",
    "gpus": "num_gpus gpu_count n_gpus devices",
    "power": "watts power_draw",
    "workload.prompt": "isl input_len input_length prompt_len input_tokens",
    "workload.output": "osl output_len output_length max_tokens output_tokens",
    "workload.context": "max_model_len seq_len context_length",
    "workload.concurrency": "batch_size batch users max_running_requests",
    "workload.rate": "qps rps request_rate",
    "budget.utilization": "gpu_memory_utilization mem_fraction_static",
    "layout.tp": "tensor_parallel_size tensor_parallel tp_size",
    "layout.pp": "pipeline_parallel_size pipeline_parallel pp_size",
}
"""What others call the values that a plan answers."""

_ASKED: Mapping[str, str] = MappingProxyType(
    {foreign: own for own, names in _ANSWERED.items() for foreign in names.split()}
)

_RANK = re.compile(r"(p[0-9]{2,3}|mean|avg|average|median|max|min)")
"""Which of many requests is asked: `ttft.p99`, `p99_ttft`."""


def answered_name(foreign: str) -> tuple[str, str]:
    """(the value of a plan that is called so elsewhere, what of the name has no place here)."""
    plain = foreign.lower().replace("-", "_")
    words = [word for part in plain.split(".") for word in part.split("_")]
    rank = next((word for word in words if _RANK.fullmatch(word)), "")
    bare = re.sub(r"_(ms|s|us|seconds)$", "", "_".join(w for w in words if w != rank))
    for name in (plain, bare, bare.split("_", 1)[-1]):
        if own := _ASKED.get(name):
            return own, rank if name != plain and rank != "mean" else ""
    return "", ""


STATEMENTS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("slo", "slos", "sla", "slas", "targets", "target", "goals", "goal", "objectives",
         "constraints", "requirements", "thresholds"),
        "what must hold is a line of its own, as in `require decode.tpot < 40 ms`",
    )
)  # fmt: skip
"""Blocks of other tools that are statements here."""

_WRITTEN: Mapping[str, str] = MappingProxyType(
    {
        "stack": "stack {{ {value} x layer {{ … }} }}",
        "compare": "compare {value}",
        "compute": "compute {{ bf16 = … }}",
        "scale_up": "scale_up {{ link = links.NAME; shape = switch }}",
        "fabric": "fabric = links.NAME",
    }
)
"""How an attribute is written that has no plain value."""


def own_name(foreign: str) -> str:
    """The attribute of kvspec that is called so elsewhere; the name itself where none is."""
    return _OWN.get(foreign.lower().replace("-", "_"), foreign)


def homes(model: type[Block], name: str, value: str) -> Iterator[str]:
    """How an attribute is written from inside a block: as it stands, or in a block of its own."""
    if _takes(model, name, value) or (model is Deployment and _takes(Pool, name, value)):
        yield _line(model, name, value)
    for attribute in _with_blocks(model):
        if attribute.block is not None and _takes(attribute.block, name, value):
            yield f"{attribute.name} {{ {_line(attribute.block, name, value)} }}"
    for sort, forms in FORMS.items() if model is Model else ():
        for word, form in forms.items():
            if name in schema_of(form).attributes:
                yield f"{sort} NAME = {word} {{ {_line(form, name, value)} }}"


def _takes(model: type[Block], name: str, value: str) -> bool:
    """Whether a block has the attribute, and one that can be written with such a value: `vocab` of
    a model is a number, that of a layout a block; `kv` of a budget is no format."""
    attribute = schema_of(model).attributes.get(name)
    if attribute is None or name in _WRITTEN or value == "…":
        return attribute is not None
    return any(_stands(slot, name, value) for slot in attribute.slots)


def _stands(slot: Slot, name: str, value: str) -> bool:
    """Whether a value of another tool could stand there, once it has its unit or its catalog."""
    number = bool(_PLAIN.fullmatch(value.split(" ", maxsplit=1)[0].rstrip("%")))
    quoted = value.startswith('"')
    match slot:
        case Measured() | Count() | Ratio() | PerScope():
            return not quoted and not value.isidentifier()
        case Referred(kinds=("recipe",)):
            return not number
        case Referred() | Counted() | Selected() | Word():
            return not quoted and (not number or " x " in value or name == "on")
        case Nested() | Table() | Special():
            return False
        case _:
            return True


def home_blocks(model: type[Block], name: str) -> Iterator[str]:
    """Attributes of a block that are blocks of their own with an attribute of that name."""
    for attribute in _with_blocks(model):
        if attribute.block is not None and name in schema_of(attribute.block).attributes:
            yield attribute.name


def _with_blocks(model: type[Block]) -> list[Attribute]:
    """Attributes that are blocks of their own; behind them those that may be, such as `layout`."""
    every = [a for above in (model, Pool) for a in schema_of(above).attributes.values()
             if above is model or model is Deployment]  # fmt: skip
    found = [a for a in every if not a.special and a.block is not Model]
    return sorted(found, key=lambda a: a.block in KINDS.values())


def elsewhere(name: str, value: str) -> Iterator[tuple[str, str]]:
    """(kind, how it is written there), for every kind of declaration that has an attribute: first
    for what most specs declare."""
    for kind, model in sorted(KINDS.items(), key=lambda item: item[0] not in USUAL):
        for written in homes(model, name, value):
            yield kind, written


def _line(model: type[Block], name: str, value: str) -> str:
    if name in _WRITTEN:
        told, stead = ("isidentifier", "NAME") if name == "compare" else ("isdecimal", "N")
        return _WRITTEN[name].format(value=value if getattr(value, told)() else stead)
    if name == "on" and value.isdecimal():
        return f"on = {value} x {'devices' if model is Deployment else 'nodes'}.NAME"
    schema = schema_of(Pool if model is Deployment else model)
    attribute = schema.attributes.get(name) or schema_of(model).attributes.get(name)
    return f"{name} = {_valued(attribute, value) if attribute else value}"


def _valued(attribute: Attribute, value: str) -> str:
    """The value with what this language wants of it: its unit, the catalog before its name."""
    for slot in attribute.slots:
        if isinstance(slot, Measured) and _PLAIN.fullmatch(value):
            return f"{value} {example_of(attribute.name, slot.dimension).split(' ', 1)[1]}"
        text = value.strip('"')
        if isinstance(slot, Referred) and slot.kinds == ("recipe",) and text.isidentifier():
            return f"formats.{_FORMATS.get(text, text)}"
    return value


_FORMATS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float8": "fp8",
    "float32": "fp32",
}
"""Formats by the names of frameworks."""

_PLAIN = re.compile(r"[0-9][0-9_.]*")
