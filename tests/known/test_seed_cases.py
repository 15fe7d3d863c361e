"""Every number of the documents that kvdsl was written for: answered, refused or waiting."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from kvdsl.diagnostics import Severity
from tests.known import deepseek_answers, llama_answers, other_answers
from tests.known.published import PUBLISHED, SEEDS, Answer, Key, codes, finding
from tests.known.waiting import MORE_WRONG_CLAIMS, WAITING, WRONG_CLAIMS, WrongClaim

TABLES = (llama_answers.ANSWERS, deepseek_answers.ANSWERS, other_answers.ANSWERS)
ANSWERS: Mapping[Key, Answer] = {key: a for table in TABLES for key, a in table.items()}


@pytest.mark.parametrize("key", ANSWERS, ids=": ".join)
def test_a_published_number_comes_out_to_its_tolerance(key: Key) -> None:
    published, answer = PUBLISHED[key], ANSWERS[key].ask()
    assert published.agrees(answer), f"{answer} for {published.value} {published.unit}"


@pytest.mark.parametrize("key", WRONG_CLAIMS, ids=": ".join)
def test_a_published_mistake_is_refused_and_named(key: Key) -> None:
    refuse(WRONG_CLAIMS[key], int(PUBLISHED[key].value))


@pytest.mark.parametrize("claimed", MORE_WRONG_CLAIMS)
def test_a_mistake_of_the_documents_is_named_with_exact_counts_too(claimed: int) -> None:
    refuse(MORE_WRONG_CLAIMS[claimed], claimed)


def refuse(wrong: WrongClaim, claimed: int) -> None:
    plan = wrong.spec.with_lines(
        wrong.deployment, f"require {wrong.name} == {claimed} {wrong.unit}"
    )
    told = finding(plan, "KV146")
    assert told.severity is Severity.ERROR
    assert any(wrong.fits in note for note in told.diagnostic.notes), told.diagnostic.notes
    assert plan.value(wrong.name).value == wrong.value
    right = wrong.spec.with_lines(
        wrong.deployment, f"require {wrong.name} == {wrong.value} {wrong.unit}"
    )
    assert "KV146" not in codes(right)


def test_every_published_number_is_answered_refused_or_waiting_and_only_once() -> None:
    listed = [key for table in (*TABLES, WRONG_CLAIMS, WAITING) for key in table]
    assert sorted(listed) == sorted(PUBLISHED)


def test_no_published_number_is_only_to_be_recorded() -> None:
    assert all(p.absolute is not None or p.relative is not None for p in PUBLISHED.values())
    assert len(PUBLISHED) == sum(len(case["expected"]) for case in SEEDS["cases"])


def test_what_waits_says_why() -> None:
    assert all(len(reason) > 20 for reason in WAITING.values())


@pytest.mark.parametrize("reserve", [0, deepseek_answers.RESERVE])
def test_a_single_floor_at_the_end_would_print_a_few_tokens_more(reserve: int) -> None:
    pooled = deepseek_answers.tokens(8 * deepseek_answers.room(1, reserve))
    assert pooled.value == {0: 4_083_561, deepseek_answers.RESERVE: 3_742_030}[reserve]


def test_layouts_of_the_405b_rank_as_published() -> None:
    order = [llama_answers.number(name, "kv.tokens") for name in ("tp8_pp2", "tp16", "two_tp8")]
    assert order == sorted(order, reverse=True)
    assert len(set(order)) == 3


def test_the_405b_needs_its_full_parameter_count() -> None:
    # 405.85 GB, as printed, would leave room for 307,985 tokens; the printed 19.87 GB for 308,004.
    assert llama_answers.number("tp8", "kv.tokens") == 307_978
    assert int((Fraction("73.6e9") - 3 * 10**9 - Fraction("405.85e9") / 8) // 64_512) == 307_985


def test_a_million_parameters_decide_at_the_weight_wall() -> None:
    walls = other_answers.WALLS
    assert walls.number("behind", "memory.kv") == -2
    assert "KV141" in codes(walls.plan("behind"))
    assert "KV141" not in codes(walls.plan("in_front"))
    assert walls.number("in_front", "kv.tokens") == 500


@pytest.mark.parametrize(("context", "narrow_wins"), [(81_209, False), (81_210, True)])
def test_six_users_are_better_off_on_half_the_ranks_only_below_the_limit(
    context: int, narrow_wins: bool
) -> None:
    def step(deployment: str) -> float:
        change = f"{context} tok"
        plan = deepseek_answers.DEEPSEEK.plan(deployment, workload__context=change)
        return sum(
            float(plan.value(name).value) for name in ("decode.kv_read", deepseek_answers.ATTENTION)
        )

    assert (step("six_on_dp8") < step("six_on_dp4_tp2")) is narrow_wins


def test_the_best_split_of_attention_lies_between_its_whole_neighbours() -> None:
    read = deepseek_answers.read_in_all
    assert read("dp8") < read("dp4_tp2") < read("dp2_tp4") < read("tp8")
    assert 4 < deepseek_answers.best_ways() < 8
