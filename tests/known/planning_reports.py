"""Public reports where the plan was wrong, and what a check says of each before deployment.

A row names the report, the deployment of `specs/planning_bugs.kvspec` that writes it down, the
rule that must fire and what it must say; figures of the report with how near the plan comes; and a
twin in which the rule is silent. Kinds have the numbers of the list that reports were taken from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvdsl.diagnostics import Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
EXACT = 0.0
PAGE = 0.0005
"""Of tokens that were printed without the page that is never used, or with it."""
ROUNDED = 0.005
"""Of a room that was printed to two decimals."""

KINDS: Mapping[int, str] = {
    1: "heads that TP does not divide",
    3: "TP past the KV heads",
    4: "blocks of a quantisation that a shard cuts",
    6: "a latent that TP does not shrink",
    8: "two cards that should add up",
    11: "a start that counts all layers in every stage",
    12: "stages that strand room",
    16: "a longest request that finds no room",
    18: "GB and GiB",
    19: "shares of different memories",
    20: "windows that a cache manager knows or not",
    22: "a printed figure that is no capacity",
    24: "drafts with a pool of their own",
}


@dataclass(frozen=True)
class Report:
    """`figures` are values of the plan, or quantities of the finding: the report's figure, and how
    near the plan comes. `layout` is what the finding suggests, in the words of a layout."""

    kind: int
    source: str
    deployment: str
    code: str
    severity: Severity
    says: tuple[str, ...]
    layout: str = ""
    figures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    twin: str = ""

    @property
    def mended(self) -> str:
        """The deployment in which the rule is silent."""
        return self.twin or f"{self.deployment}_mended"


LINE = "a request takes 519 MB of a GPU and 6,480 B/tok more"
LEGAL = "divides heads, feed-forward and vocabulary"

REPORTS: tuple[Report, ...] = (
    # 1: legal TP listed, and the same devices as stages or replicas.
    Report(
        1, "vllm-project/vllm#414", "vllm_414", "KV102", ERROR,
        ("52 query heads cannot be split over TP=3", f"TP of 1 or 2 {LEGAL}",
         "as `tp = 1; pp = 3`", "as `tp = 1; replicas = 3`"),
        "tp = 1; pp = 3",
    ),
    Report(
        1, "vllm-project/vllm#4232", "vllm_4232", "KV102", ERROR,
        ("40 query heads cannot be split over TP=6", f"TP of 1, 2 or 4 {LEGAL}",
         "as `tp = 2; pp = 3`", "as `tp = 2; replicas = 3`"),
        "tp = 2; pp = 3",
    ),
    Report(
        1, "vllm-project/vllm#11147", "vllm_11147", "KV102", ERROR,
        ("64 query heads cannot be split over TP=6", f"TP of 1, 2 or 4 {LEGAL}",
         "as `tp = 2; pp = 3`", "as `tp = 2; replicas = 3`"),
        "tp = 2; pp = 3",
    ),
    Report(
        1, "vllm-project/vllm#2652", "vllm_2652", "KV102", ERROR,
        ("52 query heads cannot be split over TP=8", f"TP of 1, 2 or 4 {LEGAL}",
         "as `tp = 4; pp = 2`", "as `tp = 4; replicas = 2`"),
        "tp = 4; pp = 2",
    ),
    Report(
        1, "vllm-project/vllm#596", "vllm_596", "KV102", ERROR,
        ("32 query heads cannot be split over TP=3", f"TP of 1 or 2 {LEGAL}",
         "as `tp = 1; replicas = 3`"),
        "tp = 1; pp = 3",
    ),
    # 3: copies of each head, where the cache stops shrinking, who stores copies and who refuses.
    Report(
        3, "huggingface/transformers#48307", "transformers_48307", "KV222", ERROR,
        ("does not run TP=8 past the 4 KV heads", "kv_copies = refuse", "write `tp = 4`"),
        "tp = 4; pp = 2",
    ),
    Report(
        3, "PaddlePaddle/FastDeploy#2799", "fastdeploy_2799", "KV222", ERROR,
        ("does not run TP=8 past the 4 KV heads", "PaddlePaddle/FastDeploy#2799"),
        "tp = 4; pp = 2",
    ),
    Report(
        3, "PaddlePaddle/FastDeploy#2799, under vLLM", "qwen3_235b_tp8", "KV101", WARNING,
        ("each is stored 2 times",
         "from TP=4 on the cache of a GPU stops shrinking, at 48,128 B/tok",
         "one copy is 192,512 B/tok; the 8 ranks together hold 385,024 B/tok",
         "policy `kv_copies = copy` of engines.vllm_0_33"),
        "tp = 4; pp = 2",
        {"kv.copies": (2, EXACT), "kv.bytes_per_token_per_gpu": (48_128, EXACT)},
    ),
    Report(
        3, "sgl-project/sglang#10852", "qwen3_next_tp8", "KV101", WARNING,
        ("TP=8 is past the 2 KV heads, so each is stored 4 times",
         "from TP=2 on the cache of a GPU stops shrinking",
         "policy `kv_copies = copy` of engines.sglang_0_5_23"),
        "attention { dp = 4; tp = 2 }; experts { ep = 8 }",
        {"kv.bytes_per_token_per_gpu": (12_288, EXACT)},
    ),
    # 4: whole experts or a smaller TP; shared experts apart; padding where a build pads.
    Report(
        4, "vllm-project/vllm#48173", "vllm_48173", "KV220", ERROR,
        ("1,536 rows in its routed experts, and 1,536 / 8 = 192 on a rank",
         "fp8_utils.py:1296", "as `tp = 4; pp = 2`"),
        "tp = 8; experts { ep = 8 }",
    ),
    Report(
        4, "vllm-project/vllm#48173, as it pads", "vllm_48173_padded", "KV220", WARNING,
        ("each rank keeps 256 of them", "and it is counted"),
        "tp = 8; experts { ep = 8 }",
        twin="vllm_48173_mended",
    ),
    Report(
        4, "ROCm/ATOM#1488", "atom_1488", "KV220", ERROR,
        ("1,536 / 8 = 192 on a rank", "as `tp = 4; pp = 2`"),
        "tp = 8; experts { ep = 8 }",
    ),
    Report(
        4, "vllm-project/vllm#54178", "vllm_54178", "KV220", ERROR,
        ("320 / 8 = 40 on a rank", "as `tp = 4; pp = 2; experts { ep = 4 }`"),
        "tp = 8; experts { ep = 8 }",
    ),
    Report(
        4, "QwenLM/Qwen3#1485", "qwen3_1485", "KV220", ERROR,
        ("768 / 4 = 192 on a rank", "as `tp = 2; pp = 2`"),
        "tp = 4; experts { ep = 4 }",
    ),
    Report(
        4, "sgl-project/sglang#3345", "sglang_3345", "KV220", ERROR,
        ("18,432 / 32 = 576 on a rank", "2,048 rows in its shared experts",
         "as `tp = 16; replicas = 2`"),
    ),
    Report(
        4, "sgl-project/sglang#26107", "sglang_26107", "KV220", ERROR,
        ("1,280 rows in its shared experts, and 1,280 / 4 = 320 on a rank",
         "cut 2 ways: 1,280 / 2 = 640"),
        "tp = 2; pp = 2",
    ),
    Report(
        4, "vllm-project/vllm#25292", "vllm_25292", "KV220", ERROR,
        ("768 / 4 = 192 on a rank",),
        "tp = 4; experts { ep = 4 }",
    ),
    Report(
        4, "sgl-project/sglang#10852", "sglang_10852", "KV220", ERROR,
        ("512 rows in its shared experts, and 512 / 8 = 64 on a rank", "cut 4 ways: 512 / 4 = 128"),
        "tp = 2; pp = 4",
    ),
    Report(
        4, "QwenLM/Qwen3-VL#231", "qwen3_vl_231", "KV220", ERROR,
        ("29,568 columns in its ffn, and 29,568 / 8 = 3,696 on a rank", "as `tp = 1; pp = 8`"),
        "tp = 1; pp = 8",
    ),
    # 6: copies, with DP and the sequence over the same ranks beside them.
    Report(
        6, "vllm-project/recipes#762, vllm-project/vllm#51454", "recipes_762", "KV101", WARNING,
        ("TP=8 is past the 1 KV head, so each is stored 8 times",),
        "attention { dp = 8 }; experts { ep = 8 }",
        {"copies": (8, EXACT), "kv.sequences": (20.43, 0.05)},
    ),
    Report(
        6, "vllm-project/recipes, Kimi-K2", "kimi_k2_tp8", "KV105", WARNING,
        ("TP=8 keeps 8 copies of the latent cache",
         "with the sequence cut over the same ranks (`attention { cp = 8 }; experts { ep = 8 }`) "
         "it holds 5,720,576 tok in one copy"),
        "attention { dp = 8 }; experts { ep = 8 }",
        {"kv.tokens": (715_072, EXACT), "copies": (8, EXACT)},
    ),
    # 8: tokens are the minimum over ranks.
    Report(
        8, "vllm-project/vllm#13061", "vllm_13061", "KV146", ERROR,
        ("it adds up 2 ranks, and each holds a part of every token, 98,304 B/tok: tokens are the "
         "minimum over ranks, not their sum",),
        figures={"kv.bytes_per_token_per_gpu": (98_304, EXACT)},
    ),
    Report(
        8, "vllm-project/vllm#5248", "vllm_5248", "KV146", ERROR,
        ("it adds up 2 ranks; this asks one",),
        figures={"kv.tokens": (8112, EXACT), "kv.pages": (507, EXACT)},
    ),
    # 11: the weakest stage decides, but this version refuses.
    Report(
        11, "vllm-project/vllm#32105", "vllm_32105", "KV223", ERROR,
        ("one request of 202,752 tok", "this version counts all 92 layers in every stage",
         "by its stages 202,752 tok would fit"),
        figures={"longest that fits": (81_392, PAGE)},
    ),
    Report(
        11, "vllm-project/vllm#34076, mended by #33698", "vllm_34076", "KV223", ERROR,
        ("this version counts all 48 layers in every stage", "by its stages 50,000 tok would fit"),
        figures={"longest that fits": (34_736, 0.001)},
    ),
    # 12: stages as lines, the binding one, what is stranded, a better split.
    Report(
        12, "vllm-project/vllm#12895", "vllm_12895", "KV131", WARNING,
        ("stage 2 holds fewer tokens than the others",
         "21 layers and head, 17.23 GB for 712,053 tok",
         "of the others' room is stranded"),
        "tp = 8; pp = 3; stages = [22, 20, 19]",
    ),
    Report(
        12, "vllm-project/vllm#6115", "vllm_6115", "KV131", WARNING,
        ("stage 3 holds fewer tokens than the others", "20 layers and embedding"),
        "tp = 1; pp = 4; stages = [20, 21, 20, 20]",
    ),
    Report(
        12, "vllm-project/vllm#25164", "vllm_25164", "KV131", WARNING,
        ("stage 0 holds fewer tokens than the others", "4.602 GB of the others' room is stranded",
         "8 layers and head, 5.369 GB for 327,680 tok"),
        "tp = 1; pp = 2; stages = [32, 32]",
        {"kv.printed": (46_800, EXACT), "tokens in stage 1": (327_680, EXACT)},
    ),
    Report(
        12, "sgl-project/sglang#13282", "sglang_13282", "KV131", WARNING,
        ("layers a stage: 7, 7, 7, 8, 8, 8, 8, 8", "stage 7 holds fewer tokens than the others"),
        "tp = 1; pp = 8; stages = [9, 7, 7, 8, 8, 8, 8, 6]",
    ),
    # 16: the longest request, and how many of it.
    Report(
        16, "vllm-project/vllm#10517", "vllm_10517", "KV223", ERROR,
        ("one request of 29,000 tok, the limit, finds no room",
         "of that length 1 req fit at once, of half of it 2 req"),
        figures={"longest that fits": (23_648, ROUNDED)},
    ),
    Report(
        16, "OpenRLHF/OpenRLHF#336", "openrlhf_336", "KV223", ERROR,
        ("one request of 8,192 tok", "write `limits { context = 6048 tok }`"),
        figures={"longest that fits": (6048, EXACT)},
    ),
    Report(
        16, "QwenLM/Qwen3#295", "qwen3_295", "KV223", ERROR,
        ("one request of 32,768 tok", "write `limits { context = 7344 tok }`"),
        figures={"longest that fits": (7344, EXACT)},
    ),
    Report(
        16, "deepseek-ai/DeepSeek-V2#83", "deepseek_v2_83", "KV223", ERROR,
        ("one request of 163,840 tok", "write `limits { context = 13360 tok }`"),
        figures={"longest that fits": (13_360, EXACT)},
    ),
    # 18: one unit, and what a card really has.
    Report(
        18, "alvarobartt/hf-mem#33", "hf_mem_33", "KV140", ERROR,
        ("memory.weights is 16.06 GB, in GiB 14.96",),
    ),
    Report(
        18, "modal-labs/modal-client#2797", "modal_2797", "KV207", ERROR,
        ("80 GB memory - 16.06 GB weights = 63.94 GB",),
    ),
    Report(
        18, "meta-pytorch/torchtune#1346", "torchtune_1346", "KV207", ERROR,
        ("67 GB a device, and 63.94 GB is left beside the weights",),
    ),
    Report(
        18, "pytorch/torchtitan#94", "torchtitan_94", "KV140", ERROR,
        ("written in GB and the device's memory in GiB", "444,403 tok", "403,896 tok"),
    ),
    # 19: what a share is of, and what it is under the others.
    Report(
        19, "vllm-project/vllm#21348", "sglang_21348", "KV228", INFO,
        ("93 % is of what is free before loading under engines.sglang_0_5_21",
         "as a share of the whole memory this budget is 93.2 %", "75.4 % of what weights and over"),
        figures={"kv.printed": (367_404, 0.001)},
        twin="vllm_21348",
    ),
    Report(
        19, "InternLM/lmdeploy#2793", "lmdeploy_2793", "KV228", INFO,
        ("80 % is of what weights and overheads leave under lmdeploy", "83.4 % of the memory"),
    ),
    Report(
        19, "InternLM/lmdeploy#3804", "lmdeploy_3804", "KV228", INFO,
        ("50 % is of what weights and overheads leave",
         "the same 50 % of the whole memory would leave the cache nothing"),
    ),
    Report(
        19, "NVIDIA/TensorRT-LLM#1400", "trtllm_1400", "KV228", INFO,
        ("90 % is of what weights and overheads leave", "91.7 % of the memory"),
        figures={"memory.kv": (65 * 2**30, 0.1)},
    ),
    # 20: both numbers, and which manager is active.
    Report(
        20, "alvarobartt/hf-mem#60", "hf_mem_60", "KV230", INFO,
        ("18 layers with a window, 18 without", "which manager is active decides"),
    ),
    Report(
        20, "alvarobartt/hf-mem#70", "hf_mem_70", "KV230", INFO,
        ("12 layers with a window, 12 without",),
    ),
    Report(
        20, "vllm-project/vllm#39254", "vllm_39254", "KV230", INFO,
        ("50 layers with a window, 10 without", "policy `hybrid = one_pool` of engines.vllm_0_33"),
    ),
    Report(
        20, "tenstorrent/tt-xla#5727", "tt_xla_5727", "KV230", WARNING,
        ("52 layers with a window, 10 without", "policy `hybrid = full` of without_windows"),
    ),
    # 22: a fixed part and a slope.
    Report(
        22, "vllm-project/vllm#51041", "vllm_51041", "KV229", INFO,
        ("the log counts requests of 100,000 tok", LINE),
    ),
    Report(
        22, "tonyd2wild/DeepSeek-v4-Flash…#57, 50K", "spark_57_at_50k", "KV229", INFO,
        ("the log counts requests of 50,000 tok", LINE),
        twin="vllm_51041_mended",
    ),
    Report(
        22, "tonyd2wild/DeepSeek-v4-Flash…#57, 500K", "spark_57_at_500k", "KV229", INFO,
        ("the log counts requests of 500,000 tok", LINE),
        twin="vllm_51041_mended",
    ),
    Report(
        22, "vllm-project/vllm#54458", "vllm_54458", "KV229", INFO,
        ("pages of attention are raised to 1,056 tok, so that one holds a state",
         "a request takes 77.86 MB of a GPU"),
    ),
    # 24: weights, cache and graphs apart.
    Report(
        24, "noonghunna/club-3090#1261", "club3090_1261", "KV240", WARNING,
        ("weights: 2.189 GB on a GPU", "cache: 10,240 B/tok", "graphs: "),
    ),
    Report(
        24, "sgl-project/sglang#28620", "sglang_28620", "KV241", INFO,
        ("weights: 844.8 MB on a GPU", "cache: 2,048 B/tok, 10 % of the model's own", "graphs: "),
    ),
    Report(
        24, "local-inference-lab/rtx6kpro, GLM 5.1 logs", "glm_5_1", "KV241", INFO,
        ("cache: 394 B/tok, 1.3 % of the model's own", "graphs: "),
    ),
)  # fmt: skip
