"""Pages, pools and shares of engines: figures worked out by hand from the formulas in their sources
(vLLM 0.33.0, SGLang 0.5.23, TensorRT-LLM), asked of the plans of `specs/engine_pages.kvspec`."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvdsl.costs.memory import share_beside
from tests.known.published import Spec, made_by, terms

SPEC = Spec("engine_pages")


def number(deployment: str, name: str) -> Fraction:
    return SPEC.number(deployment, name)


def test_windows_and_full_attention_draw_pages_of_two_groups_from_one_pool() -> None:
    # 18 layers x 16 tok x 2 x 8 x 64 x 2 B; a request of 131,072 tok takes 8,192 pages, and its
    # window ceil((127 + 2 x 8192) / 16) + 1 = 1,033.
    assert number("gpt_oss", "kv.pages") == 5_441_126_400 // 589_824 == 9_225
    assert number("gpt_oss", "kv.printed") == 131_072
    assert number("gpt_oss", "kv.sequences") == 0  # one page is never used


def test_windows_that_lie_as_full_attention_cost_as_much() -> None:
    assert number("gpt_oss_full", "kv.pages") == 5_441_126_400 // (2 * 589_824)


@pytest.mark.parametrize(("deployment", "tokens"), [("next_half", 544), ("next_single", 1056)])
def test_pages_of_attention_are_raised_until_one_holds_a_state(
    deployment: str, tokens: int
) -> None:
    # A page is 2,048 B x 544 tok = 1,114,112 B, and states of 36 layers lie in three groups of 12.
    pages = number(deployment, "kv.pages")
    room = number(deployment, "memory.kv")
    assert pages == room // (12 * tokens * 2048)
    page = next(t for t in terms(SPEC.plan(deployment).values["kv.pages"]) if "page on" in t.label)
    assert page.value == 12 * tokens * 2048
    assert "36 layers of states in 3 groups" in page.note


@pytest.mark.parametrize(
    ("deployment", "each"),
    [
        ("llama", 40_960),
        ("llama_16", 40_960),
        ("v3", 70_272),
        ("v3_fp8", 35_136),
        ("v32", 48_068),
        ("v32_bf16", 78_324),
        ("v32_cp2", 24_034),
        # SGLang keeps the keys of the indexer on every rank of the sequence: 61 x (328 + 132).
        ("v32_cp2_copied", 28_060),
    ],
)
def test_bytes_of_a_token_on_a_rank(deployment: str, each: int) -> None:
    assert number(deployment, "kv.bytes_per_token_per_gpu") == each


def test_context_parallelism_multiplies_what_is_printed() -> None:
    one, two = number("v32", "kv.printed"), number("v32_cp2", "kv.printed")
    assert two / one == pytest.approx(2, rel=1e-4)


def test_an_engine_without_a_written_share_holds_back_by_its_steps() -> None:
    # 512 + 1.5 x 8192 + 1024 x 8 / 8 + 2 x 512 MiB, and 1536 MiB where a latent is cached.
    memory = 143_771
    for deployment, held in (("sized", 16_384), ("sized_dense", 14_848)):
        share = made_by(SPEC.plan(deployment), "memory.kv", share_beside)
        assert share.value == Fraction(round(1000 * (memory - held) / memory), 1000)


def test_two_pools_end_where_the_first_of_them_does() -> None:
    # 36,864 B of full attention and 0.8 x 36,864 B of windows a token: 100,000 tok.
    assert number("windows", "kv.printed") == 100_000
    # The windows' pool has 80,000: 129 tok of each of 620; the other 97 requests of 1,024.
    assert number("windows", "kv.sequences") == 8 * 97


def test_states_have_a_pool_of_nine_tenths_and_three_slots_a_request() -> None:
    # 19 GB x 0.9 / 1.9 = 9 GB of states of 36 x 2,146,304 B: 116 slots, one of them lost.
    assert number("states", "kv.sequences") == 8 * 38
