"""Systems that cut attention, caches and experts in other ways, formats, and levers on a cache.

Comes in: papers and documents of these systems, by the figures that they print. Goes out: the rows
of docs/techniques.md. A test holds every figure against `reckoned` or `quoted`.
"""

from __future__ import annotations

from kvdsl.reference.systems import System, Topic

STUDIED = ("tab4-", "cost-", "relief-", "cap-per-dollar", "pmin-70b", "scaling-eff-w2")
"""How figures of the cost study begin."""

SYSTEMS: tuple[System, ...] = (
    System(
        "Tensor parallelism",
        "Megatron-LM, arXiv 1909.08053",
        "`tp = 8`",
        "Two reductions a layer, one of the embedding, a gather of logits; heads and widths "
        "that do not divide (KV102, KV103), groups that leave a fast domain (KV104), copies "
        "past the KV heads (KV101)",
        "252 reductions a step of Llama 3.1 405B; 32,768 B each at batch 1; 64,512 B a token "
        "and GPU at TP=8 and TP=16; 701,174 tokens on 16 H100",
        "llama_405b_tp16.kvspec",
        reckoned=("isca-kv-llama-3.1-405b",),
    ),
    System(
        "Pipeline parallelism",
        "vLLM and SGLang, as their sources have it",
        "`tp = 8; pp = 2`, `stages = [15, 15, 15, 16]`",
        "Layers of each stage, the weakest one and what the others strand (KV130, KV131), idle "
        "stages (KV132), sends of hidden state and residual in slices",
        "1,402,348 tokens as TP=8 x PP=2, 2.0x TP=16",
        "llama_405b_tp16.kvspec",
    ),
    System(
        "One NVLink domain of 72 GPUs",
        "GB200 NVL72",
        "`on = racks.gb200_nvl72`",
        "KV104 is silent in the domain; KV180 gives the microseconds that a reduction may cost "
        "more before TP past the KV heads loses",
        "30.0 us at 3.35 TB/s, 12.6 us at 8 TB/s; 15.14 ms and 7.57 ms of weights read",
        "llama_405b_nvl72.kvspec",
    ),
    System(
        "DP attention",
        "SGLang `enable_dp_attention`, vLLM `data_parallel_size`",
        "`attention { dp = 8 }; experts { ep = 8 }`",
        "Copies of attention weights, gathers and scatters for modules over all ranks, idle and"
        " uneven ranks in lockstep (KV107, KV108), the break-even of cached bytes against "
        "attention weights (KV106, KV181), what is not said to be cut (KV121)",
        "652,346 against 4,081,832 tokens; break-even at 162,419 tokens for DeepSeek V3; best "
        "split near sqrt(N x T x k / A)",
        "deepseek_v3_dp_attention.kvspec",
    ),
    System(
        "TP inside DP attention",
        "SGLang `attn_dp` below `tp`",
        "`attention { dp = 4; tp = 2 }; experts { ep = 8 }`",
        "Busiest pair against idle ranks; sums that stay scattered where the engine says "
        "`scattered_output`",
        "Six users read less on DP=4 x TP=2 only below 81,210 tokens each",
        "deepseek_v3_six_users.kvspec",
    ),
    System(
        "Expert parallelism",
        "DeepEP; vLLM and SGLang backends",
        "`experts { ep = 64; redundant = 64 }`, an engine's `all_to_all`",
        "Experts that do not divide (KV120), redundant ones in cache (KV124), groups across "
        "nodes (KV123), backends that gather (KV122); dispatch and combine by expert, by rank "
        "or as a gather",
        "5.29 of 8, 6.52 of 16 and 7.68 of 64 ranks reached; a gather moves 1.51x and 8.34x; "
        "DeepEP's bandwidths within 2.2 %; 120.96 us and 14.76 ms of the DeepSeek hardware "
        "paper; quoted: SGLang on 96 GPUs: 52,300 input and 22,300 output tokens a second and "
        "node",
        "deepseek_v3_wide_ep.kvspec",
        reckoned=(
            "isca-ep-comm",
            "isca-ep-tpot",
            "deepep-d-8",
            "deepep-d-16",
            "deepep-d-32",
            "deepep-d-128",
            "deepep-c-8",
            "deepep-c-16",
            "deepep-c-32",
            "deepep-c-128",
        ),
        quoted=("sglang-ep",),
    ),
    System(
        "Decode context parallelism",
        "vLLM `decode_context_parallel_size`, SGLang `dcp_size`",
        "`tp = 8; attention { tp = 2; cp = 4 }` with an engine's `cp_weights = split`",
        "Copies left over, runs of tokens and the fullest rank, gathers of queries and sums and"
        " a scatter (`ag_rs`) or an all-to-all (`a2a`); KV111",
        "Copies 8 and 1 (R1, TP=8), 1 and 2 (K2, TP=16); quoted: Kimi K2 on TP=8: 715,072 "
        "tokens, with DCP=8 5,721,088",
        "kimi_k2_dcp.kvspec",
        reckoned=("dcp-r1", "dcp-r1-8", "dcp-k2-16", "dcp-k2-8"),
    ),
    System(
        "Helix",
        "arXiv 2507.07120; TensorRT-LLM",
        "`attention { tp = 8; cp = 8; output = split; overlap = true }; ffn { tp = 64 }`",
        "Products of all blocks (KV080), TP past the KV heads, pages, pools and overlap that an"
        " engine lacks (KV111); one all-to-all whose size is the same at every length; exposed "
        "time behind the attention of other requests; attention weights read by each part of "
        "the sequence",
        "DRAM reads of its model: 1.024, 0.128 and 0.016 ms of cache; no change of the exchange"
        " with the context; quoted: 1.5x less time a token, 32x the batch (GB200, simulated); "
        "32x and 1.8x on GB300",
        "deepseek_r1_helix_gb200.kvspec",
        quoted=("helix-r1", "helix-trtllm"),
    ),
    System(
        "TPLA, and the exact split of a latent",
        "arXiv 2508.15881",
        "`attention { tp = 2; latent = split; exact = false }`",
        "Columns of the latent over ranks, the rope key on each; exact: every score reduced "
        "before the softmax, growing with the context (KV112); approximate: one reduction "
        "behind it. The rule's page explains why documents differ",
        "320 of 576 values at two ranks, 1.8x fewer bytes; quoted: 1.79x on two H800 at 32,768 "
        "tokens, experts removed",
        "deepseek_v3_tpla.kvspec",
        reckoned=("tpla-width", "tpla-v3"),
    ),
    System(
        "Ring attention, gathered prompts",
        "arXiv 2310.01889; vLLM and SGLang prefill context parallelism",
        "`attention { pcp = 4; tp = 2; prompt = ring }` or `prompt = gather`",
        "Keys and values gathered, or passed round with what is exposed behind the scoring of a"
        " block (KV114); tokens gathered for modules over all ranks, and not for those that an"
        " engine copies over the parts of a prompt (vLLM)",
        "Blocks of 1.0 and 1.1 thousand tokens, 6.2 to 6.6 thousand a device (A100, TPU v3, v4,"
        " v5e)",
        "ring_attention_70b.kvspec",
        reckoned=("ring-A100-NVLink", "ring-TPU-v3", "ring-TPU-v4", "ring-TPU-v5e"),
    ),
    System(
        "Vertumnus",
        "arXiv 2609.04774",
        "pools of role prefill, each with a layout, replicas and a share",
        "Pairs of query and key left after a prefix hit; a degree by length alone (KV190); each"
        " pool costed as its layout; its formulas of time and placement in `context_parallel`",
        "36 pairs of 8 new tokens, 15 of 2 new with 6 found; quoted: mean time to the first "
        "token 28.1 % less on 40 + 24 H20-3e",
        "adaptive_cp_h20.kvspec",
        quoted=("vertumnus-ttft",),
    ),
    System(
        "Formats of a cache",
        "BF16, FP8, NVFP4, MXFP4, INT8, INT4; vLLM fp8_ds_mla",
        "`kv = formats.nvfp4`, or a recipe by component",
        "Scales counted (KV150), native or emulated on the device (KV161), read as kept or "
        "widened first (KV151), more requests a step against time a token (KV148), narrow where"
        " nothing binds (KV147)",
        "4.5 and 4.25 bits; 71.9 % saved, not 75 %; 3.56x and 1.78x; 656 B a token and layer",
        "kv_formats_b200.kvspec",
        reckoned=("sglang-fp4", "fp8-ds-mla", "isca-kv-deepseek-v3"),
    ),
    System(
        "DFloat11",
        "arXiv 2504.11651",
        "`weights = formats.dfloat11`",
        "Bytes of coded weights; refused for a cache, which is written token by token (KV165)",
        "67.7 to 68.1 % of BF16: Llama 3.1 405B on eight GPUs of 80 GB",
        "llama_405b_dfloat11.kvspec",
        reckoned=(
            "df11-llama-3.1-8b",
            "df11-llama-3.3-70b",
            "df11-llama-3.1-405b",
            "df11-qwen3-14b",
        ),
    ),
    System(
        "More GPUs or a smaller cache",
        "Tumkur et al., cost study of TP against compression",
        "`kvdsl levers`; `keep = 25 %`; `measured { throughput = 356.7 tok/s }`",
        "TP, PP, DP attention, context parallelism, replicas, larger devices, formats and keep "
        "ratios, each planned with what it cannot mend; KV141, KV142, KV145, KV147, KV148",
        "Its capacity table (20 figures), costs of 8 runs, ratios 1.20, 1.50, 1.89 and 1.10, "
        "the wall at 36 billion parameters; quoted: 1.20 to 2.00 times cheaper by its "
        "simulator; quality not measured",
        "llama_2_levers.kvspec",
        reckoned=STUDIED,
        quoted=("range",),
    ),
    System(
        "PagedAttention",
        "arXiv 2309.06180",
        "an engine's `block`",
        "Whole pages of a request, pages never used",
        "800 KiB a token of OPT-13B, 1.6 GB of 2,048 tokens; quoted: 20.4 to 38.2 % of the "
        "memory held tokens before paging; under 4 % waste after",
        "kimi_k2_dcp.kvspec",
        reckoned=("paged-opt13", "paged-opt13-seq"),
        quoted=("paged-util", "paged-waste"),
    ),
)

TOPIC = Topic(
    "Sharding, formats, levers",
    "Where a layout cuts what others copy, what a cache is kept in, and what is done when it is "
    "too small. `attention`, `experts` and the rest of a [layout](language.md#layout) say how; "
    "`kvdsl levers` puts ways out side by side.",
    SYSTEMS,
)
