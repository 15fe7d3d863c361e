"""`kvdsl catalog`: names with dots and bare, figures of a model, nothing parsed but the asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdsl.cli.application import main
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.syntax import parser

Streams = pytest.CaptureFixture[str]


def shown(*words: str) -> list[str]:
    return ["catalog", *words]


@pytest.mark.parametrize("name", ["models.gemma_3_27b", "gemma_3_27b"])
def test_a_model_is_shown_with_its_source_figures_and_cache(name: str, capsys: Streams) -> None:
    assert main(shown("show", name)) == 0
    out = capsys.readouterr().out
    assert 'source          = "google/gemma-3-27b-it config.json' in out
    figures = dict(line.split(maxsplit=1) for line in out.splitlines() if line[:1].islower())
    assert figures["parameters"] == "27009346304"
    # 62 layers of 2 x 16 heads of 128 in bf16; the ten that see all grow without bound.
    assert figures["kv.bytes_per_token"] == f"{62 * 2 * 16 * 128 * 2} B/tok"
    assert figures["kv.bytes_per_token_unbounded"] == f"{10 * 2 * 16 * 128 * 2} B/tok"


def test_a_search_finds_names_and_text(capsys: Streams) -> None:
    assert main(shown("search", "gemma", "27b")) == 0
    assert "models.gemma_3_27b" in capsys.readouterr().out
    assert main(shown("search", "no", "such", "thing")) == 1


def test_a_list_has_every_name_of_a_kind(capsys: Streams) -> None:
    assert main(shown("list", "recipes")) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("recipes.")] == [
        f"recipes.{name}" for name in Catalog().names("recipes")
    ]


def test_naming_one_entry_parses_no_other() -> None:
    catalog = Catalog()
    Resolver(load_text("kvspec 1\n", catalog=catalog)).declaration("models.gemma_3_27b")
    assert [file.source.name for file in catalog.loaded] == ["catalog/models/gemma_3_27b.kvspec"]


def test_showing_one_entry_parses_its_file_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: Streams
) -> None:
    parsed: list[str] = []
    real = parser.parse

    def counting(source: object, *rest: object) -> object:
        parsed.append(Path(source.name).name)  # type: ignore[attr-defined]
        return real(source, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(parser, "parse", counting)
    assert main(shown("show", "models.gemma_3_27b")) == 0
    assert "parameters" in capsys.readouterr().out
    assert [name for name in parsed if name.endswith(".kvspec")] == ["gemma_3_27b.kvspec"]
