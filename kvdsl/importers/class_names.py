"""What is known of a class by its name alone: those that have no form here, and what files with
sections leave out.

Source: the configuration classes of transformers 5.24.0, and the released modeling code.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

TIED_ABOVE: Mapping[str, bool] = MappingProxyType(
    {
        "aya_vision": True, "cohere2_vision": True, "deepseek_vl": True, "gemma3": True,
        "gemma3n": True, "gemma4": True, "got_ocr2": True, "granite_speech": True,
        "internvl": True, "janus": True, "lfm2_vl": True, "mistral3": True, "ovis2": True,
        "paligemma": True, "llava": False, "llava_next": False, "llava_onevision": False,
        "llama4": False, "qwen3_vl": False, "qwen3_vl_moe": False, "qwen3_5": False,
        "qwen3_5_moe": False, "glm4v_moe": False, "idefics3": False,
    }
)  # fmt: skip
"""Whether the head is tied where a file with sections does not say, by its class."""

NO_FORM: Mapping[str, str] = MappingProxyType(
    {
        "jetmoe": "its attention heads are experts too",
        "recurrent_gemma": "its recurrent blocks (RG-LRU) have no form here",
        "rwkv": "its time mixing has no form here",
        "xlstm": "its memories have no form here",
        "zamba": "its layers share the weights of one attention block",
        "zamba2": "its layers share the weights of a few attention blocks",
        "gemma3n_text": "its layers run on several inputs at once (AltUp, LAuReL)",
        **dict.fromkeys(
            ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "albert", "deberta-v2",
             "modernbert", "nomic_bert"),
            "it is an encoder, which keeps no cache",
        ),
        **dict.fromkeys(
            ("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "whisper", "marian", "t5gemma"),
            "it is an encoder with a decoder, not a decoder alone",
        ),
    }
)  # fmt: skip
"""Classes that cannot be read faithfully, and why."""

ARCHITECTURES: Mapping[str, str] = MappingProxyType({"Grok1ModelForCausalLM": "grok-1"})
"""Model types of configs that name their architecture alone."""
