"""A repository of ten commits: what `diff`, `check` and `lock` say of each.

Every commit is one kind of change: a layout, a format, a name, a figure of the catalog, a broken
requirement, a policy, a waiver, an unused waiver, a deleted import, and nothing at all.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kvdsl.pipeline import sketched
from kvdsl.project.loader import load_text
from kvdsl.project.revisions import NoRevision, revision
from kvdsl.review.sides import Side, Sketches, pairs
from tests.scratch import Ran, Scratch

ROOT = Path(__file__).resolve().parent.parent
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


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    made = Scratch(tmp_path / "plans", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made.write({"shared/hardware.kvspec": HARDWARE, "prod.kvspec": PROD, "small.kvspec": OTHER})
    made.kvdsl("lock")
    made.commit("base")
    return made


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


def test_a_changed_layout_is_told_with_its_cause_its_numbers_and_its_findings(
    scratch: Scratch,
) -> None:
    scratch.replace("prod.kvspec", "layout  = tp8_pp2", "layout  = tp16")
    one = changed(since(scratch, "layout"))
    assert (one["name"], one["file"], one["state"]) == ("chat", "prod.kvspec", "changed")
    assert [(s["sign"], s["path"], s["before"], s["after"]) for s in one["spec"]] == [
        ("~", "layout.tp", "8", "16"),
        ("-", "layout.pp", "2", None),
    ]
    copies = values(one)["kv.copies"]
    assert (copies["before"]["value"], copies["after"]["value"]) == (1, 2)
    tokens = values(one)["kv.tokens"]
    assert (tokens["before"]["value"], tokens["after"]["value"]) == (1_402_348, 701_174)
    assert tokens["worth"] == "worse"
    assert tokens["ratio"] == pytest.approx(-0.5)
    assert tokens["movers"], "a large change has a reason"
    assert {f["code"] for f in one["findings"]["new"]} >= {"KV101", "KV104"}
    (broken,) = one["requirements"]
    assert (broken["label"], broken["before"], broken["after"]) == ("room", "holds", "fails")


def test_a_changed_format_moves_what_a_token_takes(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", "kv      = formats.bf16", "kv      = formats.fp8")
    one = changed(since(scratch, "format"))
    assert [(s["path"], s["before"], s["after"]) for s in one["spec"]] == [
        ("kv", "formats.bf16", "formats.fp8")
    ]
    per_token = values(one)["kv.bytes_per_token"]
    assert (per_token["before"]["value"], per_token["after"]["value"]) == (516_096, 258_048)
    assert per_token["movers"][-1]["label"] == "bytes a value"


def test_a_renamed_deployment_is_one_and_not_two(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", "deployment chat", "deployment assistant")
    one = changed(since(scratch, "rename"))
    assert (one["name"], one["was"], one["state"]) == ("assistant", "chat", "renamed")
    assert (one["values"], one["spec"], one["requirements"]) == ([], [], [])


def test_a_deployment_that_moves_to_another_file_is_found_there(scratch: Scratch) -> None:
    scratch.write({"small.kvspec": None, "teams/small.kvspec": OTHER})
    one = changed(since(scratch, "move"))
    assert (one["name"], one["was_file"], one["state"]) == ("small", "small.kvspec", "renamed")


def test_a_figure_of_the_catalog_that_moved_is_the_catalogs_and_not_the_authors(
    scratch: Scratch,
) -> None:
    scratch.replace("kvspec.lock", "bandwidth = 3.35 TB/s", "bandwidth = 3.2 TB/s")
    scratch.commit("an older catalog")
    stale = scratch.kvdsl("check", "--locked", ".")
    assert stale.code == 2
    assert "devices.h100_sxm: bandwidth 3.2 TB/s to 3.35 TB/s" in stale.err
    refused = scratch.kvdsl("lock")
    assert refused.code == 1
    assert scratch.kvdsl("lock", "--update").code == 0
    assert scratch.kvdsl("check", "--locked", ".").code == 0
    scratch.commit("a newer catalog")
    found = json.loads(scratch.kvdsl("diff", "--against", "HEAD~1", "--output", "json").out)
    (figure,) = found["catalog"]
    assert (figure["entry"], figure["path"]) == ("devices.h100_sxm", "bandwidth")
    assert (figure["before"], figure["after"]) == ("3.2 TB/s", "3.35 TB/s")
    assert figure["replayed"]
    assert set(figure["deployments"]) == {"chat", "small"}
    for one in found["deployments"]:
        assert one["spec"] == []
        weights = values(one)["decode.weight_read"]
        ratio = weights["after"]["value"] / weights["before"]["value"]
        assert ratio == pytest.approx(3.2 / 3.35)


def test_where_author_and_catalog_both_moved_a_number_each_has_its_part(scratch: Scratch) -> None:
    scratch.replace("kvspec.lock", "bandwidth = 3.35 TB/s", "bandwidth = 1.675 TB/s")
    scratch.commit("an older catalog")
    scratch.kvdsl("lock", "--update")
    scratch.replace("small.kvspec", "weights  = formats.bf16", "weights  = formats.fp8")
    found = json.loads(since(scratch, "both").out)
    small = next(d for d in found["deployments"] if d["name"] == "small")
    attention = values(small)["decode.weight_read.attention"]
    before, between, after = (attention[w]["value"] for w in ("before", "between", "after"))
    assert between / before == pytest.approx(0.5)  # the author: eight bits for sixteen
    assert after / between == pytest.approx(0.5)  # the catalog: twice the bandwidth


def test_a_broken_requirement_fails_where_that_was_asked(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", "reserve = 3 GB", "reserve = 10 GB")
    scratch.commit("less room")
    ran = scratch.kvdsl("diff", "--against", "HEAD~1", "--fail-on", "requirement")
    assert ran.code == 1
    assert "chat: 1 requirement breaks" in ran.out
    assert "`require kv.tokens >= 1.3 Mtok` fails" in ran.err
    assert scratch.kvdsl("diff", "--against", "HEAD~1", "--exit-code").code == 4
    assert scratch.kvdsl("diff", "--against", "HEAD~1").code == 0
    named = scratch.kvdsl("diff", "--against", "HEAD~1", "--fail-on", "kv.tokens=50 %")
    assert named.code == 0
    assert scratch.kvdsl("diff", "--against", "HEAD~1", "--fail-on", "kv.tokens=5%").code == 1


def test_a_policy_holds_for_every_deployment_and_is_named_by_its_line(scratch: Scratch) -> None:
    text = 'kvspec 1\n\npolicy org {\n  require gpus <= 8 because "one node a team"\n}\n'
    scratch.write({"org.kvspec": text})
    scratch.commit("policy")
    ran = scratch.kvdsl("check", "--policy", "org.kvspec", "--output", "concise", "prod.kvspec",
                        "small.kvspec")  # fmt: skip
    assert ran.code == 1
    assert (
        "prod.kvspec:8:1: error[KV913] gpus is 16, and policy `org` wants gpus <= 8"
        " (org.kvspec:4:3)\n"
    ) in ran.out
    assert "small" not in ran.out


WAIVED = '  allow KV101 because "the second copy is wanted" until "2026-06-30"\n'


def test_a_waiver_silences_until_its_day(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", "layout  = tp8_pp2", "layout  = tp16")
    scratch.commit("layout")
    scratch.replace("prod.kvspec", "  require", WAIVED + "  require")
    one = changed(since(scratch, "waiver"))
    assert [f["code"] for f in one["findings"]["gone"]] == ["KV101"]
    assert [(s["sign"], s["path"]) for s in one["spec"]] == [("+", "allow KV101")]
    for day, expected in (("2026-06-30", set()), ("2026-07-01", {"KV101", "KV903"})):
        ran = scratch.kvdsl("check", "--today", day, "--output", "json", "prod.kvspec")
        codes = {f["code"] for f in json.loads(ran.out)["findings"]}
        assert codes & {"KV101", "KV903", "KV901"} == expected
    assert scratch.kvdsl("check", "--today", "tomorrow", "prod.kvspec").code == 2


def test_a_waiver_that_silences_nothing_is_a_finding(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", "  require", WAIVED + "  require")
    one = changed(since(scratch, "unused waiver"))
    assert [f["code"] for f in one["findings"]["new"]] == ["KV901"]


def test_a_deleted_import_is_told_as_a_file_that_cannot_be_planned(scratch: Scratch) -> None:
    scratch.write({"shared/hardware.kvspec": None})
    ran = since(scratch, "deleted")
    (trouble,) = json.loads(ran.out)["troubles"]
    assert (trouble["file"], trouble["side"]) == ("prod.kvspec", "after")
    assert "hardware.kvspec" in trouble["fault"]
    one = changed(ran)
    assert (one["name"], one["state"]) == ("chat", "unreadable")
    assert scratch.kvdsl("diff", "--against", "HEAD~1", "--fail-on", "regression").code == 1


BROKEN = OTHER.replace("{ tp = 8 }", "{ tp = }")
FAULT = "a value was expected after `tp =`, but `}` stands there"


@pytest.mark.parametrize("form", ["text", "markdown", "json", "github"])
def test_a_spec_that_no_longer_compiles_is_said_and_fails(scratch: Scratch, form: str) -> None:
    scratch.write({"small.kvspec": BROKEN})
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--exit-code", "--output", form)
    assert ran.code == 1
    assert FAULT in ran.out.replace("\n  ", " ")
    assert ran.err == f"fails: small.kvspec:8:19: cannot be planned: {FAULT}\n"


def test_a_spec_that_did_not_compile_before_is_shown_without_a_base(scratch: Scratch) -> None:
    scratch.write({"small.kvspec": BROKEN})
    scratch.commit("broken")
    scratch.write({"small.kvspec": OTHER})
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--output", "json")
    assert (ran.code, ran.err) == (0, "")
    one = changed(ran)
    assert (one["name"], one["state"]) == ("small", "mended")
    tokens = values(one)["kv.tokens"]
    assert (tokens["before"], tokens["after"]["value"]) == (None, 4_088_893)
    (trouble,) = json.loads(ran.out)["troubles"]
    assert (trouble["side"], trouble["fault"]) == ("before", FAULT)
    told = scratch.kvdsl("diff", "--against", "HEAD", "--output", "markdown").out
    assert "### 1 deployment mended, 1 file could not be planned before\n" in told
    assert "| `small` *no figures before*<br>KV tokens |" in told
    assert scratch.kvdsl("diff", "--against", "HEAD", "--exit-code").code == 4


def test_a_spec_that_compiles_on_neither_side_fails_and_says_that_it_did(scratch: Scratch) -> None:
    scratch.write({"small.kvspec": BROKEN})
    scratch.commit("broken")
    scratch.write({"small.kvspec": BROKEN.replace("8 req", "9 req")})
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--output", "markdown")
    assert ran.code == 1
    assert f"`small.kvspec:8:19` {FAULT} (so before, too)\n" in ran.out
    (trouble,) = json.loads(
        scratch.kvdsl("diff", "--against", "HEAD", "--output", "json").out
    )["troubles"]  # fmt: skip
    assert trouble["side"] == "both"


def test_broken_specs_of_two_folders_are_told_by_side(scratch: Scratch) -> None:
    scratch.write({
        "old/lost.kvspec": OTHER.replace("small", "lost"), "new/lost.kvspec": BROKEN,
        "old/won.kvspec": BROKEN, "new/won.kvspec": OTHER.replace("small", "won"),
        "new/came.kvspec": BROKEN, "old/went.kvspec": BROKEN,
    })  # fmt: skip
    ran = scratch.kvdsl("diff", "old", "new", "--output", "json")
    assert ran.code == 1
    sides = {t["place"].split(":")[0]: t["side"] for t in json.loads(ran.out)["troubles"]}
    assert sides == {
        "new/lost.kvspec": "after", "new/came.kvspec": "after", "old/won.kvspec": "before",
    }  # fmt: skip
    assert scratch.kvdsl("diff", "new/lost.kvspec", "old/lost.kvspec").code == 0
    assert scratch.kvdsl("diff", "old/lost.kvspec", "new/lost.kvspec").code == 1


def test_where_nothing_changed_nothing_is_said(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", "deployment chat", "## Chats, all of them.\ndeployment chat")
    scratch.commit("a comment")
    for form in ("text", "markdown", "github"):
        ran = scratch.kvdsl("diff", "--against", "HEAD~1", "--exit-code", "--output", form)
        assert (ran.code, ran.out, ran.err) == (0, "", ""), form
    assert (
        json.loads(scratch.kvdsl("diff", "--against", "HEAD~1", "--output", "json").out)["changed"]
        is False
    )
    always = scratch.kvdsl("diff", "--against", "HEAD~1", "--always", "--output", "markdown")
    assert always.out == "<!-- kvdsl-diff -->\nNo plan changed.\n"


# --- revisions ---------------------------------------------------------------------------------


def test_without_a_revision_it_is_where_the_branch_left_its_trunk(scratch: Scratch) -> None:
    scratch.git("checkout", "-q", "-b", "feature")
    scratch.replace("small.kvspec", "tp = 8", "tp = 4")
    scratch.commit("mine")
    scratch.git("checkout", "-q", "main")
    scratch.replace("prod.kvspec", "reserve = 3 GB", "reserve = 4 GB")
    scratch.commit("theirs")
    scratch.git("checkout", "-q", "feature")
    for words in ((), ("--against",), ("--against", "upstream")):
        one = changed(scratch.kvdsl("diff", "--output", "json", *words))
        assert one["name"] == "small"


def test_imports_are_those_of_the_same_revision(scratch: Scratch) -> None:
    scratch.replace("shared/hardware.kvspec", "2 x nodes", "4 x nodes")
    scratch.replace("prod.kvspec", "concurrency = 128", "concurrency = 64")
    one = changed(since(scratch, "both"))
    assert {s["path"] for s in one["spec"]} == {"on.two_hgx.nodes", "workload.concurrency"}


def test_a_dirty_tree_is_compared_as_it_lies_and_a_checkout_is_never_made(
    scratch: Scratch,
) -> None:
    scratch.replace("small.kvspec", "tp = 8", "tp = 4")
    before = scratch.git("status", "--porcelain")
    assert (
        changed(scratch.kvdsl("diff", "--against", "HEAD", "--output", "json"))["name"] == "small"
    )
    assert scratch.git("status", "--porcelain") == before


def test_a_link_of_a_revision_leads_nowhere_out_of_it(scratch: Scratch) -> None:
    (scratch.folder / "evil.kvspec").symlink_to("../../secret.kvspec")
    (scratch.folder.parent.parent / "secret.kvspec").write_text("kvspec 1\nsecret!\n")
    scratch.commit("link")
    (scratch.folder / "evil.kvspec").unlink()
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--output", "json", ".")
    assert "secret" not in ran.out + ran.err


@pytest.mark.parametrize("name", ["gone", "HEAD:prod.kvspec", "a b", "HEAD\nHEAD", ""])
def test_what_is_no_revision_is_said_so(scratch: Scratch, name: str) -> None:
    ran = scratch.kvdsl("diff", f"--against={name}")
    assert ran.code == 2
    assert "git knows no revision" in ran.err


def test_names_of_files_may_be_anything_and_folders_are_those_of_the_user(
    scratch: Scratch,
) -> None:
    names = ("a`b<c>@d #1.kvspec", "tab\there.kvspec", "ü/漢.kvspec", "-x.kvspec")
    scratch.write({f"teams/{name}": OTHER for name in names})
    scratch.commit("strange")
    scratch.write({f"teams/{name}": OTHER.replace("tp = 8", "tp = 4") for name in names})
    scratch.enter("teams")
    for form in ("text", "markdown", "json", "github"):
        ran = scratch.kvdsl("diff", "--against", "HEAD", "--output", form)
        assert ran.code == 0, ran.err
        assert ran.out
    found = json.loads(scratch.kvdsl("diff", "--against", "HEAD", "--output", "json").out)
    assert {d["file"] for d in found["deployments"]} == set(names)
    assert {d["state"] for d in found["deployments"]} == {"changed"}


def test_hundreds_of_renamed_deployments_each_find_their_own(scratch: Scratch) -> None:
    plan = sketched(load_text(OTHER, "a.kvspec")).plans[0]
    old, new = (
        tuple(replace(plan, name=f"{word}_{n}", file=f"{n}.kvspec") for n in range(400))
        for word in ("old", "new")
    )
    found = pairs(Side("x", {"a": Sketches(old)}), Side("y", {"a": Sketches(new)}))
    assert len(found) == 400
    assert all(pair.before and pair.after for pair in found)
    assert all(pair.before.file == pair.after.file for pair in found if pair.before and pair.after)


def test_a_revision_that_looks_like_an_option_is_none(scratch: Scratch) -> None:
    with pytest.raises(NoRevision):
        revision("--output=x", str(scratch.folder))


def test_outside_a_repository_two_folders_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Scratch(tmp_path / "both", monkeypatch)
    later = OTHER.replace("small", "c").replace("8 ktok", "9 ktok")
    made.write({"old/a.kvspec": OTHER, "old/b.kvspec": OTHER.replace("small", "b")})
    made.write({"new/a.kvspec": OTHER.replace("tp = 8", "tp = 4"), "new/c.kvspec": later})
    found = json.loads(made.kvdsl("diff", "old", "new", "--output", "json").out)
    states = {d["name"]: (d["state"], d["was"]) for d in found["deployments"]}
    assert states == {"small": ("changed", None), "c": ("renamed", "b")}


# --- check -------------------------------------------------------------------------------------


def test_only_files_that_changed_are_checked_those_that_import_them_too(scratch: Scratch) -> None:
    scratch.write({"shared/hardware.kvspec": HARDWARE.replace("2 x", "3 x")})
    ran = scratch.kvdsl("check", "--against", "HEAD", "--output", "concise", ".")
    assert "in 2 files that changed, of 3" in ran.err
    assert "small.kvspec" not in ran.out


def test_ignored_files_are_left_out_of_a_folder(scratch: Scratch) -> None:
    scratch.write({".kvspecignore": "# not ours\nshared/\n*.old.kvspec\n!keep.old.kvspec\n",
                   "a.old.kvspec": "broken", "keep.old.kvspec": OTHER})  # fmt: skip
    ran = scratch.kvdsl("check", "--no-cache", "--output", "concise", ".")
    assert (ran.code, "in 3 files" in ran.err) == (0, True), ran
    less = scratch.kvdsl("check", "--no-cache", "--exclude", "small.kvspec", ".")
    assert "in 2 files" in less.err


# --- the lock ----------------------------------------------------------------------------------


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
