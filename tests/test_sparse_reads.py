"""What a query meets of a cache: windows, and entries that an indexer selects. Figures by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdsl.costs.attention import attention_work
from kvdsl.costs.carried import bounded_pairs, causal_pairs, selected_bytes
from kvdsl.formulas import Term
from kvdsl.pipeline import compile_text
from kvdsl.plan import Plan

SPEC = """kvspec 1
deployment served {{
  model    = models.{model}
  weights  = formats.fp8
  kv       = formats.fp8
  on       = 1 x nodes.hgx_h200
  layout   {{ tp = 8 }}
  budget   {{ reserve = 5 GB }}
  workload {{ {workload} }}
  {more}
}}
"""


def plan(model: str, workload: str, more: str = "") -> Plan:
    return compile_text(SPEC.format(model=model, workload=workload, more=more)).plan("served")


def number(found: Plan, name: str) -> float:
    return float(found.value(name).value)


def at(tokens: int, model: str = "deepseek_v3_2", more: str = "") -> Plan:
    return plan(model, f"context = {tokens} tok; concurrency = 1 req", more)


def made_by(term: Term, formula: object) -> list[Term]:
    found = [term] if term.formula is formula else []
    return [*found, *(each for own in term.inputs for each in made_by(own, formula))]


def test_a_step_reads_the_latents_that_the_indexer_selects_and_all_keys_of_the_index() -> None:
    # 61 layers; latent 512 + rope key 64 = 576 B, of 2,048 tokens; index key 128 B, of all 131,072.
    read = 61 * (2048 * 576 + 131_072 * 128)
    assert number(at(131_072), "decode.kv_read") == pytest.approx(read / 4.8e12)
    # No more tokens than are selected: all is read.
    assert number(at(1500), "decode.kv_read") == pytest.approx(61 * 1500 * (576 + 128) / 4.8e12)


def test_the_whole_cache_is_held() -> None:
    assert at(131_072).value("kv.bytes_per_request").value == 61 * 131_072 * (576 + 128)


def test_the_derivation_shows_what_is_selected_of_the_context() -> None:
    (read,) = made_by(at(131_072).values["decode.kv_read"], selected_bytes)
    given_ = {term.label: term.value for term in read.inputs}
    assert given_["entries selected"] == 2048
    assert given_["tokens on the fullest rank"] == 131_072
    assert read.value == 61 * 576 * 2048


def test_layers_that_share_a_choice_read_as_little() -> None:
    # 78 layers of GLM 5.2, 21 of which choose; without an engine the others keep no index.
    read = 78 * 2048 * 576 + 21 * 131_072 * 128
    assert number(at(131_072, "glm_5_2"), "decode.kv_read") == pytest.approx(read / 4.8e12)


@pytest.mark.parametrize("model", ["deepseek_v3_2", "glm_5_2"])
def test_ideal_and_fitted_times_read_alike(model: str) -> None:
    engine = "engine = engines.vllm_0_33"
    shares = [
        number(at(length, model, engine), "decode.kv_read")
        / number(at(length, model, f"{engine}; time = ideal"), "decode.kv_read")
        for length in (1024, 16_384, 131_072)
    ]
    assert shares == pytest.approx([shares[0]] * 3)


def test_a_prompt_scores_every_key_of_the_index_and_those_selected() -> None:
    found = at(10_000).values["prefill.ttft"]
    whole = 10_000 * 10_001 // 2
    # The first 2,048 tokens meet all before them, each of the others 2,048.
    some = 2048 * 2049 // 2 + (10_000 - 2048) * 2048
    assert {t.inputs[3].value for t in made_by(found, attention_work)} == {some, whole}


def test_a_prompt_meets_a_window_and_no_more() -> None:
    found = plan("gpt_oss_120b", "prompt = 10_000 tok; output = 100 tok; concurrency = 1 req")
    pairs = {t.inputs[3].value for t in made_by(found.values["prefill.ttft"], attention_work)}
    assert pairs == {10_000 * 10_001 // 2, 128 * 129 // 2 + (10_000 - 128) * 128}


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 80), st.integers(1, 4))
def test_bounded_pairs_are_the_sum_over_queries(
    new: int, found: int, most: int, every: int
) -> None:
    counted = sum(min(found + i, most * every) for i in range(1, new + 1))
    assert bounded_pairs(new=new, found=found, most=most, every=every) == Fraction(counted, every)
    if most * every >= new + found:
        assert counted == causal_pairs(new=new, found=found)
