"""What kvdsl gives for figures that papers print on sharding, formats and levers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache

from kvdsl.costs import collectives, overlap
from kvdsl.costs.message import token_bytes
from kvdsl.pipeline import levers_text
from kvdsl.planning.lever_studies import Asked
from kvdsl.planning.levers import Match
from tests.known.published import PAPER_FIGURES as FIGURES
from tests.known.published import Spec, finding

LEVERS, PAPERS = Spec("levers"), Spec("papers")
LLAMA, DEEPSEEK = Spec("llama_405b"), Spec("deepseek_v3")
GIB = 1 << 30

Figure = Fraction | float | int | tuple[float, ...]
Ask = Callable[[], Figure]


def setup(name: str) -> Mapping[str, float]:
    """The setup of a figure, as the paper has it."""
    found: Mapping[str, float] = next(f["setup"] for f in FIGURES if f["id"] == name)
    return found


# --- more GPUs or a smaller cache -----------------------------------------------------------------

STUDIED = {"llama-2-7b": "d7b", "llama-3-8b": "d8b", "internlm-20b": "d20b", "llama-2-70b": "d70b"}
SMALLEST = {"kv": "formats.int4", "keep": "25 %"}


def fitting(model: str, tp: int, changes: Mapping[str, str]) -> int:
    """Requests of 4,096 tokens; none where the weights leave no room."""
    plan = LEVERS.plan(STUDIED[model], layout__tp=str(tp), **changes)
    return int(plan.value("kv.sequences").value)


def capacities() -> dict[str, Ask]:
    found: dict[str, Ask] = {}
    for model, deployment in STUDIED.items():
        found[f"tab4-{model}-weights"] = lambda d=deployment: (  # type: ignore[misc]
            LEVERS.number(d, "memory.weights") / GIB
        )
        for tp in (1, 4):
            for word, changes in (("fp16", {}), ("INT4+k25", SMALLEST)):
                found[f"tab4-{model}-{word}-TP{tp}"] = (
                    lambda m=model, t=tp, c=changes: fitting(m, t, c)  # type: ignore[misc]
                )
    return found


def cost(deployment: str) -> float:
    """USD a million tokens, from the output that was measured."""
    return 1e6 * float(LEVERS.value(deployment, "cost.per_mtok").value)


RUNS = {
    "cost-7b-fp16-TP1": "run_7b_tp1",
    "cost-7b-fp16-TP2": "run_7b_tp2",
    "cost-7b-fp16-TP4": "run_7b_tp4",
    "cost-7b-fp16-TP8": "run_7b_tp8",
    "cost-7b-INT8-TP1": "run_7b_int8",
    "cost-70b-fp16-TP2": "run_70b_tp2",
    "cost-70b-fp16-TP4": "run_70b_tp4",
    "cost-70b-INT8-TP2": "run_70b_int8",
}


@cache
def matched(deployment: str) -> Mapping[Fraction, Match]:
    """Pairs of levers at the same relief, as `kvdsl levers` finds them."""
    asked = Asked((deployment,), formats=("int8", "int4"))
    (found,) = levers_text(LEVERS.text, asked).found
    return {m.relief: m for m in found.matches}


def per_gpu() -> tuple[float, ...]:
    return (
        fitting("llama-2-7b", 1, {}) / 1,
        fitting("llama-2-7b", 8, {}) / 8,
        fitting("llama-2-7b", 1, SMALLEST) / 1,
    )


def fewest() -> int:
    """The TP that the finding on weights without room offers."""
    other = finding(LEVERS.plan("d70b"), "KV141").alternative
    assert other is not None
    assert other.title.startswith("TP=2,")
    return next(int(c.after.value) for c in other.changes if c.name == "gpus")


def scaling() -> float:
    one, eight = (LEVERS.value(d, "decode.throughput").value for d in ("run_7b_tp1", "run_7b_tp8"))
    return 100 * float(eight) / float(one) / 8


STUDY: Mapping[str, Ask] = {
    **capacities(),
    **{name: (lambda d=run: cost(d)) for name, run in RUNS.items()},  # type: ignore[misc]
    "relief-half": lambda: matched("run_7b_tp1")[Fraction(2)].ratio,
    "relief-quarter": lambda: matched("run_7b_tp1")[Fraction(4)].ratio,
    "relief-eighth": lambda: matched("run_7b_tp1")[Fraction(8)].ratio,
    "relief-70b-tp4": lambda: matched("run_70b_tp2")[Fraction(2)].ratio,
    "cap-per-dollar": per_gpu,
    "pmin-70b": fewest,
    "scaling-eff-w2": scaling,
}


# --- caches and their shards ----------------------------------------------------------------------


def token(spec: Spec, deployment: str) -> Fraction:
    return spec.number(deployment, "kv.bytes_per_token")


def copies(deployment: str) -> Fraction:
    return PAPERS.number(deployment, "kv.copies")


def values_on_a_rank() -> Fraction:
    """Of a token and layer, at two bytes each."""
    return PAPERS.number("split_latent", "kv.bytes_per_token_per_gpu") / 61 / 2


def faster() -> float:
    """Cache read, whole over split: what bounds decoding once the experts are gone."""
    read = [
        float(PAPERS.value(d, "decode.kv_read").value) for d in ("whole_latent", "split_latent")
    ]
    return read[0] / read[1]


CACHES: Mapping[str, Ask] = {
    "isca-kv-deepseek-v3": lambda: token(DEEPSEEK, "tp8") / 1000,
    "isca-kv-llama-3.1-405b": lambda: token(LLAMA, "tp16") / 1000,
    "distserve-kv": lambda: PAPERS.number("opt_large", "kv.bytes_per_request") / GIB,
    "paged-opt13": lambda: token(PAPERS, "opt") / 1024,
    "paged-opt13-seq": lambda: PAPERS.number("opt", "kv.bytes_per_request") / GIB,
    "tpla-width": values_on_a_rank,
    "tpla-v3": faster,
    "dcp-r1": lambda: copies("r1"),
    "dcp-r1-8": lambda: copies("r1_dcp8"),
    "dcp-k2-16": lambda: copies("k2_dcp16"),
    "dcp-k2-8": lambda: copies("k2_dcp8"),
    "sglang-fp4": lambda: tuple(
        float(token(PAPERS, d) / token(PAPERS, "llama_8b_nvfp4"))
        for d in ("llama_8b", "llama_8b_fp8")
    ),
    "fp8-ds-mla": lambda: token(PAPERS, "r1_ds_mla") / 61,
}


# --- weights in fewer bits ------------------------------------------------------------------------


def coded(model: str) -> float:
    """Per cent of the weights that a lossless code leaves."""
    plain = model if model.startswith("llama") else f"{model}_bf16"
    after, before = (PAPERS.number(d, "memory.weights") for d in (f"{model}_df11", plain))
    return 100 * float(after / before)


WEIGHTS: Mapping[str, Ask] = {
    "df11-llama-3.1-8b": lambda: coded("llama_8b"),
    "df11-llama-3.3-70b": lambda: coded("llama_70b"),
    "df11-llama-3.1-405b": lambda: coded("llama_405b"),
    "df11-qwen3-14b": lambda: coded("qwen3_14b"),
}


# --- exchanges ------------------------------------------------------------------------------------


def sent_to_experts() -> float:
    """Microseconds of dispatch and combine in a layer on one link, one after the other."""
    of = setup("isca-ep-comm")
    size = collectives.payload(
        tokens=int(of["tokens"] * of["experts"]),
        values=int(of["hidden"]),
        bytes_a_value=int(of["bytes_per_value"]),
        extra=0,
    )
    link = int(of["link_bytes_per_s"])
    return 1e6 * float(collectives.send_time(ranks=2, size=size, latency=0.0, bandwidth=link))


def ceiling() -> float:
    """Milliseconds a token: two micro-batches in every layer."""
    of = setup("isca-ep-tpot")
    each = 2 * sent_to_experts()
    assert abs(each - of["per_layer_us"]) < 1e-9
    return float(collectives.repeated(count=int(of["layers"]), each=each)) / 1000


def ring(name: str) -> tuple[float, ...]:
    """Least block and length a device, in thousands of tokens: as many KV heads as query heads."""
    of = setup(name)
    block = overlap.least_block(
        peak=of["tflops"] * 1e12,
        bandwidth=of["link_GBps"] * 1e9,
        bytes_a_token=1,
        work_a_pair=1,
    )
    return block / 1000, overlap.least_length(block=block) / 1000


def low_latency(name: str, value: int, block: int, scale: int) -> float:
    """GB/s of a kernel that sends a copy of each token to each of its experts."""
    size = token_bytes(tokens=128 * 8, width=7168, value=value, block=block, scale=scale)
    return float(size) / setup(name)["latency_us"] / 1000


RANKS = (8, 16, 32, 128)
EXCHANGES: Mapping[str, Ask] = {
    "isca-ep-comm": sent_to_experts,
    "isca-ep-tpot": ceiling,
    **{
        f"ring-{name}": (lambda n=f"ring-{name}": ring(n))  # type: ignore[misc]
        for name in ("A100-NVLink", "TPU-v3", "TPU-v4", "TPU-v5e")
    },
    **{
        f"deepep-d-{n}": (lambda i=f"deepep-d-{n}": low_latency(i, 1, 128, 4))  # type: ignore[misc]
        for n in RANKS
    },
    **{
        f"deepep-c-{n}": (lambda i=f"deepep-c-{n}": low_latency(i, 2, 7168, 0))  # type: ignore[misc]
        for n in RANKS
    },
}

ANSWERS: Mapping[str, Ask] = {**STUDY, **CACHES, **WEIGHTS, **EXCHANGES}

OF_POOLS = ("mooncake", "beluga", "splitzip", "splitwise", "distserve-", "paged-util")
"""Figures on transfers and tiers, which are asked elsewhere."""
