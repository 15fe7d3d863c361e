"""Backends of exchanges with experts: which ranks a token goes to.

An engine's `all_to_all` names one in its own words; this is what each of them does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Way = Literal["gather", "per_expert", "per_rank"]

WAYS: Mapping[str, Way] = MappingProxyType(
    {
        # vLLM 0.33, model_executor/layers/fused_moe: all tokens to every rank, sums scattered;
        # `naive` and `pplx` are accepted and become it.
        "allgather_reducescatter": "gather",
        "naive": "gather",
        "pplx": "gather",
        # SGLang 0.5.23 without an all-to-all backend gathers the tokens of all DP ranks.
        "none": "gather",
        # DeepEP README: low-latency kernels send a copy for each expert, normal ones for each rank.
        # SGLang's `deepep`, whose `--deepep-mode` is `auto`, takes the first in decode and the
        # second in prefill.
        "deepep": "per_expert",
        "deepep_low_latency": "per_expert",
        "deepep_normal": "per_rank",
        "deepep_high_throughput": "per_rank",
        # TensorRT-LLM's kernels in an NVLink rack write a token once to each rank that it visits.
        "one_sided": "per_rank",
        "flashinfer_nvlink_one_sided": "per_rank",
        # The other words of vLLM 0.33, config/parallel.py, of SGLang 0.5.23, server_args.py, and of
        # TensorRT-LLM: no source here says what they send, so a copy to each expert.
        **dict.fromkeys(
            (
                "ascend_fuseep",
                "ascend_tp",
                "deepep_v2",
                "flashinfer",
                "flashinfer_all2allv",
                "flashinfer_megamoe",
                "flashinfer_nvlink_two_sided",
                "megamoe",
                "mooncake",
                "moonep",
                "mori",
                "mori_high_throughput",
                "mori_low_latency",
                "nixl",
                "nixl_ep",
                "passthrough",
            ),
            "per_expert",
        ),
    }
)
BACKENDS = tuple(WAYS)
"""Every word that an engine's `all_to_all` may be; which of them a library prices, it says."""


def way_of(backend: str | None) -> Way:
    """Where a backend sends a token; one that is not named sends a copy to each expert."""
    return WAYS.get(backend or "", "per_expert")
