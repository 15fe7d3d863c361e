"""Headers of a checkpoint beside a config: what is compared, what is told, and hostile files."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvdsl.cli.application import main

WIDTH = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4}
CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "tie_word_embeddings": False,
}  # fmt: skip
LAYER = {
    "self_attn.q_proj": [64, 64], "self_attn.k_proj": [32, 64], "self_attn.v_proj": [32, 64],
    "self_attn.o_proj": [64, 64], "mlp.gate_proj": [128, 64], "mlp.up_proj": [128, 64],
    "mlp.down_proj": [64, 128], "input_layernorm": [64], "post_attention_layernorm": [64],
}  # fmt: skip
Tensors = dict[str, tuple[str, list[int]]]


def tensors() -> Tensors:
    found: Tensors = {
        "model.embed_tokens.weight": ("BF16", [100, 64]),
        "model.norm.weight": ("BF16", [64]),
        "lm_head.weight": ("BF16", [100, 64]),
    }
    for layer in range(2):
        for name, shape in LAYER.items():
            found[f"model.layers.{layer}.{name}.weight"] = ("BF16", shape)
    return found


def size(kind: str, shape: list[int]) -> int:
    count = WIDTH[kind]
    for n in shape:
        count *= n
    return count


def header(of: Tensors) -> bytes:
    placed: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (kind, shape) in of.items():
        end = at + size(kind, shape)
        placed[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, end]}
        at = end
    return json.dumps(placed).encode()


def written(path: Path, text: bytes, room: int, length: int | None = None) -> None:
    """A file with a header and a hole where the weights would be."""
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length))
        file.write(text)
        file.truncate(8 + len(text) + room)


def shard(path: Path, of: Tensors) -> None:
    written(path, header(of), sum(size(*each) for each in of.values()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    return tmp_path


def told(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(("import", "hf", str(folder)))
    streams = capsys.readouterr()
    assert streams.out.startswith("kvspec 1\n")
    return code, " ".join(streams.err.split())


Streams = pytest.CaptureFixture[str]


def test_tensors_that_agree_are_said_to(folder: Path, capsys: Streams) -> None:
    shard(folder / "model.safetensors", tensors())
    code, said = told(folder, capsys)
    assert code == 0
    assert "have the parameters that are counted" in said
    assert "note" not in said


def test_a_config_alone_is_not_checked(folder: Path, capsys: Streams) -> None:
    code, said = told(folder, capsys)
    assert code == 0
    assert "checked" not in said


def test_a_module_that_differs_is_named_with_both_counts(folder: Path, capsys: Streams) -> None:
    of = tensors()
    of["model.layers.1.mlp.down_proj.weight"] = ("BF16", [64, 256])
    shard(folder / "model.safetensors", of)
    code, said = told(folder, capsys)
    assert code == 1
    assert (
        "error: checkpoint: ffn: 57,344 parameters in the checkpoint, 49,152 counted (+8,192)"
        in said
    )


def test_shards_are_read_by_their_index(folder: Path, capsys: Streams) -> None:
    of = tensors()
    names = sorted(of)
    parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, some in parts.items():
        shard(folder / file, {name: of[name] for name in some})
    places = {name: file for file, some in parts.items() for name in some}
    total = sum(size(*each) for each in of.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    assert told(folder, capsys)[0] == 0
    (folder / "b.safetensors").unlink()  # then the index's bytes are what there is
    code, said = told(folder, capsys)
    assert code == 0
    assert "1 of its files are not here" in said
    index["metadata"] = {"total_size": total + 2}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    code, said = told(folder, capsys)
    assert code == 1
    assert f"{total + 2:,} B in the index, {total:,} B counted (+2)" in said


def test_a_head_that_is_tied_may_be_stored_as_a_copy(folder: Path, capsys: Streams) -> None:
    tied = json.dumps({**CONFIG, "tie_word_embeddings": True})
    (folder / "config.json").write_text(tied, "utf-8")
    shard(folder / "model.safetensors", tensors())
    code, said = told(folder, capsys)
    assert code == 0
    assert "the head is stored (6,400 parameters), though it is the embedding" in said


def quantized(method: Mapping[str, Any], of: Tensors, folder: Path) -> None:
    made = json.dumps({**CONFIG, "quantization_config": method})
    (folder / "config.json").write_text(made, "utf-8")
    shard(folder / "model.safetensors", of)


def test_packed_values_count_as_what_they_hold(folder: Path, capsys: Streams) -> None:
    """AWQ packs eight 4-bit values into an integer; its scales and zeros are no parameters."""
    of: Tensors = {}
    for name, (kind, shape) in tensors().items():
        if "_proj" not in name:
            of[name] = (kind, shape)
            continue
        stem, (rows, columns) = name.removesuffix(".weight"), shape
        of[f"{stem}.qweight"] = ("I32", [columns, rows // 8])
        of[f"{stem}.qzeros"] = ("I32", [columns // 32, rows // 8])
        of[f"{stem}.scales"] = ("BF16", [columns // 32, rows])
    method = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True}
    quantized(method, of, folder)
    code, said = told(folder, capsys)
    assert code == 0, said
    assert "bytes:" not in said


def test_scales_of_blocks_are_no_parameters(folder: Path, capsys: Streams) -> None:
    of: Tensors = {}
    for name, (kind, shape) in tensors().items():
        if "_proj" not in name:
            of[name] = (kind, shape)
            continue
        of[name] = ("F8_E4M3", shape)
        of[f"{name}_scale_inv"] = ("F32", [-(-n // 128) for n in shape])
    quantized({"quant_method": "fp8", "weight_block_size": [128, 128]}, of, folder)
    code, said = told(folder, capsys)
    assert code == 0, said
    assert "bytes:" not in said


def test_a_draft_layer_behind_the_others_is_counted_apart(folder: Path, capsys: Streams) -> None:
    of = tensors()
    made = {**CONFIG, "model_type": "mimo", "head_dim": 16, "num_nextn_predict_layers": 1}
    (folder / "config.json").write_text(json.dumps(made), "utf-8")
    for layer in range(2):
        for side, width in (("q", 64), ("k", 32), ("v", 32)):
            of[f"model.layers.{layer}.self_attn.{side}_proj.bias"] = ("BF16", [width])
    draft = {n: v for n, v in of.items() if n.startswith("model.layers.1.")}
    of |= {n.replace("layers.1", "layers.2"): v for n, v in draft.items()}
    of["model.layers.2.eh_proj.weight"] = ("BF16", [64, 128])
    for norm in ("enorm", "hnorm", "shared_head.norm"):
        of[f"model.layers.2.{norm}.weight"] = ("BF16", [64])
    of["model.layers.2.embed_tokens.weight"] = ("BF16", [100, 64])
    shard(folder / "model.safetensors", of)
    code, said = told(folder, capsys)
    assert code == 0, said
    assert "6,400 parameters of the draft layers are copies of embedding and head" in said


# --- hostile files -------------------------------------------------------------------------------

GOOD = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
HOSTILE: dict[str, tuple[bytes, int, int | None, str]] = {
    "a header of 2^63 bytes": (b"{}", 0, 2**63, "is longer than a file may have"),
    "a header that is cut short": (b'{"a": 1', 0, 400, "is longer than a file may have"),
    "no JSON": (b"hello", 0, None, "it is not JSON"),
    "no UTF-8": (b"\xff\xfe", 0, None, "it is not JSON"),
    "a list": (b"[1]", 0, None, "it holds no object"),
    "deep nesting": (b'{"a":' * 50_000, 0, None, "too deeply"),
    "a name twice": (b'{"a": 1, "a": 1}', 0, None, "stands twice"),
    "a tensor that is a number": (b'{"a": 1}', 0, None, "`a` is no object"),
    "a number of many digits": (b'{"a": ' + b"9" * 9000 + b"}", 0, None, "it is not JSON"),
}
CHANGED: dict[str, tuple[Any, str]] = {
    "an unknown type": ({"dtype": "F1"}, "a type that is not known here"),
    "a type that is a list": ({"dtype": []}, "a type that is not known here"),
    "a negative size": ({"shape": [-2]}, "a shape that is no list of sizes"),
    "a size that is a flag": ({"shape": [True]}, "a shape that is no list of sizes"),
    "a shape of 2^62": ({"shape": [2**62]}, "other bytes than its place"),
    "a shape of many dimensions": ({"shape": [1] * 99}, "a shape that is no list of sizes"),
    "another shape": ({"shape": [3]}, "other bytes than its place"),
    "a place that ends before it starts": ({"data_offsets": [4, 0]}, "has no place in the file"),
    "a negative place": ({"data_offsets": [-4, 0]}, "has no place in the file"),
    "a place behind the file": ({"data_offsets": [100, 104]}, "which is cut short"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_header_is_told_in_a_sentence(what: str, folder: Path, capsys: Streams) -> None:
    text, room, length, words = HOSTILE[what]
    written(folder / "model.safetensors", text, room, length)
    code, said = told(folder, capsys)
    assert code == 1
    assert "error: checkpoint: model.safetensors: " in said
    assert words in said


@pytest.mark.parametrize("what", CHANGED)
def test_a_hostile_tensor_is_told_by_its_name(what: str, folder: Path, capsys: Streams) -> None:
    change, words = CHANGED[what]
    written(folder / "model.safetensors", json.dumps({"a": {**GOOD, **change}}).encode(), 4)
    code, said = told(folder, capsys)
    assert code == 1
    assert words in said


def test_tensors_that_overlap_are_told(folder: Path, capsys: Streams) -> None:
    written(folder / "model.safetensors", json.dumps({"a": GOOD, "b": GOOD}).encode(), 4)
    assert "overlap" in told(folder, capsys)[1]


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("{", "it is not JSON"),
        ("[]", "it holds no object"),
        ("{}", "`weight_map` is missing"),
        ('{"weight_map": {"a": "../x.safetensors"}}', "no .safetensors beside it"),
        ('{"weight_map": {"a": 7}}', "no .safetensors beside it"),
        ('{"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": -1}}', "no number"),
    ],
)
def test_a_hostile_index_is_told(index: str, words: str, folder: Path, capsys: Streams) -> None:
    (folder / "model.safetensors.index.json").write_text(index, "utf-8")
    code, said = told(folder, capsys)
    assert code == 1
    assert words in said
