"""Recipes of published checkpoints: what the catalog says, and what their configs say."""

from __future__ import annotations

import re

import pytest

from kvdsl.placement.tensors import draft_tensors, tensors
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.imported import proved
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.formats import Recipe
from kvdsl.spec.model import Model
from tests.known.published import HERE

CATALOG = Catalog()
CONFIGS = HERE / "data" / "configs"
WHOLE = {
    "deepseek-ai/DeepSeek-V3": "deepseek_v3_fp8",
    "deepseek-ai/DeepSeek-R1": "deepseek_v3_fp8",
    "moonshotai/Kimi-K2-Instruct": "deepseek_v3_fp8",
    "deepseek-ai/DeepSeek-V3.2": "deepseek_v3_2_fp8",
    "moonshotai/Kimi-K2.5": "kimi_k2_5_int4",
    "XiaomiMiMo/MiMo-V2-Flash": "mimo_v2_flash_fp8",
    "MiniMaxAI/MiniMax-M2.5": "minimax_m2_5_fp8",
    "mistralai/Devstral-2-123B-Instruct-2512": "devstral_2_fp8",
    "poolside/Laguna-XS.2-FP8": "laguna_xs_fp8",
    "nvidia/Gemma-4-31B-IT-NVFP4": "gemma_4_31b_nvfp4",
    "openai/gpt-oss-120b": "gpt_oss",
    "openai/gpt-oss-20b": "gpt_oss",
}
"""Configs whose `quantization_config` stands here as published, and the catalog's recipe."""


def lines(text: str, name: str) -> dict[str, str]:
    found, problems = Resolver(load_text(text, catalog=CATALOG)).declaration(name)
    assert isinstance(found, Recipe), problems
    return {line.name: line.format.title for line in found.lines}


@pytest.mark.parametrize("config", WHOLE)
def test_the_catalog_has_the_formats_that_the_config_says(config: str) -> None:
    path = CONFIGS / f"{config.replace('/', '__')}.json"
    found = proved(path.read_text("utf-8"), "m", "a test")
    known = lines("kvspec 1\n", f"recipes.{WHOLE[config]}")
    assert lines(found.text, "m_weights") == known


@pytest.mark.parametrize("name", CATALOG.names("models"))
def test_a_recipe_that_a_model_names_is_there_and_holds_for_it(name: str) -> None:
    file = CATALOG.file("models", name)
    assert file is not None
    for recipe in re.findall(r"`recipes\.(\w+)`", file.source.text):
        assert recipe in CATALOG.names("recipes")


def test_deepseek_v3_stores_a_scale_for_each_square_of_its_matrices_in_fp8() -> None:
    """41,540,496 scales stand in its files, those of the draft layer too: what is stored beyond
    its parameters (684,531,386,000 less 684,489,845,504)."""
    resolver = Resolver(load_text("kvspec 1\n", catalog=CATALOG))
    model, _ = resolver.declaration("models.deepseek_v3")
    recipe, _ = resolver.declaration("recipes.deepseek_v3_fp8")
    assert isinstance(model, Model)
    assert isinstance(recipe, Recipe)
    scales = 0
    for tensor in (*tensors(model), *draft_tensors(model)):
        form = recipe.format_of(tensor.module, tensor.part)
        if form is not None and form.block is not None and tensor.rows > 1:
            rows, columns = form.block
            squares = -(-tensor.rows // rows) * -(-tensor.columns // columns)
            scales += squares * tensor.count * tensor.layers
    assert scales == 684_531_386_000 - 684_489_845_504
