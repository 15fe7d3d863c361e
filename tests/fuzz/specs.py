"""Whole specs drawn at random: every kind, every block, sizes sound and silly.

Comes in: a source of randomness. Goes out: the text of a spec that can be read; what it plans may
be absurd. Not its job: damaging it (mutations).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

SOUND = (1, 2, 2, 2, 4, 4, 4, 8, 8, 16, 32, 64, 128)
ODD = (1, 3, 5, 6, 7, 9, 11, 12, 48, 61)
SILLY = (1, 5, 11, 999, 10**6, 10**9, 10**12)
LENGTHS = ("1 tok", "2 tok", "100 tok", "4096 tok", "8 ktok", "128 Kitok", "1 Mtok", "1000 Gtok")
FORMATS = ("bf16", "fp8", "fp8_block128", "nvfp4", "mxfp4", "int8", "fp32")
MODELS = ("llama_3_1_8b", "llama_3_1_405b", "deepseek_v3", "gpt_oss_120b", "qwen3_235b_a22b")
LINKS = ("infiniband_ndr", "nvlink4")
NODES = ("hgx_h100", "hgx_h200", "hgx_a100_80gb", "hgx_b200")
CLAIMS = (
    "kv.tokens >= 1 Mtok", "kv.copies == 1", "kv.bytes_per_token <= 1 MB/tok",
    "kv.bytes_per_token_per_gpu within 5 % of 32_256 B/tok", "kv.sequences >= 5 req",
    "kv.bytes_per_request <= 1 GB", "state.bytes_per_request == 0 B", "memory.weights <= 80 GB",
    "memory.kv >= memory.weights", "memory.free >= 0 B", "memory.reserve == 0 B", "gpus <= 8",
    "model.parameters within 1 % of 7e9", "model.active_parameters <= model.parameters",
    "decode.tpot <= 30 ms", "decode.kv_read + decode.weight_read <= decode.tpot", "power <= 5 kW",
    "decode.collectives / decode.tpot <= 20 %", "decode.throughput >= 100 tok/s",
    "prefill.throughput / gpus >= 1 ktok/s", "prefill.ttft <= 2 s", "transfer.time <= 1 s",
    "transfer.bytes <= 1 GB", "cost.per_hour <= 40 USD/h", "cost.per_mtok <= 2 USD/Mtok",
    "tier.host.tokens >= 1 Mtok", "tier.host.load_time <= 1 s", "nothing.here >= 1",
    "kv.tokens >= 1 tok or kv.copies > 1 when workload.concurrency > 8 req",
)  # fmt: skip


class Draw:
    """Choices from one source; `silly` is how often a size is an absurd one."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.silly = random.choice((0, 0, 0, 0.05, 0.3))

    def of(self, choices: Sequence[str]) -> str:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def n(self, most: int = 128) -> int:
        if self.chance(self.silly):
            return self.random.choice(SILLY)
        sizes = ODD if self.chance(self.silly) else SOUND
        return self.random.choice([size for size in sizes if size <= most])

    def some(self, share: float, text: str) -> str:
        return text + "\n" if self.chance(share) else ""

    def length(self) -> str:
        return self.of(LENGTHS if self.chance(self.silly) else LENGTHS[2:6])


def spec(random: Random) -> str:
    """A spec with a model, hardware, layouts and a deployment or two."""
    draw = Draw(random)
    parts = [model(draw), hardware(draw)]
    parts += [f"layout l{index} {{\n{layout(draw)}}}\n" for index in range(3)]
    parts.append(workload(draw, "workload w"))
    parts.append(deployment(draw))
    if draw.chance(0.2):
        parts.append("deployment two extends one {\n  layout = l1\n  kv = formats.fp8\n}\n")
    if draw.chance(0.1):
        parts.append("fleet all { deployments = [one]; require gpus <= 8 }\n")
    if draw.chance(0.1):
        parts.append(f"policy p {{ require {draw.of(CLAIMS)} }}\n")
    random.shuffle(parts)
    return "kvspec 1\n\n" + "\n".join(parts)


# --- models ------------------------------------------------------------------------------------


def attention(draw: Draw) -> str:
    heads, kv, dim = draw.n(64), draw.n(16), draw.n()
    form = draw.of(("gqa", "gqa", "mla"))
    if form == "gqa":
        text = f"gqa {{\nquery_heads = {heads * kv}\nkv_heads = {kv}\nhead_dim = {dim}\n"
        text += draw.some(0.1, f"value_dim = {draw.n()}") + draw.some(0.1, "value = same")
        text += draw.some(0.1, "qk_norm = per_head") + draw.some(0.1, "bias = [q, k, v]")
        text += draw.some(0.15, f"window = {draw.length()}") + draw.some(0.05, "cross = 1500 tok")
        text += draw.some(0.05, f"chunk = {draw.length()}") + draw.some(0.1, "sinks = true")
    else:
        text = f"mla {{\nquery_heads = {heads}\nkv_rank = {dim * 4}\nnope_dim = {dim}\n"
        text += f"rope_dim = {draw.n()}\nvalue_dim = {draw.n()}\n"
        text += draw.some(0.5, f"q_rank = {draw.n()}")
    index = f"indexer {{\nheads = {draw.n()}\nkey_dim = {draw.n()}\ntop = {draw.length()}\n}}"
    text += draw.some(0.1, index)
    text += draw.some(0.1, f"compress {{\nevery = {draw.length()}\nwidth = {draw.n()}\n}}")
    return text + "}"


def ffn(draw: Draw) -> str:
    size = f"intermediate = {draw.n() * 32}\n"
    form = draw.of(("gated", "plain", "moe", "moe"))
    if form != "moe":
        return f"{form} {{\n{size}{draw.some(0.1, 'bias = true')}}}"
    experts = draw.n()
    active = draw.n() if draw.chance(draw.silly) else min(experts, draw.n(8))
    text = f"moe {{\nexperts = {experts}\nactive = {active}\n{size}"
    text += draw.some(0.3, f"shared_experts = {draw.n(2)}") + draw.some(0.1, "shared_gate = true")
    text += draw.some(0.1, "gated = false") + draw.some(0.1, "score_bias = true")
    text += draw.some(0.1, f"latent = {draw.n()}") + draw.some(0.1, "groups = 2\ntop_groups = 1")
    return text + "}"


STATES: tuple[Callable[[Draw], str], ...] = (
    lambda d: (
        f"gated_delta {{ key_heads = {d.n()}; value_heads = {d.n()}; key_dim = {d.n()}; "
        f"value_dim = {d.n()}; conv = {d.n(4)} }}"
    ),
    lambda d: f"kda {{ heads = {d.n()}; head_dim = {d.n()}; conv = {d.n(4)} }}",
    lambda d: f"lightning {{ heads = {d.n()}; head_dim = {d.n()} }}",
    lambda d: f"mamba1 {{ inner = {d.n()}; state = {d.n()}; conv = {d.n(4)}; dt_rank = {d.n()} }}",
    lambda d: (
        f"mamba2 {{ heads = {d.n()}; head_dim = {d.n()}; groups = {d.n(8)}; state = {d.n()}; "
        f"conv = {d.n(4)} }}"
    ),
    lambda d: f"short_conv {{ width = {d.n()}; conv = {d.n(4)} }}",
)


def model(draw: Draw) -> str:
    text = f"model m {{\nhidden = {draw.n() * 64}\nvocab = {draw.n() * 1000}\n"
    text += f"attention a = {attention(draw)}\nffn f = {ffn(draw)}\n"
    text += draw.some(0.2, "tied_embeddings = true") + draw.some(0.1, f"positions = {draw.n()}")
    text += draw.some(0.1, f"max_context = {draw.length()}") + draw.some(0.1, "head_bias = true")
    text += draw.some(0.1, f"embedding_dim = {draw.n()}") + draw.some(0.1, f"extra = {draw.n()}")
    layers = [f"{draw.n(32)} x layer {{ a; f }}"]
    if draw.chance(0.3):
        text += f"attention b = {attention(draw)}\n"
        layers.append(f"{draw.n(8)} x pattern {{\n3 x layer {{ a; f }}\nlayer {{ b; f }}\n}}")
    if draw.chance(0.3):
        text += f"attention s = {draw.random.choice(STATES)(draw)}\n"
        layers.append(f"{draw.n(16)} x layer {{ s; f }}")
    if draw.chance(0.1):
        text += f"attention c = shared {{ of = a; query_heads = {draw.n()}; head_dim = 64 }}\n"
        layers.append("2 x layer { c; f }")
    text += "stack {\n" + "\n".join(layers) + "\n}\n"
    text += draw.some(0.2, "mtp { layer { a; f } }")
    tower = (
        f"tower vision {{ parameters = {draw.n()}_000; format = formats.bf16; placement = copy }}"
    )
    return text + draw.some(0.1, tower) + "}\n"


# --- hardware ----------------------------------------------------------------------------------


def hardware(draw: Draw) -> str:
    text = f"device gpu {{\nmemory = {draw.n() * 10} GB\nbandwidth = {draw.n()} TB/s\n"
    text += draw.some(0.8, f"compute {{ bf16 = {draw.n()} TFLOP/s }}")
    text += draw.some(0.3, "price = 2 USD/h") + draw.some(0.3, "power = 700 W") + "}\n"
    text += f"link k {{\nbandwidth = {draw.n()} GB/s\n"
    text += draw.some(0.5, "latency = 3 us") + draw.some(0.3, "efficiency = 80 %") + "}\n"
    shape = draw.of(("switch", "mesh", "ring", "pairs", "bus", "torus"))
    text += f"node box {{\ndevices = {draw.n(8)} x gpu\n"
    if shape == "torus":
        text = text.replace("devices = ", "devices = 8 x gpu #")
        text += "scale_up { link = k; shape = torus; dims = [2, 4] }\n"
    elif shape == "pairs":
        text = text.replace("devices = ", "devices = 2 x gpu #")
        text += "scale_up { link = k; shape = pairs; size = 2 }\n"
    else:
        text += draw.some(0.8, f"scale_up {{ link = k; shape = {shape} }}")
    text += draw.some(0.5, f"nics = {draw.n(8)} x links.infiniband_ndr")
    text += draw.some(0.3, "host { memory = 1 TB; bandwidth = 200 GB/s; link = k }") + "}\n"
    text += f"rack r {{\nnodes = {draw.n(8)} x box\n"
    text += draw.some(0.5, "scale_up { link = k; shape = switch }") + "}\n"
    inside = draw.of(("nodes = {n} x box", "racks = {n} x r", "nodes = [{n} x box, 2 x nodes.h]"))
    inside = inside.format(n=draw.n(8)).replace("nodes.h", f"nodes.{draw.of(NODES)}")
    fabric = draw.of(
        (
            f"fabric = links.{LINKS[0]}",
            "fabric = k",
            "fabric { link = k; shape = rail; oversubscription = 2 }",
            "fabric { link = k; shape = tree; hop = 1 us }",
        )
    )
    return text + f"cluster hall {{\n{inside}\n{fabric}\n}}\n"


# --- layouts, workloads, deployments -----------------------------------------------------------


def layout(draw: Draw) -> str:
    """Most of its blocks agree on the devices of a stage: a wrong one is refused early."""
    tp, ways = draw.n(8), draw.n(4)
    stage = tp * ways
    kind = draw.of(("tp", "tp", "pp", "dp", "cp", "any"))
    if kind == "tp":
        text = f"tp = {tp}\n" + draw.some(0.3, f"experts {{ ep = {tp} }}")
    elif kind == "pp":
        text = f"tp = {tp}\npp = {ways}\n"
    elif kind == "dp":
        text = f"attention {{ dp = {tp}; tp = {ways} }}\nexperts {{ ep = {stage} }}\n"
        text += draw.some(0.3, f"ffn {{ dp = {ways}; tp = {tp} }}")
        text += draw.some(0.2, f"vocab {{ dp = {ways}; tp = {tp} }}")
    elif kind == "cp":
        text = f"tp = {stage}\nattention {{ tp = {tp}; cp = {ways}; interleave = 16 tok }}\n"
    else:
        text = f"attention {{ dp = {draw.n(4)}; tp = {draw.n(4)}; cp = {draw.n(4)} }}\n"
        text += f"experts {{ ep = {draw.n(16)}; redundant = {draw.n(16)} }}\n"
    return text + draw.some(0.1, f"replicas = {draw.n(4)}")


def workload(draw: Draw, opening: str = "workload") -> str:
    text = opening + " {\n"
    if draw.chance(0.6):
        text += f"context = {draw.length()}\nconcurrency = {draw.n()} req\n"
    else:
        text += f"prompt = {draw.length()}\noutput = {draw.length()}\n"
        text += draw.of((f"rate = {draw.n()} req/s\n", f"concurrency = {draw.n()} req\n"))
        text += draw.some(0.3, f"prefix_hits = {draw.n(64)} %")
        text += draw.some(0.2, f"prefix_common = {draw.length()}")
    return text + "}\n"


def _place(draw: Draw) -> str:
    return draw.of(
        (
            "hall", f"{draw.n(8)} x box", f"{draw.n(8)} x gpu", f"1 x nodes.{draw.of(NODES)}",
            "hall.nodes[0..1]", "hall.devices[0, 2..3]", f"{draw.n(4)} x r",
        )
    )  # fmt: skip


def deployment(draw: Draw) -> str:
    name = "m" if draw.chance(0.8) else f"models.{draw.of(MODELS)}"
    recipe = "recipe { default = formats.bf16; layers[0..1] = formats.fp8 }"
    text = f"deployment one {{\nmodel = {name}\n"
    text += f"weights {recipe}\n".replace("recipe ", "", 1) if draw.chance(0.1) else ""
    text += f"weights = formats.{draw.of(FORMATS)}\n" if "weights" not in text else ""
    text += f"kv = formats.{draw.of(FORMATS)}\n"
    if draw.chance(0.2):
        text += f"pool prefill {{ on = hall.nodes[0]; layout = l{draw.n(2)} }}\n"
        text += "pool decode { on = hall.nodes[1..2]; layout = l0 }\n"
        text += f"transfer {{ over = k; overlap = {draw.of(('none', 'layerwise'))} }}\n"
    else:
        text += f"on = {_place(draw)}\nlayout = l0\n"
        text += draw.some(0.1, f"replicas = {draw.n(4)}")
    text += "workload = w\n" if draw.chance(0.3) else workload(draw)
    budget = draw.of(
        (f"utilization = {50 + draw.n(32)} %", f"kv = {draw.n()} GB", f"reserve = {draw.n(8)} GB")
    )
    text += draw.some(0.5, f"budget {{ {budget} }}")
    text += draw.some(0.02, "engine = engines.vllm_0_33")
    text += draw.some(0.1, "draft { method = mtp; tokens = 2; acceptance = 80 % }")
    text += draw.some(0.15, "tiers { host { tier = tiers.ddr5; capacity = 1 TB per node } }")
    text += draw.some(0.2, "price = 2 USD/h per device")
    for _ in range(draw.random.randrange(3)):
        text += f"{draw.of(('require', 'expect'))} {draw.of(CLAIMS)}\n"
    text += draw.some(0.2, "compare l1, l2")
    sweep = "workload.concurrency = [1 req, 64 req]; layout = [l0, l1]; show = [kv.tokens]"
    text += draw.some(0.1, f"sweep {{ {sweep} }}")
    text += draw.some(0.1, 'allow KV101 because "we know"')
    return text + "}\n"
