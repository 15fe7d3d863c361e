"""States of fixed size, entries of runs and shared caches: what holds whatever the model."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvdsl.pipeline import compile_text
from kvdsl.plan import Plan
from kvdsl.planning.models import model_values
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.model import Model

CATALOG = Catalog()
HYBRIDS = ("qwen3_next_80b_a3b", "nemotron_3_nano_30b_a3b", "minimax_m1")
CACHED = (*HYBRIDS, "deepseek_v4_pro", "gemma_4_e2b", "glm_5_2", "gpt_oss_20b")


def plan(model: str, layout: str, kv: str = "formats.bf16", context: int = 4000) -> Plan:
    text = f"""kvspec 1
deployment d {{
  model = models.{model}
  weights = formats.mxfp4
  kv {kv if kv.startswith("{") else "= " + kv}
  layout {{ {layout} }}
  on = 1 x nodes.hgx_h200
  workload {{ context = {context} tok; concurrency = 4 req }}
}}
"""
    return compile_text(text).plan("d")


def value(made: Plan, name: str) -> Fraction:
    return Fraction(made.value(name).value)


def alone(model: str, length: int) -> dict[str, Fraction]:
    found, problems = Resolver(load_text("kvspec 1\n", catalog=CATALOG)).declaration(
        f"models.{model}"
    )
    assert isinstance(found, Model), problems
    return {name: Fraction(t.value) for name, t in model_values(found, length).items()}


@pytest.mark.parametrize("model", CACHED)
def test_a_deployment_in_bf16_keeps_what_the_model_alone_says(model: str) -> None:
    made, counted = plan(model, "tp = 4"), alone(model, 4000)
    for name in (
        "kv.bytes_per_token",
        "kv.bytes_per_token_unbounded",
        "kv.bytes_per_request",
        "state.bytes_per_request",
    ):
        assert value(made, name) == counted[name]


@pytest.mark.parametrize("model", HYBRIDS)
def test_capacity_in_requests_counts_states(model: str) -> None:
    made = plan(model, "tp = 1" if model != "minimax_m1" else "tp = 8")
    bar = made.memory[0]
    ranks = 1 if model != "minimax_m1" else 8
    each = (value(made, "kv.bytes_per_request") + value(made, "state.bytes_per_request")) / ranks
    assert value(made, "kv.sequences") == Fraction(bar.room.value) // each


@pytest.mark.parametrize("model", HYBRIDS)
def test_a_state_has_one_size_at_every_length_and_fp32_unless_it_is_named(model: str) -> None:
    short, long = plan(model, "tp = 8", context=1000), plan(model, "tp = 8", context=9000)
    assert value(short, "state.bytes_per_request") == value(long, "state.bytes_per_request")
    named = plan(model, "tp = 8", "{ default = formats.fp8; state = formats.bf16 }")
    half = plan(model, "tp = 8", "formats.fp8")
    assert value(named, "state.bytes_per_request") < value(half, "state.bytes_per_request")
    assert value(half, "state.bytes_per_request") <= value(short, "state.bytes_per_request")


def test_a_state_is_split_over_heads_and_never_over_the_sequence() -> None:
    whole = plan("qwen3_next_80b_a3b", "tp = 1")
    heads = plan("qwen3_next_80b_a3b", "tp = 4")
    sequence = plan("qwen3_next_80b_a3b", "tp = 4; attention { tp = 2; cp = 2 }")

    def on_rank(made: Plan) -> Fraction:
        return next(
            Fraction(row.per_token_on_rank.value) for row in made.cache if row.name == "linear"
        )

    assert on_rank(heads) == on_rank(whole) / 4
    assert on_rank(sequence) == on_rank(whole) / 2


def test_one_row_of_the_cache_tells_of_all_layers_that_have_the_part() -> None:
    rows = plan("gpt_oss_20b", "tp = 1").cache
    assert len(rows) == len({row.name for row in rows}) == 2


TURNS = """kvspec 1
model turns {{
  hidden = 1024
  vocab  = 32_000
  attention near = gqa {{ query_heads = 8; kv_heads = 8; head_dim = 64; window = 512 tok }}
  attention far  = gqa {{ query_heads = 8; kv_heads = 2; head_dim = 64 }}
  ffn dense = gated {{ intermediate = 2816 }}
  stack {{
    {stack}
  }}
}}
deployment prod {{
  model   = turns
  weights = formats.bf16
  kv      = formats.bf16
  layout  {{ tp = 2 }}
  on      = 1 x nodes.hgx_h100
  workload {{ context = 4 ktok; concurrency = 4 req }}
}}
"""


def test_layers_that_take_turns_cost_what_they_cost_in_two_runs() -> None:
    turns = ["1 x layer { near; dense }", "1 x layer { far; dense }"] * 30
    runs = ["30 x layer { near; dense }", "30 x layer { far; dense }"]
    mixed, apart = (
        compile_text(TURNS.format(stack="\n    ".join(stack))).plan("prod")
        for stack in (turns, runs)
    )
    assert mixed.values.keys() == apart.values.keys()
    for name, term in mixed.values.items():
        other = apart.values[name]
        if isinstance(term.value, float):
            assert term.value == pytest.approx(other.value)
        else:
            assert term.value == other.value, name
        # The derivation names each part once, however often layers without it come between.
        assert len(list(term.leaves())) == len(list(other.leaves())), name
    assert [row.layers for row in mixed.cache] == [30, 30]
