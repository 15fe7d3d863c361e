"""`config = "…"` of a model: what it brings, what overrides it, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvdsl.pipeline import ask, check_path

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
    "tie_word_embeddings": False,
}  # fmt: skip


def spec(folder: Path, text: str, **changes: Any) -> str:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}), "utf-8")
    place = folder / "a.kvspec"
    place.write_text(f"kvspec 1\n\n{text}\n", "utf-8")
    return str(place)


def value(path: str, name: str) -> int:
    found = ask(path, name)
    assert found.value is not None, [d.headline for d in found.report.diagnostics]
    return int(found.value.value)


def headlines(path: str) -> list[tuple[str, str, int]]:
    return [(d.code, d.headline, d.span.line) for d in check_path(path).report.diagnostics]


def test_a_config_says_all_of_a_model(tmp_path: Path) -> None:
    path = spec(tmp_path, 'model small { config = "config.json" }')
    assert headlines(path) == []
    assert value(path, "small.kv.bytes_per_token") == 4 * 2 * 2 * 32 * 2


def test_the_rest_of_the_model_overrides_its_config(tmp_path: Path) -> None:
    lines = ("vocab = 50", 'config = "config.json"', "attention full { kv_heads = 4 }")
    text = f"model small {{ {'; '.join(lines)} }}"
    path = spec(tmp_path, text)
    assert value(path, "small.parameters.embedding") == 50 * 256
    assert value(path, "small.kv.bytes_per_token") == 4 * 2 * 4 * 32 * 2


def test_a_child_inherits_what_a_config_says(tmp_path: Path) -> None:
    text = 'model small { config = "config.json" }\nmodel wide extends small { hidden = 512 }'
    path = spec(tmp_path, text)
    assert value(path, "wide.parameters.embedding") == 1000 * 512


def test_a_model_that_stands_inline_may_name_a_config(tmp_path: Path) -> None:
    text = """deployment prod {
  model = { config = "config.json"; attention full { kv_heads = 4 } }
  on = 1 x nodes.hgx_h200
  layout { tp = 4 }
  weights = formats.bf16
  kv = formats.bf16
  workload { context = 4 ktok; concurrency = 1 req }
  budget { reserve = 3 GB }
}"""
    assert value(spec(tmp_path, text), "prod.kv.bytes_per_token") == 4 * 2 * 4 * 32 * 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": -5}, "`hidden_size` is -5, outside 1 to"),
        ({"num_hidden_layers": 10**9}, "`num_hidden_layers` is 1,000,000,000"),
        ({"hidden_size": "256"}, '`hidden_size` is "256", not a whole number'),
        ({"ssm_state_size": 16}, "`ssm_state_size` may change a size, and is not read"),
        ({"model_type": "t5"}, "it is an encoder with a decoder"),
    ],
)
def test_what_is_wrong_with_a_config_is_told_where_it_is_named(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (found,) = headlines(spec(tmp_path, 'model small { config = "config.json" }', **changes))
    assert found[0] == "KV079"
    assert words in found[1]
    assert found[2] == 3


@pytest.mark.parametrize(
    "path", ["", "no.json", "/etc/hostname", "../../../etc/x.json", "config.txt", "~/config.json"]
)
def test_a_path_that_is_no_config_of_the_project_is_told(path: str, tmp_path: Path) -> None:
    (found,) = headlines(spec(tmp_path, f'model small {{ config = "{path}" }}'))
    assert found[0] == "KV079"
    assert f"cannot read the config `{path}`" in found[1]


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "project"
    inside.mkdir()
    (tmp_path / "secret.json").write_text("{}", "utf-8")
    path = spec(inside, 'model small { config = "link.json" }')
    (inside / "link.json").symlink_to(tmp_path / "secret.json")
    (found,) = headlines(path)
    assert "it is a link out of this folder" in found[1]


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"a": ' * 5000, '{"a": 1, "a": 2}'])
def test_a_file_that_is_no_config_is_told(text: str, tmp_path: Path) -> None:
    path = spec(tmp_path, 'model small { config = "config.json" }')
    (tmp_path / "config.json").write_text(text, "utf-8")
    (found,) = headlines(path)
    assert found[0] == "KV079"


def test_an_override_that_does_not_add_up_is_told_in_the_spec(tmp_path: Path) -> None:
    text = 'model small {\n  config = "config.json"\n  attention full { query_heads = 7 }\n}'
    found = headlines(spec(tmp_path, text))
    assert [each[0] for each in found] == ["KV077"]


def test_a_config_is_among_the_inputs_of_a_check(tmp_path: Path) -> None:
    path = spec(tmp_path, 'model small { config = "config.json" }')
    before = check_path(path).inputs
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 7}), "utf-8")
    assert len(before) == 2
    assert check_path(path).inputs != before
