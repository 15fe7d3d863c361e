"""A scratch repository of three specs and a lock, and what a difference says of it.

Comes in: a scratch repository and a message of a commit. Goes out: the difference as JSON, held
against its schema.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.scratch import Ran, Scratch

ROOT = Path(__file__).resolve().parents[2]
HARDWARE = """\
kvspec 1

cluster two_hgx {
  nodes  = 2 x nodes.hgx_h100
  fabric = links.infiniband_ndr
}
"""
PROD = """\
kvspec 1

import "shared/hardware.kvspec"

layout tp8_pp2 { tp = 8; pp = 2 }
layout tp16    { tp = 16 }

deployment chat {
  model   = models.llama_3_1_405b
  weights = formats.fp8
  kv      = formats.bf16
  on      = hardware.two_hgx
  layout  = tp8_pp2

  budget   { utilization = 92 %; reserve = 3 GB }
  workload { context = 8 ktok; concurrency = 128 req }

  require kv.tokens >= 1.3 Mtok as room because "a day of chats"
}
"""
OTHER = """\
kvspec 1

deployment small {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   { tp = 8 }
  budget   { reserve = 3 GB }
  workload { context = 8 ktok; concurrency = 8 req }
}
"""


SCHEMA = Draft202012Validator(
    json.loads((ROOT / "docs" / "schema" / "diff.json").read_text(encoding="utf-8"))
)


def changed(ran: Ran) -> dict[str, Any]:
    """The one deployment that changed, out of the JSON form."""
    found: dict[str, Any] = json.loads(ran.out)
    assert [f"{e.json_path}: {e.message[:200]}" for e in SCHEMA.iter_errors(found)] == []
    assert len(found["deployments"]) == 1, [d["name"] for d in found["deployments"]]
    one: dict[str, Any] = found["deployments"][0]
    return one


def since(scratch: Scratch, message: str) -> Ran:
    """The difference that the last commit made, as JSON."""
    scratch.commit(message)
    return scratch.kvdsl("diff", "--against", "HEAD~1", "--output", "json")


def values(deployment: dict[str, Any]) -> dict[str, Any]:
    return {value["name"]: value for value in deployment["values"]}
