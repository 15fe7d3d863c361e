"""What a class of models takes for granted: the rules of a `model_type`, as data.

A config does not say what its class fixes: whether the query has a bias, whether the head is tied
when the key is absent, which layers slide. This is the one place of kvdsl that names model types;
how a rule is applied is general (attention, feed_forward, stateful).

Source: the configuration and modeling classes of transformers 5.24.0, and the released modeling
code where it has none. Checked against 82 published configs (tests/known).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from kvdsl.importers.family import ALL, QKV, Family

_LLAMA = Family(kv_heads="mha")
_QWEN3 = Family(head_dim=128, qk_norm="per_head", kinds="qwen_window")
_QWEN3_MOE = replace(_QWEN3, head_dim=None, sparse="step", ignored=("use_qk_norm",))
_NEXT = replace(
    _QWEN3_MOE, head_dim=256, gate="per_element", kinds="interval", shared="width_gated"
)
_DEEPSEEK = Family(
    kv_heads="mha", sparse="first_dense", shared="count",
    needed=("first_k_dense_replace", "n_shared_experts"),
)  # fmt: skip
_LATENT = ("kv_lora_rank", "q_lora_rank")
_DEEPSEEK_2 = replace(_DEEPSEEK, needed=(*_DEEPSEEK.needed, *_LATENT))
_DEEPSEEK_3 = replace(_DEEPSEEK_2, score_bias=True)
_INDEXED = replace(_DEEPSEEK_3, needed=(*_DEEPSEEK_3.needed, "index_n_heads"))
_GLM_MOE = Family(
    needed=("first_k_dense_replace", "n_shared_experts"), bias_sides=QKV,
    qk_norm_key="use_qk_norm:per_head", sparse="first_dense", shared="count",
    score_bias=True,
)  # fmt: skip
_GEMMA = Family(head_dim=256, tied=True)
_GEMMA_3 = replace(_GEMMA, norms=4, qk_norm="per_head", kinds="pattern", window_default=4096)
_COHERE = Family(kv_heads="mha", tied=True, norms=1, qk_norm_key="use_qk_norm:full")
_OLD = Family(
    kv_heads="mha", bias=ALL, bias_key="", norm_bias=True, feed_forward="plain", ffn_bias=True,
    ffn_bias_key="",
)  # fmt: skip
_GPT_NAMES = MappingProxyType(
    {
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
        "n_inner": "intermediate_size",
    }
)
_NUM_LAYERS = MappingProxyType({"num_layers": "num_hidden_layers"})
_SHORT_NAMES = MappingProxyType(
    {"d_model": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers"}
)
_SAME = ("intermediate_size",)
"""Experts as wide as a dense part would be, by the same key."""
_MISTRAL = Family(kinds="all_window", window_default=4096)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": _LLAMA,
        "granite": _LLAMA,
        "cwm": Family(head_dim=128),
        "helium": replace(_LLAMA, head_dim=128, bias_sides=QKV),
        "baichuan": _LLAMA,
        "internlm": replace(_LLAMA, bias_key="bias", bias_default=True),
        "internlm2": replace(_LLAMA, bias_key="bias", bias_default=True),
        "minicpm": replace(_LLAMA, tied=True, ignored=("dim_model_base", "scale_depth")),
        "minicpm3": replace(_LLAMA, tied=True, ignored=("dim_model_base", "scale_depth")),
        "youtu": replace(_LLAMA, tied=True),
        "smollm3": Family(tied=True),
        "internlm3": Family(bias_key="qkv_bias", bias_sides=QKV),
        "seed_oss": Family(bias_sides=QKV, bias_default=True, head_dim=128),
        "ernie4_5": Family(bias_key="use_bias", ffn_bias_key="use_bias", tied=True, head_dim=128),
        "ernie4_5_moe": Family(
            bias_key="use_bias", ffn_bias_key="use_bias", tied=True, sparse="range",
            shared="count", score_bias=True, aliases={"moe_k": "num_experts_per_tok"},
            defaults={"moe_num_shared_experts": 2},
            ignored=("moe_capacity", "moe_gate", "moe_use_aux_free"),
        ),
        "apertus": replace(
            _LLAMA, feed_forward="plain", qk_norm="per_head", ignored=("qk_norm", "post_norm"),
            beside=(("ffn", "one", 4),),
        ),
        "bitnet": Family(
            beside=(("attention", "heads", 1), ("ffn", "width", 1))
        ),
        "diffllama": replace(_LLAMA, beside=(("attention", "head", 4),)),
        "nanochat": replace(_LLAMA, feed_forward="plain", norm_weight=False),
        "exaone": Family(aliases=_NUM_LAYERS),
        "qwen": Family(
            kv_heads="mha", bias=QKV, bias_key="", ffn_halves=True,
            ignored=("kv_channels", "no_bias"),
        ),
        "chatglm": Family(
            kv_heads="mha", bias_key="add_qkv_bias", bias_sides=QKV,
            ffn_bias_key="add_bias_linear",
            aliases={
                **_NUM_LAYERS, "padded_vocab_size": "vocab_size",
                "ffn_hidden_size": "intermediate_size",
                "multi_query_group_num": "num_key_value_heads",
            },
            ignored=("multi_query_attention", "post_layer_norm"),
        ),
        "hunyuan_v1_dense": replace(
            _LLAMA, qk_norm="per_head", qk_norm_key="use_qk_norm:per_head", kinds="shared_every"
        ),
        "arcee": replace(_LLAMA, feed_forward="plain"),
        "nemotron": replace(_LLAMA, feed_forward="plain", norm_bias=True),
        "glm": Family(bias_sides=QKV, bias_default=True, head_dim=128),
        "glm4": Family(bias_sides=QKV, bias_default=True, head_dim=128, norms=4),
        "olmo": replace(_LLAMA, norm_weight=False),
        "olmo_1124": replace(_LLAMA, qk_norm="full"),
        "olmo2": replace(_LLAMA, qk_norm="full"),
        "olmo3": replace(_LLAMA, qk_norm="full", kinds="pattern4", window_default=4096),
        "olmo_hybrid": replace(_LLAMA, qk_norm="full", ignored=("linear_allow_neg_eigval",)),
        "flex_olmo": replace(_LLAMA, qk_norm="full", sparse="all", expert_keys=_SAME),
        "olmoe": replace(_LLAMA, qk_norm="full", sparse="all", expert_keys=_SAME),
        "exaone4": Family(qk_norm="per_head", kinds="pattern4", window_default=4096),
        "stablelm": Family(
            norm_bias=True, bias_key="use_qkv_bias", bias_sides=QKV,
            norm_rule="parallel", qk_norm_key="qk_layernorm:full",
        ),
        "granite_swa": replace(_LLAMA, sinks=True),
        "granitemoe_swa": replace(_LLAMA, sinks=True, sparse="all", expert_keys=_SAME),
        "hyperclovax": replace(_LLAMA, norm_rule="post"),
        "granitemoe": replace(_LLAMA, sparse="all", expert_keys=_SAME),
        "granitemoeshared": replace(
            _LLAMA, sparse="all", shared="own_width", expert_keys=_SAME
        ),
        "granitemoehybrid": replace(
            _LLAMA, sparse="if_any", shared="own_width", linear="mamba2",
            ffn_keys=("shared_intermediate_size",), expert_keys=("intermediate_size",),
        ),
        "bamba": Family(kinds="listed", linear="mamba2"),
        "falcon_h1": Family(
            stack="parallel", linear="mamba2", norms=2, gated_norm=False,
            ignored=("mamba_use_mlp", "mlp_expansion_factor", "attn_layer_indices"),
        ),
        "mamba": Family(
            stack="mixers", linear="mamba1", tied=True, aliases={"n_layer": "num_hidden_layers"},
            ignored=("d_inner", "d_model", "expand", "ssm_cfg", "rms_norm"),
        ),
        "falcon_mamba": Family(stack="mixers", linear="mamba1", tied=True, ignored=("expand",)),
        "mamba2": Family(
            stack="mixers", linear="mamba2",
            aliases={"num_heads": "mamba_num_heads", "head_dim": "mamba_head_dim"},
            ignored=("intermediate_size", "rms_norm", "norm_before_gate"),
        ),
        "mistral": _MISTRAL,
        "ministral": _MISTRAL,
        "ministral3": replace(_MISTRAL, window_default=None),
        "mixtral": replace(_MISTRAL, window_default=None, sparse="all", expert_keys=_SAME),
        "qwen2": Family(bias=QKV, bias_key="", kinds="qwen_window"),
        "qwen2_vl": Family(bias=QKV, bias_key="", kinds="qwen_window"),
        "qwen2_vl_text": Family(bias=QKV, bias_key="", kinds="qwen_window"),
        "qwen2_5_vl": Family(bias=QKV, bias_key="", kinds="qwen_window"),
        "qwen2_5_vl_text": Family(bias=QKV, bias_key="", kinds="qwen_window"),
        "qwen2_moe": Family(
            bias=QKV, bias_key="", kinds="qwen_window", sparse="step", shared="width_gated",
            needed=("shared_expert_intermediate_size",),
        ),
        "qwen3": _QWEN3,
        "qwen3_moe": _QWEN3_MOE,
        "qwen3_vl_text": _QWEN3,
        "qwen3_vl_moe_text": _QWEN3_MOE,
        "qwen3_next": _NEXT,
        "qwen3_5_moe_text": _NEXT,
        "qwen3_5_text": replace(_NEXT, sparse="none", shared="none"),
        "deepseek": _DEEPSEEK,
        "deepseek_v2": _DEEPSEEK_2,
        "deepseek_v3": _DEEPSEEK_3,
        "deepseek_v32": _INDEXED,
        "kimi_k2": _DEEPSEEK_3,
        "glm_moe_dsa": _INDEXED,
        "glm4_moe_lite": _DEEPSEEK_3,
        "sarvam_mla": _DEEPSEEK_3,
        "solar_open": replace(
            _DEEPSEEK_3, kv_heads="required", head_dim=128, needed=("n_shared_experts",)
        ),
        "longcat_flash": replace(
            _DEEPSEEK, stack="longcat", needed=_LATENT, score_bias=True,
            router_also="zero_expert_num", ignored=("mla_scale_q_lora", "mla_scale_kv_lora"),
            aliases={
                **_NUM_LAYERS, "ffn_hidden_size": "intermediate_size",
                "expert_ffn_hidden_size": "moe_intermediate_size",
            },
        ),
        "afmoe": Family(
            qk_norm="per_head", gate="per_element", norms=4, kinds="pattern4", sparse="first_dense",
            shared="count", score_bias=True,
            aliases={
                "num_dense_layers": "first_k_dense_replace",
                "global_attn_every_n_layers": "sliding_window_pattern",
            },
            needed=("num_shared_experts", "num_dense_layers"),
            ignored=("num_expert_groups", "num_limited_groups"),
        ),
        "exaone_moe": Family(
            qk_norm="per_head", kinds="pattern4", sparse="first_dense", shared="count",
            score_bias=True, needed=("num_shared_experts",),
            ignored=("first_last_k_dense_replace",),
        ),
        "deepseek_v4": replace(
            _DEEPSEEK_3,
            sparse="all",
            sinks=True,
            stack="deepseek_v4",
            needed=("index_n_heads", "n_shared_experts"),
            kv_heads="required",
            copies_key="hc_mult",
        ),
        "kimi_linear": replace(
            _DEEPSEEK_3, needed=("kv_lora_rank", "first_k_dense_replace", "num_shared_experts"),
            kinds="kimi_linear", linear="kda",
        ),
        "glm4_moe": _GLM_MOE,
        "glm4v_moe_text": replace(_GLM_MOE, bias_default=True),
        "dots1": replace(
            _GLM_MOE, bias_sides=ALL, qk_norm="per_head", qk_norm_key=""
        ),
        "mimo_v2_flash": Family(
            bias_sides=QKV, kinds="mimo", sparse="freq", shared="count", score_bias=True
        ),
        "minimax": Family(
            kinds="attn_type_list", linear="lightning", sparse="all", expert_keys=_SAME,
            ignored=("shared_moe_mode",),
        ),
        "minimax_text_01": Family(
            kinds="attn_type_list", linear="lightning", sparse="all", expert_keys=_SAME,
            ignored=("shared_moe_mode",),
        ),
        "minimax_m1": Family(
            kinds="attn_type_list", linear="lightning", sparse="all", expert_keys=_SAME,
            ignored=("shared_moe_mode",),
        ),
        "minimax_m2": Family(
            head_dim=128, qk_norm="full", qk_norm_key="use_qk_norm:full", sparse="all",
            score_key="use_routing_bias", expert_keys=_SAME,
        ),
        "minimax_m3_vl": Family(
            head_dim=128, qk_norm_key="use_qk_norm:per_head", kinds="minimax_m3", sparse="freq",
            shared="count", ffn_keys=("dense_intermediate_size",),
            expert_keys=("intermediate_size",), score_key="use_routing_bias",
            ignored=("sparse_disable_index_value", "sparse_init_block", "sparse_local_block"),
        ),
        "gemma": _GEMMA,
        "gemma2": replace(_GEMMA, norms=4, kinds="alternate", window_default=4096),
        "vaultgemma": replace(_GEMMA, kinds="alternate", window_default=512),
        "gemma3_text": replace(
            _GEMMA_3,
            defaults={"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4},
        ),
        "gemma4_text": replace(
            _GEMMA_3, kinds="gemma4", stack="gemma4", norms_of_layers=True,
            needed=("global_head_dim",),
        ),
        "gemma4_unified_text": replace(
            _GEMMA_3, kinds="gemma4", stack="gemma4", norms_of_layers=True,
            needed=("global_head_dim",),
        ),
        "cohere": _COHERE,
        "cohere2": replace(_COHERE, kinds="pattern4", window_default=4096, qk_norm_key=""),
        "gpt_oss": Family(
            head_dim=64, bias_default=True, sinks=True, kinds="alternate", window_default=128,
            sparse="all", expert_bias=True, router_bias=True, expert_keys=_SAME,
        ),
        "phi3": replace(_LLAMA, kinds="all_window"),
        "phimoe": Family(
            kinds="all_window", norm_bias=True, head_bias_key="lm_head_bias", sparse="all",
            expert_keys=_SAME,
        ),
        "jais2": replace(_OLD, ignored=("attention_bias", "mlp_bias")),
        "phi": replace(
            _OLD, norms=1, head_bias=True, qk_norm_key="qk_layernorm:per_head", qk_norm_bias=True
        ),
        "persimmon": replace(
            _OLD, qk_norm="per_head", qk_norm_key="qk_layernorm:per_head", qk_norm_bias=True
        ),
        "mpt": Family(
            kv_heads="mha", tied=True, bias_key="", feed_forward="plain", ffn_bias_key="",
            ffn_times=4, aliases={**_SHORT_NAMES, "expansion_ratio": "ffn_times"},
            ignored=("attn_config", "learned_pos_emb", "no_bias"),
        ),
        "gpt_neo": replace(
            _OLD, bias=("o",), tied=True, positions="max_position_embeddings", ffn_times=4,
            kinds="gpt_neo",
            aliases={
                **_NUM_LAYERS, "num_heads": "num_attention_heads",
                "window_size": "sliding_window",
            },
        ),
        "codegen": replace(
            _OLD, bias=(), norms=1, head_bias=True, ffn_times=4, aliases=_GPT_NAMES,
            ignored=("n_positions",),
        ),
        "starcoder2": Family(
            bias_key="use_bias", bias_default=True, tied=True, norm_bias=True,
            feed_forward="plain", ffn_bias_key="use_bias", kinds="all_window",
        ),
        "gpt2": replace(
            _OLD, tied=True, positions="n_positions", ffn_times=4, aliases=_GPT_NAMES
        ),
        "gpt_bigcode": replace(
            _OLD, tied=True, positions="n_positions", ffn_times=4, aliases=_GPT_NAMES,
            multi_query=True,
        ),
        "gptj": replace(
            _OLD, bias=(), norms=1, head_bias=True, ffn_times=4, aliases=_GPT_NAMES,
            ignored=("n_positions",),
        ),
        "gpt_neox": replace(_OLD, bias=(), bias_key="attention_bias", bias_default=True),
        "opt": replace(
            _OLD, bias=(), bias_key="enable_bias", bias_default=True, ffn_bias=False,
            ffn_bias_key="enable_bias", tied=True, positions="max_position_embeddings",
            positions_more=2, ffn_keys=("ffn_dim",),
        ),
        "bloom": replace(
            _OLD, tied=True, embedding_norm=True, ffn_times=4,
            aliases={**_GPT_NAMES, "n_embed": "hidden_size"},
        ),
        "falcon": Family(
            kv_heads="falcon", tied=True, bias_key="bias", norm_bias=True, feed_forward="plain",
            ffn_bias_key="bias", ffn_times=4, aliases=_GPT_NAMES,
            norm_rule="falcon", ffn_keys=("ffn_hidden_size",), ignored=("ff_factor",),
        ),
        "llama4_text": Family(
            kinds="llama4", sparse="llama4", shared="one", ffn_keys=("intermediate_size_mlp",),
            expert_keys=("intermediate_size",), ignored=("use_qk_norm",),
        ),
        "mimo": Family(bias=QKV, bias_key="", kinds="qwen_window", ignored=("attention_bias",)),
        "mllama_text_model": Family(kinds="mllama", stack="mllama", more_rows=8),
        "muse_glimmer_text": Family(norms=4, gate="per_element"),
        "laguna": Family(
            qk_norm="per_head", gate_key="gating:per_head", sparse="step", shared="width",
            score_bias=True,
        ),
        "jamba": Family(
            kinds="jamba", linear="mamba1", sparse="period", mixer_norms=True, expert_keys=_SAME,
            ignored=("mamba_inner_layernorms",),
        ),
        "lfm2": Family(
            qk_norm="per_head", tied=True, linear="short_conv", bias_key="", stack="lfm2",
            ignored=("block_dim", "conv_dim_out", "num_heads", "block_use_swiglu"),
        ),
        "lfm2_moe": Family(
            qk_norm="per_head", tied=True, linear="short_conv", bias_key="", sparse="first_dense",
            score_key="use_expert_bias", aliases={"num_dense_layers": "first_k_dense_replace"},
        ),
        "dbrx": Family(kv_heads="required", sparse="all", stack="dbrx"),
        "nemotron_h": Family(stack="nemotron_h", head_dim=128),
        "nemotron-nas": Family(kv_heads="mha", stack="nemotron_nas"),
        "hunyuan": replace(
            _LLAMA, tied=True, qk_norm_key="use_qk_norm:per_head", sparse="all",
            expert_keys=("intermediate_size",), shared="count", kinds="shared_every",
            ignored=("moe_random_routing_dropped_token",),
        ),
        "hunyuan_v1_moe": replace(
            _LLAMA, qk_norm="per_head", qk_norm_key="use_qk_norm:per_head", sparse="all",
            expert_keys=("moe_intermediate_size", "intermediate_size"), shared="count",
            kinds="shared_every",
            one_for_all=("moe_topk", "moe_intermediate_size", "num_shared_expert"),
            ignored=("moe_random_routing_dropped_token", "moe_layer_num_skipped"),
        ),
        "grok-1": Family(norms=4, tied=True, sparse="all", expert_keys=("intermediate_size",)),
    }
)  # fmt: skip

UNKNOWN = Family(
    kv_heads="mha", sparse="familiar", shared="count", score_key="sigmoid",
    expert_keys=("moe_intermediate_size", "intermediate_size"),
)  # fmt: skip
"""A model type that nobody named here: familiar keys mean what they mean in most classes."""
