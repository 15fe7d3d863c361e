"""DeepSeek V3 on eight H200: 4.08 million tokens become the figure of each engine, and the
difference is explained line by line. Layout and share as in the worked example (`specs/examples`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from kvdsl.pipeline import compile_text
from kvdsl.plan import Plan
from tests.known.published import terms

EXAMPLE = Path(__file__).resolve().parents[2] / "specs" / "examples" / "deepseek_v3_engines.kvspec"

EMBEDDING = 926_679_040
"""129,280 rows of 7,168: a multiple of 64 already, so that no engine pads it."""
DENSE = 1_189_085_184
SHARED = 2_554_331_136
ROUTER = 106_445_312
NORMS = 881_664
ATTENTION = 11_413_547_008
ABSORBED = 61 * 512 * 128 * (128 + 128) * 2
ABSORBED_KEYS = 61 * 512 * 128 * 128
POSITIONS = 163_840 * 64 * 2


@cache
def plan(deployment: str, *lines: str) -> Plan:
    """The plan of a deployment of the example, or of a child of it with more lines."""
    text = EXAMPLE.read_text("utf-8")
    if lines:
        text += f"deployment child extends {deployment} {{ {'; '.join(lines)} }}\n"
        deployment = "child"
    return compile_text(text, EXAMPLE.name, [], only=deployment).plan(deployment)


def weights(shown: Plan) -> dict[str, Fraction]:
    """Bytes of each module on a rank, as the terms behind the weights have them."""
    found = shown.values["memory.weights"].inputs
    return {t.label.removesuffix(" on a rank"): Fraction(t.value) for t in found}


MODULES: dict[str, dict[str, int]] = {
    "vllm": {
        "embedding": EMBEDDING,
        "head": EMBEDDING,
        "ffn": DENSE,
        "shared experts": SHARED,
        "router": ROUTER,
        "norms": NORMS + POSITIONS,
        "attention": ATTENTION + ABSORBED,
    },
    "sglang": {
        "embedding": EMBEDDING,
        "head": EMBEDDING // 8,
        "ffn": DENSE // 8,
        "shared experts": SHARED // 8,
        "router": ROUTER,
        "norms": NORMS,
        "attention": ATTENTION + ABSORBED,
    },
    "tensorrt_llm": {
        "embedding": EMBEDDING,
        "head": EMBEDDING,
        "ffn": DENSE,
        "shared experts": SHARED,
        "router": ROUTER,
        "norms": NORMS,
        "attention": ATTENTION + ABSORBED_KEYS,
    },
    "ideal": {
        "embedding": EMBEDDING // 8,
        "head": EMBEDDING // 8,
        "ffn": DENSE // 8,
        "shared experts": SHARED // 8,
        "router": ROUTER // 8,
        "norms": NORMS // 8,
        "attention": ATTENTION,
    },
}


@pytest.mark.parametrize("engine", MODULES)
def test_each_module_lies_as_the_engine_has_it(engine: str) -> None:
    found = weights(plan(engine))
    assert found.pop("routed experts") == 81_738_596_352
    assert found == MODULES[engine]


@pytest.mark.parametrize(
    ("engine", "tokens"),
    [
        ("ideal", 4_081_832),
        ("vllm", 4_299_264),
        ("sglang", 4_767_496),
        ("tensorrt_llm", 5_381_888),
    ],
)
def test_the_tokens_of_each_engine_follow_from_its_room(engine: str, tokens: int) -> None:
    shown = plan(engine)
    held = 81_738_596_352 + sum(MODULES[engine].values())
    memory = 141 * 10**9 if engine == "ideal" else 143_771 * 2**20
    share = Fraction(92, 100)
    room = share * (memory - held) if engine == "tensorrt_llm" else share * memory - held
    assert shown.value("memory.kv").value == room
    page, lost = {"ideal": (1, 0), "vllm": (64, 1), "sglang": (1, 0), "tensorrt_llm": (32, 0)}[
        engine
    ]
    assert shown.value("kv.tokens").value == tokens
    assert tokens == 8 * page * (room // (70_272 * page) - lost)


def test_explain_names_what_is_copied_whole_and_what_an_engine_makes_beside_it() -> None:
    labels = [t.label for t in terms(plan("vllm").values["kv.tokens"])]
    assert "absorbed copies of attention on a rank" in labels
    assert "position table of norms on a rank" in labels
    notes = {t.note for t in terms(plan("vllm").values["memory.weights"])}
    assert "copied whole, cut over attention" in notes


def test_absorbed_copies_shrink_with_tp() -> None:
    for tp, gib in ((1, 1.906), (8, 0.238)):
        copies = ABSORBED / tp / 2**30
        assert round(copies, 3) == gib
    eight = weights(plan("vllm", "layout = { tp = 8 }"))
    split = ATTENTION - 61 * (7168 * (1536 + 576) + 1536 + 512)
    assert eight["attention"] == Fraction(split + ABSORBED, 8) + ATTENTION - split


@pytest.mark.parametrize(
    ("engine", "layers"),
    [("vllm", (15, 15, 16, 15)), ("sglang", (15, 15, 15, 16)), ("tensorrt_llm", (16, 15, 15, 15))],
)
def test_61_layers_over_four_stages(engine: str, layers: tuple[int, ...]) -> None:
    shown = plan(engine, "layout = { pp = 4; tp = 2 }")
    stages = shown.values["kv.bytes_per_token_per_gpu"].inputs
    assert tuple(Fraction(t.value) / 1152 for t in stages) == layers
