"""Published configs, imported: the declaration has the parameters and the cache of the model.

Each of the 82 goes through the front door: config.json to text, text to a model, the model asked
for its groups and its cache. Rules that were fitted to one file would fail the laws in
tests/test_importing.py.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache

import pytest

from kvdsl.importers.config import Refused
from kvdsl.importers.huggingface import Imported, identifier
from kvdsl.planning.models import model_values
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.imported import proved as imported
from kvdsl.resolve.resolver import Resolver
from kvdsl.source import SourceFile
from kvdsl.spec.model import Model
from kvdsl.syntax.formatter import format_module
from kvdsl.syntax.parser import parse
from tests.known.published import HERE

DATA = HERE / "data"
CONFIGS = {
    path.stem.replace("__", "/", 1): path for path in sorted((DATA / "configs").glob("*.json"))
}
CATALOG = Catalog()
WAITING: Mapping[str, str] = {
    "moonshotai/Kimi-K3": "no class counts it; `attn_res_block_size` is told as not read",
}
"""Configs whose parameters are not known to be exact, and why. Their caches are."""

DIFFERENT: Mapping[str, str] = {
    "deepseek-ai/DeepSeek-V3, DeepSeek-R1": "the files store 684,531,386,000 elements: "
    "671,026,419,200 of the model, 11,610,068,224 of its draft layer (`parameters.mtp`), "
    "1,853,358,080 of the draft layer's copies of embedding and head, 41,540,496 scales",
    "deepseek-ai/DeepSeek-V3.2, GLM-4.5, GLM-5.x, Qwen3.5, MiniMax-M2.5, Nemotron-3 Super": "files "
    "that hold draft layers have those beside `parameters`; `parameters.mtp` counts them where the "
    "config names them",
    "Qwen/Qwen3-Next-80B-A3B": "its files hold a draft layer that its config does not name",
    "google/gemma-3-27b-it": "27,432,406,640 elements stored are 27,009,346,304 of the text and "
    "423,060,336 of the image encoder; so are all multimodal files: towers are counted apart",
    "openai/gpt-oss-120b, gpt-oss-20b, and other packed formats": "a list of stored elements "
    "counts bytes that hold two values, and scales",
    "hpcai-tech/grok-1": "the file stores a copy of the tied embedding as its head: 805,306,368",
    "MiniMaxAI/MiniMax-Text-01, M1": "456,089,655,296 by its `attn_type_list`; the class in "
    "transformers does not read that key and alternates its layers, which gives 452,106,134,016",
    "meituan-longcat/LongCat-Flash": "560,664,980,480: experts that pass a token on have no "
    "weights; the class in transformers makes weights for them, 741,053,606,912",
    "moonshotai/Kimi-K3": "no class counts it, and `attn_res_block_size` is not read: no total is "
    "claimed",
}
"""Models whose published or otherwise counted total is another, and why."""

STRIDED = {"deepseek-ai/DeepSeek-V4-Pro": 9848}
"""What a token adds through entries that stand for many: (31 x 512 / 128 + 30 x 640 / 4) x 2 bytes.
The table's `unbounded` column leaves them out, and so does `kv.bytes_per_token_unbounded`; its
bytes of a request count them, and so do ours."""


def _table(name: str) -> dict[str, dict[str, int]]:
    lines = (DATA / name).read_text("utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {
        row["model"]: {key: int(value) for key, value in row.items() if key != "model"}
        for row in rows
    }


PARAMETERS = _table("config_parameters.csv")
CACHES = _table("config_caches.csv")


@cache
def read(name: str) -> Imported:
    return imported(CONFIGS[name].read_text("utf-8"), identifier(name), f"{name} config.json")


@cache
def model(name: str) -> Model:
    found, problems = Resolver(load_text(read(name).text, catalog=CATALOG)).declaration(
        read(name).name
    )
    assert isinstance(found, Model), problems
    return found


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_imported_config_counts_what_its_checkpoint_stores_group_by_group(name: str) -> None:
    values = {k: int(term.value) for k, term in model_values(model(name)).items()}
    groups = {key: values.get(f"parameters.{key}", 0) for key in PARAMETERS[name]}
    groups["total"] = values["parameters"]
    groups["attention"] += values.get("parameters.indexer", 0)
    assert groups == PARAMETERS[name]


@pytest.mark.parametrize("name", CACHES)
def test_an_imported_config_keeps_what_its_cache_keeps_at_every_length(name: str) -> None:
    known = dict(CACHES[name])
    unbounded, state = known.pop("unbounded"), known.pop("state")
    found = model_values(model(name))
    assert found["kv.bytes_per_token_unbounded"].value == unbounded
    assert found["state.bytes_per_request"].value == state
    for length, size in known.items():
        asked = model_values(model(name), int(length))
        assert asked["kv.bytes_per_request"].value == size


@pytest.mark.parametrize("name", CONFIGS)
def test_what_an_import_writes_is_canonical(name: str) -> None:
    text = read(name).text
    module, problems = parse(SourceFile("x", text))
    assert not problems
    assert format_module(module) == text


def test_no_config_goes_without_a_count_or_a_reason() -> None:
    assert sorted(CONFIGS) == sorted({*PARAMETERS, *WAITING})
    assert sorted(CONFIGS) == sorted(CACHES)
    assert not set(PARAMETERS) & set(WAITING)


@pytest.mark.parametrize("name", WAITING)
def test_a_config_that_is_not_read_whole_says_so(name: str) -> None:
    try:
        found = read(name)
    except Refused:
        return
    assert any("may change a size" in warning for warning in found.warnings)


def test_every_config_has_a_line_that_says_where_it_is_from() -> None:
    text = (DATA / "configs" / "SOURCES.md").read_text("utf-8")
    assert [name for name in CONFIGS if f"| {name} |" not in text] == []


def test_what_a_request_gains_a_token_is_what_grows_without_bound() -> None:
    """The table's own requests say so, of every model whose windows are full by then."""
    long, longer = 32_768, 131_072
    for name, known in CACHES.items():
        gained = known[str(longer)] - known[str(long)]
        each = STRIDED.get(name, known["unbounded"])
        assert gained == each * (longer - long)
