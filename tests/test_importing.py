"""`kvdsl import hf`: what it writes and tells, what it refuses, and that nothing upsets it.

Counts of published configs are in tests/known/test_hf_configs.py; here are rules on configs that
nobody published, and hostile ones.
"""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvdsl.cli.application import main
from kvdsl.importers.config import Refused
from kvdsl.importers.declaration import Declaration, LayerPieces, Piece, text_of
from kvdsl.importers.families import FAMILIES
from kvdsl.importers.huggingface import Imported
from kvdsl.importers.kinds import RULES
from kvdsl.importers.stacks import STACKS
from kvdsl.planning.models import model_values
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.imported import proved as imported
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.model import Model

CONFIGS = Path(__file__).parent / "known" / "data" / "configs"
CATALOG = Catalog()
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}


def config(**changes: Any) -> str:
    """A small llama's config with changes; None takes a key out."""
    made = {**LLAMA, **changes}
    return json.dumps({key: value for key, value in made.items() if value is not None})


def asked(text: str, length: int | None = None) -> dict[str, int]:
    found = imported(text, "m", "a test")
    declared, problems = Resolver(load_text(found.text, catalog=CATALOG)).declaration("m")
    assert isinstance(declared, Model), problems
    return {name: int(term.value) for name, term in model_values(declared, length).items()}


def reason(text: str) -> str:
    with pytest.raises(Refused) as refused:
        imported(text, "m", "a test")
    return str(refused.value)


# --- rules ---------------------------------------------------------------------------------------


def test_an_absent_kv_heads_key_means_all_heads_or_is_refused_as_the_class_says() -> None:
    assert asked(config(num_key_value_heads=None))["kv.bytes_per_token"] == 4 * 2 * 256 * 2
    assert "num_key_value_heads" in reason(config(model_type="mixtral", num_key_value_heads=None))


def test_a_window_beyond_the_longest_context_never_bites() -> None:
    short = config(model_type="mistral", sliding_window=64, max_position_embeddings=128)
    far = config(model_type="mistral", sliding_window=128, max_position_embeddings=128)
    assert asked(short)["kv.bytes_per_token_unbounded"] == 0
    assert asked(far)["kv.bytes_per_token_unbounded"] > 0


def test_a_window_that_is_switched_off_is_no_window() -> None:
    off = config(model_type="qwen2", sliding_window=64, use_sliding_window=False)
    on = config(model_type="qwen2", sliding_window=64, use_sliding_window=True, max_window_layers=1)
    assert asked(off)["kv.bytes_per_token_unbounded"] == 4 * 2 * 2 * 32 * 2
    assert asked(on)["kv.bytes_per_token_unbounded"] == 2 * 2 * 32 * 2


def test_the_top_of_a_file_with_sections_decides_whether_the_head_is_tied() -> None:
    inner = {**LLAMA, "tie_word_embeddings": True}
    cases: tuple[tuple[bool | None, bool], ...] = ((None, False), (True, True), (False, False))
    for top, tied in cases:
        outer: dict[str, Any] = {"model_type": "llava", "text_config": inner}
        if top is not None:
            outer |= {"tie_word_embeddings": top}
        found = asked(json.dumps(outer))
        assert ("parameters.head" in found) is not tied


def test_a_layer_list_goes_before_the_rule_of_its_class() -> None:
    words = ["full_attention", "sliding_attention"] * 2
    text = config(model_type="qwen3", head_dim=32, layer_types=words, sliding_window=16)
    found = asked(text, 100)
    assert found["kv.bytes_per_request"] == 2 * 2 * 2 * 32 * 2 * (100 + 16)


def test_layers_that_repeat_are_written_as_a_pattern() -> None:
    a, b = (Piece("ffn", name, "gated", (("intermediate", 8),)) for name in ("a", "b"))
    layers = tuple(LayerPieces((piece,)) for piece in (a, a, b) * 5 + (b,))
    text = text_of(Declaration("m", (), (), layers))
    assert "5 x pattern { 2 x layer { a }; layer { b } }" in text
    assert "1 x layer { b }" in text


def test_a_draft_layer_is_counted_apart() -> None:
    shape = {"q_lora_rank": 8, "first_k_dense_replace": 1, "kv_lora_rank": 16,
             "qk_nope_head_dim": 8, "v_head_dim": 8,
             "qk_rope_head_dim": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
             "moe_intermediate_size": 8, "n_shared_experts": 1}  # fmt: skip
    plain = imported(config(model_type="deepseek_v3", **shape), "m", "a test")
    more = config(model_type="deepseek_v3", num_nextn_predict_layers=1, **shape)
    assert "mtp {" not in plain.text
    assert "mtp {" in imported(more, "m", "a test").text
    assert (
        asked(more)["parameters"] == asked(config(model_type="deepseek_v3", **shape))["parameters"]
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_the_rules_that_a_class_names_are_there(name: str) -> None:
    family = FAMILIES[name]
    assert family.kinds in RULES
    assert family.stack in STACKS


# --- what is told --------------------------------------------------------------------------------


def told(text: str) -> Imported:
    return imported(text, "m", "a test")


def test_each_key_is_used_or_ignored_with_a_reason() -> None:
    found = told(config(rope_theta=1.0, wholly_new_key="x"))
    ignored = dict(found.ignored)
    assert ignored["rope_theta"].startswith("positions")
    assert ignored["wholly_new_key"] == "not known here"
    assert set(LLAMA) <= set(found.used)
    assert not set(found.used) & set(ignored)


def test_a_default_that_entered_is_told_with_its_rule() -> None:
    assumed = dict(told(config(num_key_value_heads=None, tie_word_embeddings=None)).assumed)
    assert "kv_heads = 8" in assumed
    assert "tied_embeddings = false" in assumed


def test_a_class_that_is_not_known_is_read_with_a_warning() -> None:
    found = told(config(model_type="brand_new"))
    assert any("brand_new" in warning for warning in found.warnings)
    assert asked(config(model_type="brand_new"))["parameters"] == asked(config())["parameters"]


def test_an_unknown_class_with_a_key_that_may_change_a_size_is_refused() -> None:
    assert "ssm_state_size" in reason(config(model_type="brand_new", ssm_state_size=16))


def test_a_known_class_with_such_a_key_is_read_with_a_warning() -> None:
    found = told(config(ssm_state_size=16))
    assert any("ssm_state_size" in warning for warning in found.warnings)


def test_a_tower_is_noted() -> None:
    outer = {"model_type": "llava", "text_config": LLAMA, "vision_config": {"depth": 2}}
    assert any("vision_config" in warning for warning in told(json.dumps(outer)).warnings)


# --- hostile configs -----------------------------------------------------------------------------

HOSTILE = {
    "no JSON": "model: llama",
    "an empty file": "",
    "a list": "[1, 2]",
    "a number": "7",
    "deep nesting": '{"a": ' * 100_000,
    "deep lists": '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "a number of many digits": '{"hidden_size": ' + "9" * 10_000 + "}",
    "no keys": "{}",
    "a missing width": config(hidden_size=None),
    "a missing vocabulary": config(vocab_size=None),
    "missing layers": config(num_hidden_layers=None),
    "a string for a number": config(hidden_size="256"),
    "a part of a number": config(num_hidden_layers=2.5),
    "a flag for a number": config(num_hidden_layers=True),
    "a negative size": config(intermediate_size=-512),
    "no layers": config(num_hidden_layers=0),
    "a billion layers": config(num_hidden_layers=10**9),
    "a size beyond any": config(hidden_size=10**30),
    "a list of the wrong length": config(layer_types=["full_attention"] * 3),
    "a list of other things": config(layer_types=[1, 2, 3, 4]),
    "an unknown word": config(layer_types=["full_attention"] * 3 + ["telepathy"]),
    "heads that do not divide": config(num_key_value_heads=3),
    "a width that heads do not divide": config(hidden_size=250),
    "more experts a token than there are": config(
        model_type="mixtral", num_local_experts=2, num_experts_per_tok=4
    ),
    "a section that is a list": json.dumps({"model_type": "llava", "text_config": []}),
    "a type that is a list": config(model_type=[]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_config_is_refused_in_a_sentence(what: str) -> None:
    words = reason(HOSTILE[what])
    assert words
    assert "\n" not in words
    assert len(words) < 400


VALUES: tuple[Any, ...] = (
    None, "12", -1, 0, 10**9, 10**30, 1.5, [], [1], ["x"], {}, {"a": 1}, True, False, "", [[[]]],
    [None] * 61, [0] * 61, float("nan"),
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_a_config_with_any_value_changed_is_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(6):
        path = chance.choice([p for p in sorted(CONFIGS.glob("*.json")) if "NVFP4" not in p.name])
        made = json.loads(path.read_text("utf-8"))
        inner = made.get("text_config", made)
        for key in chance.sample(sorted(inner), k=min(2, len(inner))):
            inner[key] = copy.deepcopy(chance.choice(VALUES))
        try:
            found = imported(json.dumps(made), "m", "a test")
        except Refused:
            continue
        assert found.text.startswith("kvspec 1\n")


# --- the command ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Command:
    def __init__(self, streams: pytest.CaptureFixture[str]) -> None:
        self.streams = streams

    def __call__(self, *words: str) -> Done:
        code = main(words)
        found = self.streams.readouterr()
        return Done(code, found.out, found.err)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_the_declaration_goes_to_stdout_and_what_was_done_to_stderr(
    tmp_path: Path, run: Command
) -> None:
    place = tmp_path / "Tiny-Llama" / "config.json"
    place.parent.mkdir()
    place.write_text(config(rope_theta=1.0), "utf-8")
    by_file, done = run("import", "hf", str(place)), run("import", "hf", str(place.parent))
    for each in (by_file, done):
        assert each.code == 0
        assert each.out.startswith("kvspec 1\n")
        assert "model tiny_llama {" in each.out
        assert "used " in each.err
        assert "ignored " in each.err
    spec = tmp_path / "tiny.kvspec"
    spec.write_text(done.out, "utf-8")
    assert run("fmt", "--check", str(spec)).code == 0
    assert run("check", str(spec)).code == 0
    asked_for = run("get", str(spec), "tiny_llama.kv.bytes_per_request", "--length", "100")
    assert asked_for.out == f"{4 * 2 * 2 * 32 * 2 * 100}\n"


def test_a_config_that_is_refused_ends_with_1_and_a_file_that_is_not_there_with_2(
    tmp_path: Path, run: Command
) -> None:
    place = tmp_path / "config.json"
    place.write_text("{}", "utf-8")
    refused = run("import", "hf", str(place))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("error: ")
    assert run("import", "hf", str(tmp_path / "nothing.json")).code == 2
    assert run("import", "hf", str(place), "--name", "not a name").code == 2


def test_a_model_may_be_named_and_its_source_said(tmp_path: Path, run: Command) -> None:
    place = tmp_path / "x.json"
    place.write_text(config(), "utf-8")
    done = run("import", "hf", str(place), "--name", "mine", "--source", 'the "hub"')
    assert "model mine {" in done.out
    assert '"the hub"' in done.out


# --- formats -------------------------------------------------------------------------------------

EXPERTS = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}


def recipe(method: dict[str, Any], **changes: Any) -> dict[str, str]:
    text = told(config(quantization_config=method, **changes)).text
    if "recipe " not in text:
        return {}
    body = text[text.index("recipe ") :].splitlines()[1:-1]
    return {line.split("=")[0].strip(): line.split("=", 1)[1].strip() for line in body}


def test_a_quantized_checkpoint_has_a_recipe() -> None:
    found = recipe({"quant_method": "fp8", "weight_block_size": [128, 128]})
    assert found == {
        "default": "formats.bf16",
        "attention": "formats.fp8_block128",
        "ffn": "formats.fp8_block128",
    }


@pytest.mark.parametrize(
    "pattern", ["re:.*self_attn.*", "model.layers.*.self_attn", "self_attn", "model.layers"]
)
def test_modules_that_are_not_converted_keep_their_format(pattern: str) -> None:
    method = {"quant_method": "mxfp4", "modules_to_not_convert": [pattern]}
    found = recipe(method, **EXPERTS)
    assert "attention" not in found
    assert ("routed_experts" in found) is (pattern != "model.layers")


def test_a_format_that_the_catalog_does_not_have_is_written_out() -> None:
    method = {"quant_method": "gptq", "bits": 8, "group_size": 64}
    words = " ".join(told(config(quantization_config=method)).text.split())
    assert "bits = 8 bit" in words
    assert "block = 64" in words


@pytest.mark.parametrize(
    "method",
    [{}, {"quant_method": "alchemy"}, {"quant_method": "fp8", "weight_block_size": [1]},
     {"quant_method": "gptq", "bits": "four"}, {"quant_method": "compressed-tensors"},
     {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": []}}},
     {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}],
)  # fmt: skip
def test_a_quantization_that_is_not_known_leaves_the_model_and_says_so(
    method: dict[str, Any],
) -> None:
    assert recipe(method) == {}
    found = told(config(quantization_config=method))
    assert any("no recipe" in warning for warning in found.warnings)


def test_an_expression_that_would_run_for_ever_matches_nothing() -> None:
    method = {"quant_method": "fp8", "ignore": [r"re:(\w*)*x", r"re:(.*a){30}$", "re:["]}
    assert "attention" in recipe(method)
