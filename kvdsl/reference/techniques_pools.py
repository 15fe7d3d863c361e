"""Systems with two pools, codecs on the link, and tiers below the devices' memory.

Comes in: papers and documents of these systems, by the figures that they print. Goes out: the rows
of docs/techniques.md. A test holds every figure against `reckoned` or `quoted`.
"""

from __future__ import annotations

from kvdsl.reference.systems import System, Topic

SYSTEMS: tuple[System, ...] = (
    System(
        "Splitwise",
        "arXiv 2311.18677",
        "`pool prefill` and `pool decode` on devices of two generations; "
        "`transfer { overlap = layerwise }`, or `none` for short prompts",
        "bytes by part, what of the transfer is seen behind the prefill, how busy both pools are; "
        "KV170, KV171, KV172, KV174, KV175",
        "quoted: 8 ms seen at 200 Gbit/s and 5 ms at 400, 0.8 % of a request, 1.4 times the "
        "throughput at equal cost",
        "splitwise_llama_70b.kvspec",
        quoted=("splitwise-visible", "splitwise-e2e", "splitwise-cost"),
    ),
    System(
        "DistServe",
        "arXiv 2401.09670",
        "both pools of a request in one node: `on = site.devices[0..3]` and `[4..7]`, "
        "`transfer { over = links.nvlink3 }`",
        "the time to the first token with its queue (M/D/1), the rate that the link must carry, "
        "stages that are not paired; KV171, KV173, KV175",
        "512 tokens of OPT-66B are 1.125 GiB (printed 1.13 GB); quoted: up to 7.4 times the rate "
        "or 12.6 times tighter latencies, transfer below 0.1 % of a request",
        "distserve_opt_66b.kvspec",
        reckoned=("distserve-kv",),
        quoted=("distserve-gain", "distserve-transfer-share"),
    ),
    System(
        "Mooncake, transfer engine",
        "kvcache-ai/Mooncake, vLLM and SGLang PD benchmarks",
        "`transfer { library = libraries.mooncake }` with `engine { block = 16 tok }`: setup, all "
        "NICs, whole pages; `libraries.mooncake_efa` and `piece` for small pieces",
        "setup and wire by fitted constants, pages counted whole, the cap of small pieces; KV171",
        "all six sizes of its table to the byte, its six rates within 1 %",
        "mooncake_qwen3_8b.kvspec",
        reckoned=tuple(
            f"mooncake-pd-{word}-{prompt}"
            for word in ("size", "bw")
            for prompt in (128, 256, 512, 1024, 4096, 16_384)
        ),
    ),
    System(
        "Mooncake, store",
        "FAST 2025; kvcache-ai/Mooncake README",
        "`tiers { store { tier = tiers.rdma_pool_4x200; capacity = 1 TB per node } }`: a shared "
        "tier has the memory of all nodes, one copy for all",
        "tokens that it holds, what is found there at the workload's `reuse`, fetching against "
        "computing; KV160, KV164, KV167",
        "128k tokens of Llama 3 70B are 40 GiB; quoted: 87 GB/s over 4 x 200 Gbit/s, 190 GB/s over "
        "8 x 400, 59 to 498 % more requests",
        "mooncake_store_llama_70b.kvspec",
        reckoned=("mooncake-te-40gb",),
        quoted=("mooncake-te-bw4", "mooncake-te-bw8", "mooncake-capacity"),
    ),
    System(
        "Connectors of engines: NIXL, MoRIIO, LMCache, Mooncake, TensorRT-LLM's transceiver",
        "vLLM 0.33, SGLang 0.5, TensorRT-LLM 1.2",
        "`overlap = layerwise` for MoRIIO and LMCache, `none` for NIXL and the transceiver; "
        "`setup` or `library`; layouts may differ",
        "each decode rank pulls its part: heads are split, a latent is pulled by every rank of a "
        "TP group; KV162, KV172, KV176",
        "from the engines' sources: a latent crosses the link as often as decode has TP ranks",
        "engine_connectors.kvspec",
    ),
    System(
        "SplitZip",
        "arXiv 2605.01708",
        "`transfer { format = formats.splitzip_bf16; exact = true; pipelined = true }`",
        "encoding, wire and decoding, one after the other or at once, against the plain cache; "
        "KV162, KV163",
        "the bound 16 / 12 = 1.333; quoted: transfers 1.32 times shorter, first token 1.30, "
        "throughput 1.23, 613.3 and 2181.8 GB/s of the codec",
        "splitzip_llama_70b.kvspec",
        quoted=("splitzip-speed", "splitzip-codec"),
    ),
    System(
        "LMCache",
        "arXiv 2510.09665",
        "`tiers` of host memory, drives (`through = tiers.ddr5`) and a remote server, each with "
        "`chunk = 256 tok`; `overlap = layerwise`",
        "what fits where at the workload's `reuse`, loads that hide behind the prefill, eviction; "
        "KV160, KV164, KV167",
        "quoted: up to 15 times the throughput",
        "lmcache_llama_70b.kvspec",
        quoted=("lmcache",),
    ),
    System(
        "HiCache",
        "SGLang 0.5, hierarchical cache",
        "`store = all` (write through) into host memory and a store below it, "
        "`overlap = layerwise`",
        "what is written a second against what a tier takes, fetching against computing; KV160, "
        "KV164",
        "its policy and sizes are those of the engine's options",
        "hicache_qwen3_32b.kvspec",
    ),
    System(
        "DirectKV",
        "No Buffer, No Bottleneck, OSDI 2026",
        "`tiers { grace { in_place = true; over = links.nvlink_c2c } }`",
        "the time to read a request where it is, in every step, against the step itself; KV168",
        "quoted: 43 % less memory of the GPU, 50 % less transferred, 1.2 times as fast",
        "directkv_gh200.kvspec",
        quoted=("directkv",),
    ),
    System(
        "DUAL-BLADE",
        "arXiv 2604.26557",
        "one drive, `over = links.pcie_4_x16` for blocks past the kernel, `through = "
        "tiers.ddr4_3200` and a `setup` for the page cache",
        "staged and direct reads, accesses of whole blocks (`granularity`); KV160, KV164",
        "quoted: prefill 33.1 % and decode 42.4 % shorter, the drive used 2.2 times more",
        "dual_blade_edge.kvspec",
        quoted=("dualblade",),
    ),
    System(
        "py-kvcache",
        "arXiv 2609.11744",
        "`tiers { drives { tier = tiers.nvme_gen5; count = 2; setup = 5 ms } }`",
        "the length from which fetching pays, with the new tokens computed in any case; KV164",
        "its finding that the mean request on an H100 is below break-even; quoted: twice as fast "
        "as LMCache at 80k tokens, 1.34 and 1.23 times by preloading and all tiers",
        "py_kvcache_h100.kvspec",
        quoted=("pykvcache", "pykvcache-preload"),
    ),
    System(
        "Beluga",
        "arXiv 2511.20172",
        "a `tier` with `shared = true` and `capacity = 8 TB per cluster`, `lanes = 2` a node",
        "one pool for 16 servers: capacity once, the paths of all nodes against its rate; KV160, "
        "KV167",
        "13.00 s to 1.36 s is 89.5 % less (printed 89.6), 1.54 to 11.32 requests a second 7.35 "
        "times",
        "beluga_cxl_pool.kvspec",
        reckoned=("beluga-ttft", "beluga-qps"),
    ),
    System(
        "CXL-SpecKV",
        "arXiv 2512.11920",
        "a codec `format { of = formats.fp16; ratio = 4 }`, a `tier` that `accepts` it alone, "
        "`overlap = layerwise` for what is sent ahead",
        "capacity in the codec, loads behind the layers that compute; KV166, KV164",
        "quoted: 3.2 times the throughput, 2.8 times less memory cost, compression 4",
        "cxl_speckv.kvspec",
        quoted=("specKV",),
    ),
    System(
        "Vertumnus, its two pools",
        "arXiv 2609.04774",
        "`pool prefill` with `attention { pcp = 2 }` beside `pool decode`; a deployment a degree",
        "prompts over ranks of the sequence, the handover from them, both pools' load; KV172, "
        "KV175",
        "quoted: the mean first token up to 28.1 % sooner, on 40 + 24 GPUs",
        "vertumnus_h20.kvspec",
        quoted=("vertumnus-ttft",),
    ),
)

TOPIC = Topic(
    "Two pools and the tiers below",
    "A request's cache leaves its device: for another pool, or for memory that is larger and "
    "slower. `transfer` and `tiers` of a [deployment](language.md#deployment) say how.",
    SYSTEMS,
)
