"""Parts of a decode step beside published check values, and times beside measured ones.

Figures: a fit of 2026-11-29 over the serving rows of aiconfigurator-core 0.12.0 (Apache-2.0),
`systems/silicon_sample.csv`: bytes of a rank and parts of the step of two of its rows, under that
fit's constants, and what was measured there (InferenceMAX records).
"""

from __future__ import annotations

import pytest

import kvdsl
from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.planning.subjects import subject
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver

PACE = """engine fit_of_november {{
  family = {family}; version = "1"
  latent_projections = copy
  pace {{
    launches {{ layer = {layer} us; sparse = 21.6 us; latent = 30.9 us }}
    reached {{
      weights = 97 %; experts = 75 %; cache = 62 %; attention = 56 %
      products_16 = 92 %; products_8 = 54 %; products_4 = 38 %; grouped = 42 %
    }}
    older {{ before = "2"; launches = {older} }}
  }}
}}
"""
LLAMA = (
    PACE.format(family="vllm", layer="51.3", older="1.15")
    + """
deployment run {
  model = models.llama_3_1_70b
  on = 1 x nodes.hgx_h100
  weights { default = formats.bf16; attention = formats.fp8; ffn = formats.fp8 }
  kv = formats.bf16
  engine = fit_of_november
  layout { tp = 4 }
  workload { prompt = 922 tok; output = 922 tok; concurrency = 16 req }
}
"""
)
DEEPSEEK = (
    PACE.format(family="sglang", layer="50.7", older="1")
    + """
deployment run {
  model = models.deepseek_v3
  on = 1 x nodes.hgx_h200
  weights {
    default = formats.bf16
    attention = formats.fp8; ffn = formats.fp8
    routed_experts = formats.fp8; shared_experts = formats.fp8
  }
  kv = formats.bf16
  engine = fit_of_november
  layout { tp = 8 }
  workload { prompt = 7373 tok; output = 922 tok; concurrency = 16 req }
}
"""
)


def estimated(text: str) -> Estimate:
    deployment, found = Resolver(load_text(f"kvspec 1\n{text}")).deployment("run")
    assert deployment is not None, [d.headline for d in found]
    made, _ = subject(deployment, deployment.pools[""])
    assert made is not None
    return estimate(made)


def milliseconds(found: Estimate, *names: str) -> float:
    return sum(found.number(name) for name in names) * 1e3


READS = tuple(f"decode.weight_read.{m}" for m in ("attention", "ffn", "head"))


def test_llama_70b_on_four_h100_reads_and_launches_what_the_fit_says() -> None:
    found = estimated(LLAMA)
    per_byte = 0.97 * 3.35e12 / 1e3  # bytes a millisecond
    assert milliseconds(found, READS[0]) * per_byte == pytest.approx(3.020e9, rel=2e-3)
    assert milliseconds(found, READS[1]) * per_byte == pytest.approx(14.093e9, rel=2e-3)
    assert milliseconds(found, READS[2]) * per_byte == pytest.approx(0.525e9, rel=2e-3)
    assert milliseconds(found, *READS) == pytest.approx(5.45, rel=1e-2)
    assert milliseconds(found, "decode.kv_read") * 0.62 * 3.35e9 == pytest.approx(1.812e9, rel=1e-2)
    assert milliseconds(found, "decode.launches") == pytest.approx(4.74, rel=1e-2)


def test_deepseek_on_eight_h200_reads_the_experts_that_tokens_hit() -> None:
    found = estimated(DEEPSEEK)
    experts = milliseconds(found, "decode.weight_read.routed_experts")
    assert experts * 0.75 * 4.8e9 == pytest.approx(32.56e9, rel=1e-2)
    cached = milliseconds(found, "decode.kv_read")
    assert cached * 0.62 * 4.8e9 == pytest.approx(8.81e9, rel=1e-2)
    read = (*READS, "decode.weight_read.routed_experts")
    assert milliseconds(found, *read) == pytest.approx(9.76, rel=2e-2)
    assert milliseconds(found, "decode.launches") == pytest.approx(6.23, rel=1e-2)


MEASURED = (
    # deployment, engine's entry and version, measured TPOT and TTFT in ms, TTFT inside its band
    (LLAMA, "vllm", "0.12", 13.19, 121, True),
    (DEEPSEEK, "sglang", "0.5.9", 20.4, 1000, False),  # a miss: told 2.33 s, just beyond
)


@pytest.mark.parametrize(("text", "entry", "version", "tpot", "ttft", "held"), MEASURED)
def test_the_catalog_s_pace_brackets_what_was_measured(
    text: str, entry: str, version: str, tpot: float, ttft: float, held: bool
) -> None:
    engine = f'engine extends engines.{entry} {{ version = "{version}" }}'
    own = text[text.index("deployment") :].replace("engine = fit_of_november", engine)
    one = kvdsl.bulk(f"kvspec 1\n{own}")[0]
    prompt = 922 if entry == "vllm" else 7373
    values = one.serve([prompt], [922], [16]).values
    assert values["decode.tpot_low"][0] * 1e3 < tpot < values["decode.tpot_high"][0] * 1e3
    first = values["prefill.ttft"][0] * 1e3
    assert (ttft / 2.3 < first < ttft * 2.3) == held  # the wide band that the catalog states


IN_FLIGHT = (
    # model, layout, clients, measured TPOT in ms and TTFT in s; lengths drawn below 1,024 and 8,192
    ("minimax_m2_5", "attention { tp = 4 }; experts { ep = 4 }", 64, 31.96, 20.03),
    ("llama_3_1_70b", "tp = 2", 64, 41.68, 30.79),
)
"""InferenceMAX records of vLLM on H100, FP8 weights, in the table that is named above."""


@pytest.mark.parametrize(("model", "layout", "clients", "tpot", "ttft"), IN_FLIGHT)
def test_pages_that_are_given_as_requests_grow_let_more_run(
    model: str, layout: str, clients: int, tpot: float, ttft: float
) -> None:
    """Little's law on what was measured tells how many ran: far more than fit whole."""
    found = estimated(f"""
deployment run {{
  model = models.{model}
  on = 1 x nodes.hgx_h100
  weights {{
    default = formats.bf16
    attention = formats.fp8; ffn = formats.fp8; routed_experts = formats.fp8
  }}
  kv = formats.bf16
  engine = engines.vllm_0_20
  layout {{ {layout} }}
  workload {{ prompt = 922 tok; output = 7373 tok; concurrency = {clients} req }}
}}
""")
    ran = clients * 7373 * tpot / (7373 * tpot + ttft * 1e3)
    assert found.load is not None
    assert float(found.load.served.value) == pytest.approx(ran, rel=0.15)
    assert found.number("kv.sequences") < 0.7 * ran
