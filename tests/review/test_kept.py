"""What is kept between states: the lock, and plans that another run wrote."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.review.repository import OTHER, changed
from tests.scratch import Scratch


def test_a_lock_merges_in_git_and_a_conflict_is_solved_by_writing_it_again(
    scratch: Scratch,
) -> None:
    whole = (scratch.folder / "kvspec.lock").read_text()
    lines = whole.splitlines()
    at = lines.index("bandwidth = 3.35 TB/s")
    torn = [*lines[:at], "<<<<<<< ours", "bandwidth = 3.3 TB/s", "=======",
            "bandwidth = 3.4 TB/s", ">>>>>>> theirs", *lines[at + 1 :]]  # fmt: skip
    scratch.write({"kvspec.lock": "\n".join(torn) + "\n"})
    assert scratch.kvdsl("lock").code == 0
    assert (scratch.folder / "kvspec.lock").read_text() == whole


@pytest.mark.parametrize(("model", "clean"), [("gemma_3_1b", True), ("qwen3_32b", False)])
def test_what_two_branches_lock_merges_or_is_locked_again(
    scratch: Scratch, model: str, clean: bool
) -> None:
    scratch.git("checkout", "-q", "-b", "one")
    scratch.write({"a.kvspec": OTHER.replace("llama_3_1_8b", model).replace("small", "a")})
    scratch.kvdsl("lock")
    scratch.commit("one")
    scratch.git("checkout", "-q", "main")
    scratch.write({"b.kvspec": OTHER.replace("hgx_h100", "hgx_b200").replace("small", "b")})
    scratch.kvdsl("lock")
    scratch.commit("two")
    merge = subprocess.run(["git", "merge", "-q", "-m", "both", "one"], check=False)
    assert (merge.returncode == 0) is clean
    merged = (scratch.folder / "kvspec.lock").read_text()
    assert ("<<<<<<<" in merged) is not clean
    assert scratch.kvdsl("lock").code == 0
    whole = (scratch.folder / "kvspec.lock").read_text()
    assert f"[models.{model}]" in whole
    assert "[nodes.hgx_b200]" in whole
    assert not clean or whole == merged


@pytest.mark.parametrize("text", ["nonsense\n", "kvspec-lock 2\n", "[devices.x] zz\n"])
def test_a_lock_that_is_none_is_an_error_with_its_line(scratch: Scratch, text: str) -> None:
    scratch.write({"kvspec.lock": text})
    ran = scratch.kvdsl("check", "--locked", ".")
    assert ran.code == 2
    assert "line 1" in ran.err


# --- plans that were kept ----------------------------------------------------------------------


def test_plans_kept_by_the_same_kvdsl_have_nothing_apart(scratch: Scratch) -> None:
    scratch.kvdsl("plan", "prod.kvspec", "--output", "json=kept.json")
    ran = scratch.kvdsl("diff", "kept.json", "prod.kvspec", "--exit-code")
    assert (ran.code, ran.out) == (0, "")


def test_what_neither_spec_nor_catalog_moved_is_the_compilers(scratch: Scratch) -> None:
    scratch.kvdsl("plan", "prod.kvspec", "--output", "json=kept.json")
    kept = json.loads((scratch.folder / "kept.json").read_text())
    (plan,) = kept["plans"]
    plan["values"]["decode.tpot"]["value"] *= 2
    scratch.write({"kept.json": json.dumps(kept)})
    one = changed(scratch.kvdsl("diff", "kept.json", "prod.kvspec", "--output", "json"))
    assert one["compiler"]
    assert [value["name"] for value in one["values"]] == ["decode.tpot"]
    told = scratch.kvdsl("diff", "kept.json", "prod.kvspec").out
    assert "kvdsl computes it otherwise" in told
    bandwidth = next(f for f in plan["facts"] if f["path"] == "bandwidth")
    bandwidth["value"] = "1 TB/s"
    scratch.write({"kept.json": json.dumps(kept)})
    found = json.loads(scratch.kvdsl("diff", "kept.json", "prod.kvspec", "--output", "json").out)
    assert not found["deployments"][0]["compiler"]
    assert [f["before"] for f in found["catalog"]] == ["1 TB/s"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 9, "plans": []}', '{"format": 1, "plans": [{}]}', "\x00"]
)
def test_what_holds_no_plans_is_said_so(scratch: Scratch, text: str) -> None:
    scratch.write({"kept.json": text})
    ran = scratch.kvdsl("diff", "kept.json", "prod.kvspec")
    assert ran.code == 2
    assert "cannot read `kept.json`" in ran.err
