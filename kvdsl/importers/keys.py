"""Keys of a config that nobody reads: why they decide no size, and which words say that they may.

A key that fits a reason is told with it; of the others, one with a structural word is doubtful.
"""

from __future__ import annotations

REASONS: tuple[tuple[str, str], ...] = (
    (r".*(_token_id|_token_index|_token)s?|.*token_id.*|eos.*|bos.*|pad_.*", "tokens of the text"),
    (r".*(rope|rotary|alibi|yarn|partial_rot|mrope).*|original_max_position.*|rotary_dim"
     r"|initial_context_length|max_sequence_length|.*position_embedding_type|use_nope.*"
     r"|mla_use_nope|no_rope_layer.*|nope_layer.*|attn_temperature.*|floor_scale",
     "positions take no room: how they are encoded changes no figure"),
    (r".*(dropout.*|pdrop|drop_tokens|droped_token|dropped_token|layerdrop|jitter.*|aux_loss.*)"
     r"|.*aux_loss.*|.*loss.*|seq_aux|router_.*coef|moe_random.*|capacity_factor|.*init.*range"
     r"|init_std|initializer_.*|.*_init|gradient.*|rescale_prenorm.*|time_step_.*|use_cache"
     r"|pretraining_tp|ep_size|scale_attn.*|.*masked_softmax.*|slow_but_exact|.*in_fp32"
     r"|use_mamba_kernels|cache_implementation|.*_attn_implementation|reorder_and.*|summary_.*"
     r"|chunk_size.*|.*_overlap|residual_in.*|use_.*kernel.*|moe_drop.*",
     "training or how it is run"),
    (r".*(_eps|epsilon|_scale|_alpha|_beta|multiplier.*|scaling.*|softcap.*|logit.*|_limit|_factor"
     r"|.*_scale_factor|_act|_activation|activation.*|act_fn|_scaler?|clip_qkv|max_attn_value|use_gemma_norm"
     r"|use_grouped_topk|hc_sinkhorn.*|use_(parallel|gated|embedding)_.*|parallel_attn"
     r"|apply_residual.*|order_of_inter.*|use_bidirect.*|use_parallel_residual|.*_probs_.*"
     r"|_function|lower_bound|_threshold)|norm_topk.*|renormalize|moe_renormalize|scoring_func"
     r"|topk_method|norm_type|postnorm|query_pre.*|hidden_act.*|attn_value.*|gate_.*",
     "a number or function of the arithmetic"),
    (r"(torch_)?dtype|.*_dtype|quantization_config|quant.*", "formats: what a deployment says"),
    (r"architectures|auto_map|transformers.*|_name_or_path|.*_version|model_type|tokenizer.*|is_.*"
     r"|task_specific.*|id2label|label2id|num_labels|problem_type|prefix|finetuning_task|.*_type"
     r"|.*_class|revision|license|name|custom_pipelines|torchscript|return_dict.*|output_.*"
     r"|tf_.*|pruned_heads|use_bfloat16|do_sample|num_beam.*|.*length.*|.*ngram.*|temperature"
     r"|top_k|top_p|typical_p|bad_words.*|suppress.*|begin_supp.*|early_stop.*|diversity.*"
     r"|num_return.*|repetition.*|forced.*|remove_invalid.*|cross_attention_hidden.*"
     r"|add_cross_att.*|tie_encoder.*|n_ctx|n_special|predict_special.*|ignore_index"
     r"|.*placeholder.*|is_llama.*|.*\.?js_config|full_attn_mod|moe_apply_router.*"
     r"|is_llama.*|max_window_layers|num_logits_to_keep|generation.*",
     "bookkeeping"),
    (r"(vision|audio|image|video|img|mm|visual|projector|spatial|multimodal|perceiver|boi|eoi|boa"
     r"|eoa|out_hidden|patch|sound|speech|process_image|use_unified_vision)[^.]*"
     r"|(vision|audio|image)_.*|num_reward.*",
     "a tower: counted apart"),
    (r".*(mtp|nextn).*", "draft layers: counted apart"),
)  # fmt: skip
"""Keys that are read past, and why. What none of these fits may change a size."""

STRUCTURAL = (
    r".*(rank|lora|latent|state|conv|ssm|mamba|linear_|compress|index_|expert|shared|moe|dim"
    r"|heads?|width|inner|cross|block_config|pattern|layer_types|num_|_size|sliding|window|bias"
    r"|qk_norm|gate).*"
)
"""Words in a key that decide a size more often than not."""
