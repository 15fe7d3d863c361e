"""What `diff`, `check` and `lock` say of each kind of change, alone and in ten commits.

Every commit is one kind: a layout, a format, a name, a figure of the catalog, a broken
requirement, a policy, a waiver, an unused waiver, a deleted import, and nothing at all; and a spec
that compiles on one side alone.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.review.repository import OTHER, changed, since, values
from tests.scratch import Scratch


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
    assert one["findings"]["gone"] == []
    assert [f["code"] for f in one["findings"]["waived"]] == ["KV101"]
    words = ("diff", "--against", "HEAD~1", "--output")
    told = " ".join(scratch.kvdsl(*words, "text").out.split())
    assert "waived warning[KV101]" in told
    assert told.count("waived: ") == 1
    assert "**Findings that are waived now**" in scratch.kvdsl(*words, "markdown").out
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
    assert ran.err.replace("\n  ", " ") == (
        f"fails: small.kvspec:8:19: cannot be planned: {FAULT}\n"
    )
    assert all(len(line) <= 80 for line in ran.err.splitlines())


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


# --- all of them, one after another ------------------------------------------------------------


FIGURES = re.compile(r"\d[\d,.]*")
POLICY = 'kvspec 1\n\npolicy org {\n  require gpus <= 16 because "one rack a team"\n}\n'
WAIVED_TOKENS = '  allow KV101 because "the second copy is wanted"\n'


def test_ten_commits_one_after_another(scratch: Scratch) -> None:
    """Each commit against the one before it: its headline, its exit code, and what a check says of
    the files as they lie."""
    told = []

    def step(message: str, *words: str) -> None:
        scratch.commit(message)
        ran = scratch.kvdsl("diff", "--against", "HEAD~1", "--exit-code", *words)
        checked = scratch.kvdsl("check", "--policy", "org.kvspec", "--locked", "--output",
                                "concise", ".")  # fmt: skip
        head = ran.out.splitlines()[0] if ran.out else ""
        told.append((message, FIGURES.sub("#", head), ran.code, checked.code))

    scratch.replace("kvspec.lock", "bandwidth = 3.35 TB/s", "bandwidth = 3.2 TB/s")
    scratch.git("commit", "-q", "-a", "--amend", "--no-edit")
    scratch.write({"org.kvspec": POLICY})
    step("policy")
    scratch.kvdsl("lock", "--update")
    step("catalog")
    scratch.replace("prod.kvspec", "kv      = formats.bf16", "kv      = formats.fp8")
    step("format", "--fail-on", "regression")
    scratch.replace("prod.kvspec", "layout  = tp8_pp2", "layout  = tp16")
    step("layout")
    scratch.replace("prod.kvspec", "  require", WAIVED_TOKENS + "  require")
    step("waiver")
    scratch.replace("prod.kvspec", "layout  = tp16", "layout  = tp8_pp2")
    step("unused waiver")
    scratch.replace("prod.kvspec", "deployment chat", "deployment assistant")
    step("rename")
    scratch.replace("prod.kvspec", "kv      = formats.fp8", "kv      = formats.bf16")
    scratch.replace("prod.kvspec", "reserve = 3 GB", "reserve = 10 GB")
    step("broken requirement", "--fail-on", "requirement")
    scratch.replace("small.kvspec", "deployment small", "## Drafts.\ndeployment small")
    step("nothing")
    scratch.write({"shared/hardware.kvspec": None})
    step("deleted import")
    assert told == [
        ("policy", "", 0, 2),  # the lock is older than the catalog until the next commit
        ("catalog", "chat: output tokens a second # tok/s to # tok/s (+# %)", 4, 0),
        ("format", "chat: KV tokens # tok to # tok (x #)", 4, 0),
        ("layout", "chat: time of a token # ms to # ms (+# %)", 4, 0),
        ("waiver", "# deployment changed", 4, 0),
        ("unused waiver", "chat: time to the first token # ms to # ms (+# %)", 4, 0),
        ("rename", "# deployment renamed", 4, 0),
        ("broken requirement", "assistant: # requirement breaks; KV tokens -# %", 1, 1),
        ("nothing", "", 0, 1),
        ("deleted import", "# file cannot be planned", 1, 1),
    ]
