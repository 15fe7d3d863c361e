"""What waits for a later version, and the claims that are refused rather than answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.known.published import Key, Spec

WAITING: Mapping[Key, str] = {}

WAITING_DIAGNOSTICS: Mapping[str, str] = {}


@dataclass(frozen=True)
class WrongClaim:
    """A published number that is wrong: claimed of a deployment it must be refused (KV146), and
    the finding must say `fits`. `value` is what the plan gives."""

    spec: Spec
    deployment: str
    name: str
    unit: str
    value: int
    fits: str


WRONG_CLAIMS: Mapping[Key, WrongClaim] = {
    ("gqa-405b-bytes", "wrong_answer_logical_over_16"): WrongClaim(
        Spec("llama_405b"), "tp16", "kv.bytes_per_token_per_gpu", "B/tok", 64_512, "tp = 8; pp = 2"
    ),
    ("mla-dsv3-bytes", "wrong_without_rope_key"): WrongClaim(
        Spec("deepseek_v3"), "tp8", "kv.bytes_per_token", "B/tok", 70_272, "rope key"
    ),
}
"""Answered by the finding that refuses them."""

MORE_WRONG_CLAIMS: Mapping[int, WrongClaim] = {
    996: WrongClaim(Spec("deepseek_v3"), "dp8", "kv.sequences", "req", 992, "pools the bytes"),
    4_081_835: WrongClaim(
        Spec("deepseek_v3"), "dp8", "kv.tokens", "tok", 4_081_832, "floors once over all 8 holders"
    ),
    8_784: WrongClaim(
        Spec("deepseek_v3"),
        "dp8",
        "kv.bytes_per_token_per_gpu",
        "B/tok",
        70_272,
        "divides the latent by 8 ranks",
    ),
    3_513_721: WrongClaim(
        Spec("deepseek_v3"),
        "dp8_copies",
        "kv.tokens",
        "tok",
        3_513_720,
        "floors once over all 8 holders",
    ),
    5_218_772: WrongClaim(
        Spec("deepseek_v3"), "tp8", "kv.tokens", "tok", 652_346, "divides the latent by 8 ranks"
    ),
    615_957: WrongClaim(
        Spec("llama_405b"), "two_tp8", "kv.tokens", "tok", 615_956, "floors once over all 2 holders"
    ),
    392_108: WrongClaim(
        Spec("llama_405b"),
        "tp8",
        "kv.tokens",
        "tok",
        307_978,
        "takes the device's memory in GB for GiB",
    ),
}
"""Wrong figures of the documents that the exact parameter counts give too."""
