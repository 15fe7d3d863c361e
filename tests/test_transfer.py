"""Two pools and tiers, by figures worked by hand: bytes by part, who pulls what, times step by
step, queues and balance, what fits where, and the length from which fetching pays."""

from __future__ import annotations

from functools import cache

import pytest

from kvdsl.pipeline import compile_text
from kvdsl.plan import Plan, TierView, TransferView

HEAD = """\
kvspec 1
cluster pod { nodes = 4 x nodes.hgx_h100; fabric = links.infiniband_ndr }
link wire { bandwidth = 50 GB/s; latency = 10 us }
format coded { of = formats.bf16; ratio = 2; encode = 100 GB/s; decode = 200 GB/s; lossless = true }
tier memory { read = 100 GB/s; write = 50 GB/s; latency = 1 ms }
engine pages { family = vllm; version = "1"; block = 16 tok }

deployment one {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = pod.nodes[0]
  layout   { tp = 8 }
  budget   { reserve = 3 GB }
  workload { prompt = 8 ktok; output = 500 tok; rate = 4 req/s; prefix_hits = 50 % }
}
deployment two extends one {
  drop on
  workload { prefix_hits = 0 % }
  pool prefill { on = pod.nodes[0] }
  pool decode  { on = pod.nodes[1] }
  transfer { over = wire }
}
"""
TOKEN = 2 * 32 * 8 * 128 * 2
"""Bytes of a token of Llama 3.1 8B: keys and values, 32 layers, 8 heads of 128, bf16."""


@cache
def plan(base: str, *lines: str) -> Plan:
    body = "\n".join(lines)
    made = compile_text(
        f"{HEAD}deployment asked extends {base} {{\n{body}\n}}\n", "transfer.kvspec", only="asked"
    )
    assert made.plans, [d.headline for d in made.report.diagnostics]
    return made.plans[0]


def moved(*lines: str) -> TransferView:
    flow = plan("two", *lines).flow
    assert flow is not None
    assert flow.transfer is not None
    return flow.transfer


def held(*lines: str) -> tuple[TierView, ...]:
    flow = plan("one", *lines).flow
    assert flow is not None
    return flow.tiers


def number(found: Plan, name: str) -> float:
    return float(found.value(name).value)


# --- bytes ---------------------------------------------------------------------------------------


def test_a_prompt_is_sent_once_where_heads_are_split() -> None:
    assert plan("two").value("transfer.bytes").value == 8000 * TOKEN


def test_heads_that_are_copied_are_pulled_by_each_device_that_keeps_them() -> None:
    found = moved("pool decode { on = pod.nodes[1..2]; layout = { tp = 16 } }")
    assert [(row.copies.value, row.size.value) for row in found.rows] == [(2, 2 * 8000 * TOKEN)]


PULLS = [
    ("tp = 8", 8),
    ("tp = 8; attention { tp = 4; cp = 2 }", 4),
    ("attention { dp = 8 }; experts { ep = 8 }", 1),
]


@pytest.mark.parametrize(("layout", "copies"), PULLS)
def test_a_latent_is_pulled_by_every_rank_of_its_tp_group(layout: str, copies: int) -> None:
    model = "model = models.deepseek_v2_lite"
    found = moved(model, f"pool decode {{ layout = {{ {layout} }} }}")
    (row,) = found.rows
    assert row.copies.value == copies
    assert row.one.value == 8000 * 27 * 576 * 2
    assert row.size.value == copies * row.one.value


def test_a_window_sends_its_window_and_full_attention_all() -> None:
    rows = {row.part: row for row in moved("model = models.gpt_oss_20b").rows}
    kept = sorted(int(row.kept.value) for row in rows.values())
    assert kept == [128, 8000]


def test_states_are_sent_once_a_request_whatever_its_length() -> None:
    def states(prompt: int) -> dict[str, int]:
        workload = f"workload {{ prompt = {prompt} tok }}"
        rows = moved("model = models.qwen3_next_80b_a3b", "layout = { tp = 2 }", workload).rows
        return {row.part: int(row.one.value) for row in rows}

    short, long = states(1000), states(2000)
    grown = {part for part in short if long[part] != short[part]}
    assert len(grown) == 1
    assert all(long[part] == 2 * short[part] for part in grown)
    assert len(short) == 2


def test_pages_are_sent_whole() -> None:
    lines = ("engine = pages", "time = ideal", "workload { prompt = 8001 tok }")
    assert plan("two", *lines).value("transfer.bytes").value == 8016 * TOKEN


def test_a_format_of_the_link_halves_the_bytes_and_not_the_cache() -> None:
    found = plan("two", "transfer { format = formats.fp8 }")
    assert found.value("transfer.bytes").value == 8000 * TOKEN // 2
    assert found.value("kv.bytes_per_token").value == TOKEN


# --- times ---------------------------------------------------------------------------------------

WIRE = 8000 * TOKEN / (8 * 50e9)


def test_a_serial_transfer_is_seen_whole() -> None:
    found = plan("two")
    assert number(found, "transfer.time") == pytest.approx(10e-6 + WIRE)
    alone = number(found, "pools.prefill.prefill.ttft")
    assert number(found, "prefill.ttft") == pytest.approx(alone + 10e-6 + WIRE)


def test_layer_by_layer_only_the_last_layer_is_seen_behind_a_long_prefill() -> None:
    found = plan("two", "transfer { overlap = layerwise }")
    assert number(found, "transfer.time") == pytest.approx(10e-6 + WIRE / 32)
    assert number(found, "transfer.whole") == pytest.approx(10e-6 + WIRE)


def test_the_smaller_side_gives_the_lanes() -> None:
    found = moved("pool decode { layout = { tp = 2 }; replicas = 4 }")
    assert found.lanes.value == 2
    # Four requests at once take eight lanes of the decode pool, one request eight of the other.
    assert found.present.value == 8 * 50e9


def test_a_codec_is_paid_on_both_sides_and_overlaps_where_it_is_pipelined() -> None:
    encode, wire = 8000 * TOKEN / (8 * 100e9), WIRE / 2
    decode = encode / 2
    one_by_one = moved("transfer { format = coded }")
    at_once = moved("transfer { format = coded; pipelined = true }")
    assert float(one_by_one.whole.value) == pytest.approx(10e-6 + encode + wire + decode)
    assert float(at_once.whole.value) == pytest.approx(10e-6 + max(encode, wire, decode))


def test_a_setup_that_is_written_stands_for_that_of_the_link_or_library() -> None:
    assert number(plan("two", "transfer { setup = 2 ms }"), "transfer.time") == pytest.approx(
        2e-3 + WIRE
    )


def test_pools_in_one_node_are_inside_its_scale_up_domain() -> None:
    found = moved("time = fitted", "layout = { tp = 4 }", "pool prefill { on = pod.devices[0..3] }",
                  "pool decode { on = pod.devices[4..7] }",
                  "transfer { over = links.nvlink4 }")  # fmt: skip
    assert found.basis == "fitted"
    outside = moved("time = fitted", "transfer { over = links.infiniband_ndr }")
    assert (found.algorithm, outside.algorithm) != ("point to point", "point to point")


# --- arrivals ------------------------------------------------------------------------------------


def test_the_link_must_carry_what_arrives() -> None:
    found = plan("two")
    assert number(found, "transfer.rate") == 4 * 8000 * TOKEN
    assert number(found, "transfer.bandwidth") == 8 * 50e9


def test_a_prompt_waits_in_the_queue_of_its_pool_as_in_m_d_1() -> None:
    """Zhong et al., DistServe: D + R D^2 / (2 (1 - R D))."""
    found = plan("two", "workload { rate = 20 req/s }")
    service = number(plan("two", "workload = { context = 8 ktok; concurrency = 1 req }"),
                     "pools.prefill.prefill.ttft")  # fmt: skip
    queued = service + 20 * service**2 / (2 * (1 - 20 * service))
    assert number(found, "pools.prefill.prefill.ttft") == pytest.approx(queued)
    # What it can do is more: prompts that wait share a pass, which reads the weights once.
    assert 0.97 * 20 * service < number(found, "balance.prefill") < 20 * service


def test_a_pool_that_takes_a_share_queues_for_its_share_alone() -> None:
    lines = ("pool prefill { share = 25 % }",
             "pool other { role = prefill; on = pod.nodes[2]; share = 75 % }")  # fmt: skip
    found = plan("two", "workload { rate = 16 req/s }", *lines)
    alone = number(plan("two", "workload { rate = 4 req/s }"), "pools.prefill.prefill.ttft")
    assert number(found, "pools.prefill.prefill.ttft") == pytest.approx(alone)


def test_both_pools_are_as_busy_at_the_even_ratio() -> None:
    found = plan("two", "pool decode { on = pod.nodes[1..3]; replicas = 3 }")
    ratio, even = number(found, "balance.ratio"), number(found, "balance.even")
    busy = number(found, "balance.prefill") / number(found, "balance.decode")
    assert ratio == pytest.approx(8 / 24)
    assert even == pytest.approx(ratio * busy)


# --- tiers ---------------------------------------------------------------------------------------


def tier(text: str, *lines: str) -> TierView:
    (only,) = held(f"tiers {{ host {{ tier = memory; {text} }} }}", *lines)
    return only


def test_a_tier_holds_whole_chunks_of_one_copy() -> None:
    assert tier("capacity = 1 GB per node").tokens.value == 10**9 // TOKEN
    chunks = 10**9 // (256 * TOKEN)
    assert tier("capacity = 1 GB per node; chunk = 256 tok").tokens.value == 256 * chunks


def test_a_request_over_devices_lies_in_all_of_their_parts() -> None:
    assert tier("capacity = 1 GB per device").tokens.value == 8 * 10**9 // TOKEN
    apart = tier("capacity = 1 GB per device", "layout = { attention { dp = 8 } }")
    assert apart.tokens.value == 8 * (10**9 // TOKEN)


def test_a_shared_tier_has_the_memory_of_every_node_of_every_pool() -> None:
    lines = "tiers { pool { tier = { read = 10 GB/s; shared = true }; capacity = 1 TB per node } }"
    flow = plan("two", lines).flow
    assert flow is not None
    assert [int(t.capacity.value) for t in flow.tiers] == [2 * 10**12]


def test_a_load_takes_the_latency_and_the_slower_of_tier_and_path() -> None:
    size = 8500 * TOKEN
    free = tier("capacity = 1 TB per node")
    assert free.load is not None
    assert float(free.load.value) == pytest.approx(1e-3 + size / 100e9)
    narrow = tier("capacity = 1 TB per node; over = { bandwidth = 5 GB/s }")
    assert narrow.load is not None
    assert float(narrow.load.value) == pytest.approx(1e-3 + size / (8 * 5e9))


def test_what_is_staged_is_moved_twice_unless_it_is_pipelined() -> None:
    path = "capacity = 1 TB per node; over = { bandwidth = 5 GB/s }; through = { read = 200 GB/s }"
    size = 8500 * TOKEN
    staged, piped = tier(path), tier(f"{path}; pipelined = true")
    assert staged.load is not None
    assert piped.load is not None
    assert float(staged.load.value) == pytest.approx(1e-3 + size / 100e9 + size / 40e9)
    assert float(piped.load.value) == pytest.approx(1e-3 + size / 40e9)


def test_an_access_is_a_whole_granule() -> None:
    disk = f"{{ read = 100 GB/s; granularity = {3 * TOKEN // 2} B }}"
    (coarse,) = held(f"tiers {{ disk {{ tier = {disk}; capacity = 1 TB per node }} }}")
    assert coarse.load is not None
    assert float(coarse.load.value) == pytest.approx(1.5 * 8500 * TOKEN / 100e9)


def test_what_a_prompt_finds_and_adds_is_read_and_written_a_second() -> None:
    found = tier("capacity = 1 TB per node")
    assert found.reads is not None
    assert found.writes is not None
    assert float(found.reads.value) == 4 * 4000 * TOKEN
    assert float(found.writes.value) == 4 * 4000 * TOKEN


def test_prefixes_fill_the_nearest_memory_first() -> None:
    """4 req/s add 16,000 tok/s; an hour of them takes 57.6 Mtok."""
    lines = ("workload { reuse = 1 h }",
             "tiers { host { tier = memory; capacity = 1 TB per node }\n"
             "disk { tier = memory; capacity = 3 TB per node; store = evicted } }")  # fmt: skip
    host, disk = held(*lines)
    working = 16_000 * 3600
    assert float(host.share.value) == pytest.approx(10**12 // TOKEN / working)
    assert float(disk.share.value) == pytest.approx(3 * 10**12 // TOKEN / working)
    assert disk.writes is not None
    assert host.writes is not None
    assert 0 < float(disk.writes.value) < float(host.writes.value)


def test_a_break_even_is_the_shortest_prefix_that_pays() -> None:
    text = "capacity = 1 TB per node; setup = 10 ms"
    even = tier(text).break_even
    assert even is not None

    def saves(found: int) -> bool:
        """4,000 tokens are new; so many more are found."""
        prompt = 4000 + found
        hits = f"workload {{ prompt = {prompt} tok; prefix_hits = {found} / {prompt} }}"
        one = tier(text, hits)
        assert one.fetch is not None
        assert one.recompute is not None
        return float(one.fetch.value) < float(one.recompute.value)

    assert saves(int(even.value))
    assert not saves(int(even.value) - 1)


def test_the_first_token_waits_for_what_is_fetched() -> None:
    with_tier = plan("one", "tiers { host { tier = memory; capacity = 1 TB per node } }")
    waited = number(with_tier, "prefill.ttft") - number(plan("one"), "prefill.ttft")
    assert waited == pytest.approx(number(with_tier, "tier.host.fetch_time"))
