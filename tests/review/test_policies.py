"""What fails by whose word: policies on two sides, requirements that fail as before, waivers.

A policy is one whatever its bound, and a difference says where it is the policy that changed.
"""

from __future__ import annotations

import json

import pytest

from tests.review.repository import OTHER, changed, since
from tests.scratch import Scratch

HELD = 'kvspec 1\n\npolicy org {\n  require gpus <= 8 because "one node a team"\n}\n'


def test_a_policy_that_breaks_is_a_finding_of_the_difference(scratch: Scratch) -> None:
    scratch.write({"org.kvspec": HELD})
    scratch.commit("policy")
    scratch.replace("small.kvspec", "on       = 1 x", "on       = 2 x")
    scratch.replace("small.kvspec", "{ tp = 8 }", "{ tp = 8; replicas = 2 }")
    words = ("diff", "--against", "HEAD", "--policy", "org.kvspec")
    one = changed(scratch.kvdsl(*words, "--output", "json"))
    assert [f["code"] for f in one["findings"]["new"]] == ["KV913"]
    failed = scratch.kvdsl(*words, "--fail-on", "error")
    assert failed.code == 1
    assert "fails: small: KV913 gpus is 16, and policy `org` wants gpus <= 8" in failed.err
    assert "::error file=small.kvspec,line=3" in scratch.kvdsl(*words, "--output", "github").out
    assert changed(scratch.kvdsl(*words[:3], "--output", "json"))["findings"]["new"] == []


def test_a_policy_that_changes_holds_each_side_as_it_reads_there(scratch: Scratch) -> None:
    scratch.write({"org.kvspec": HELD.replace("8", "16")})
    scratch.commit("policy")
    scratch.write({"org.kvspec": HELD})
    words = ("diff", "--against", "HEAD", "--policy", "org.kvspec", "--output", "json")
    one = changed(scratch.kvdsl(*words))
    assert (one["name"], [f["code"] for f in one["findings"]["new"]]) == ("chat", ["KV913"])
    scratch.replace("org.kvspec", "gpus <= 8", "memory.reserve >= 4 GB")
    scratch.commit("another sentence")
    scratch.write({"org.kvspec": HELD})
    found = json.loads(scratch.kvdsl(*words).out)["deployments"]
    chat = next(d for d in found if d["name"] == "chat")
    assert [len(chat["findings"][state]) for state in ("new", "gone")] == [1, 1]


BOUND = "kvspec 1\n\npolicy org {\n  require kv.tokens >= 5 Mtok%s\n}\n"


@pytest.mark.parametrize(
    ("label", "old", "new"),
    [
        (" as room", "5 Mtok", "4.5 Mtok"),
        ("", "5 Mtok", "4.5 Mtok"),
        ("", "5 Mtok", "5_000 ktok"),
        (" as room", "kv.tokens >= 5 Mtok", "kv.tokens / 1 tok > 4_500_000"),
    ],
)
def test_a_policy_that_reads_otherwise_is_the_same_and_said_to_have_changed(
    scratch: Scratch, label: str, old: str, new: str
) -> None:
    scratch.write({"org.kvspec": BOUND % label})
    scratch.commit("policy")
    scratch.replace("org.kvspec", old, new)
    words = ("diff", "--against", "HEAD", "--policy", "org.kvspec", "--output")
    for one in json.loads(scratch.kvdsl(*words, "json").out)["deployments"]:
        found = {state: [f["code"] for f in each] for state, each in one["findings"].items()}
        assert (found["new"], found["gone"]) == ([], [])
        assert "KV913" in found["still"]
        assert not one["compiler"]
    ran = scratch.kvdsl(*words[:-1], "--fail-on", "error")
    assert (ran.code, ran.err) == (0, "")
    said = " ".join(ran.out.split())
    assert "still error[KV913] policy `org` wants" in said
    assert "; the policy changed: it was `kv.tokens >= 5 Mtok`" in said
    noted = scratch.kvdsl(*words, "markdown").out
    assert "**Policies that still fail**" in noted
    assert "the policy changed: it was `kv.tokens >= 5 Mtok`" in noted


def test_a_policy_that_still_fails_by_more_is_told_with_both_figures(scratch: Scratch) -> None:
    scratch.write({"org.kvspec": BOUND % ""})
    scratch.commit("policy")
    scratch.replace("small.kvspec", "reserve = 3 GB", "reserve = 4 GB")
    words = ("diff", "--against", "HEAD", "--policy", "org.kvspec", "--fail-on", "error")
    ran = scratch.kvdsl(*words)
    assert ran.code == 0
    assert (
        "still error[KV913] policy `org` wants kv.tokens >= 5 Mtok: still fails: 4,088,893 tok, "
        "now 4,027,858 tok"
    ) in " ".join(ran.out.split())


def test_a_policy_that_is_stricter_is_said_to_have_changed(scratch: Scratch) -> None:
    scratch.write({"org.kvspec": HELD.replace("8", "16")})
    scratch.commit("policy")
    scratch.write({"org.kvspec": HELD})
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--policy", "org.kvspec")
    said = " ".join(ran.out.split())
    assert "new error[KV913] gpus is 16, and policy `org` wants gpus <= 8" in said
    assert "; the policy changed: it was `gpus <= 16`" in said
    scratch.commit("stricter")
    scratch.write({"org.kvspec": HELD.replace("8", "16")})
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--policy", "org.kvspec")
    assert "; the policy changed: it is `gpus <= 16` now" in " ".join(ran.out.split())


def test_where_nothing_changed_what_a_policy_wants_in_vain_is_said(scratch: Scratch) -> None:
    scratch.write({"org.kvspec": HELD})
    ran = scratch.kvdsl("diff", ".", ".", "--policy", "org.kvspec", "--fail-on", "error")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("note: still fails: chat: KV913 gpus is 16, and policy `org` wants")
    assert all(len(line) <= 80 for line in ran.err.splitlines())


def test_no_allow_waives_a_policy_and_it_says_so(scratch: Scratch) -> None:
    scratch.write({"org.kvspec": HELD})
    scratch.replace("prod.kvspec", "  require", '  allow KV913 because "later"\n  require')
    told = scratch.kvdsl("check", "--policy", "org.kvspec", "prod.kvspec").out
    assert "no `allow` waives a policy\n" in told
    assert "does not fire here" not in told
    assert "KV913 does not fire here" in scratch.kvdsl("check", "prod.kvspec").out


def test_a_policy_of_the_file_itself_holds_it(scratch: Scratch) -> None:
    policy = HELD.partition("\n\n")[2].replace("8", "4")
    scratch.write({"small.kvspec": OTHER + policy})
    one = changed(scratch.kvdsl("diff", "--against", "HEAD", "--output", "json"))
    assert [f["code"] for f in one["findings"]["new"]] == ["KV913"]


def test_a_file_without_policies_holds_nobody(scratch: Scratch) -> None:
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--policy", "small.kvspec")
    assert (ran.code, ran.err) == (2, "error: no policy in `small.kvspec`\n")
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--policy", "gone.kvspec")
    assert (ran.code, ran.err) == (2, "error: cannot read `gone.kvspec`: there is no such file\n")
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--policy", "shared")
    assert (ran.code, ran.err) == (2, "error: cannot read `shared`: it is a folder\n")


FAILING = ("kv.tokens >= 1.3 Mtok as room", "kv.tokens >= 1.5 Mtok as room")
WAIVER = '  allow KV910 because "agreed until the move"\n'


def test_what_fails_as_before_is_told_beside_a_change_and_annotated(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", *FAILING)
    scratch.commit("asks more")
    scratch.replace("prod.kvspec", "concurrency = 128 req", "concurrency = 120 req")
    words = ("diff", "--against", "HEAD", "--output")
    told = scratch.kvdsl(*words, "text").out
    assert "require kv.tokens >= 1.5 Mtok: still fails at 1,402,348 tok" in told
    noted = scratch.kvdsl(*words, "github").out
    assert "::warning file=prod.kvspec,line=18,endLine=18" in noted
    assert (
        "title=chat: require kv.tokens >= 1.5 Mtok::still fails at 1,402,348 tok"
        in noted.replace("%3A", ":")
    )
    assert scratch.kvdsl("diff", "--against", "HEAD", "--fail-on", "requirement").code == 0


def test_a_looser_bound_that_fails_as_before_breaks_nothing(scratch: Scratch) -> None:
    for label in ("", " as room"):
        line = "kv.tokens >= 1.3 Mtok as room"
        scratch.replace("prod.kvspec", line, f"kv.tokens >= 1.6 Mtok{label}")
        scratch.commit("asks more")
        scratch.replace("prod.kvspec", "1.6 Mtok", "1.5 Mtok")
        (flip,) = changed(since(scratch, "asks less"))["requirements"]
        assert (flip["before"], flip["after"], flip["broken"]) == ("fails", "fails", False)
        ran = scratch.kvdsl("diff", "--against", "HEAD~1", "--fail-on", "requirement")
        assert ran.code == 0
        assert "breaks" not in ran.out
        said = " ".join(ran.out.split())
        assert "still fails at 1,402,348 tok, against 1,500,000 tok instead of 1,600,000" in said
        assert ran.out.count("1 deployment changed") == 1, "no value moved: said once"
        noted = scratch.kvdsl("diff", "--against", "HEAD~1", "--output", "markdown").out
        assert noted.count("1 deployment changed") == 1
        scratch.replace("prod.kvspec", f"kv.tokens >= 1.5 Mtok{label}", line)
        scratch.commit("as before")


def test_a_plan_says_that_what_fails_is_waived(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", *FAILING)
    scratch.replace("prod.kvspec", "  require", WAIVER + "  require")
    assert scratch.kvdsl("check", "prod.kvspec").code == 0
    told = scratch.kvdsl("plan", "prod.kvspec").out
    assert "; the requirement does not hold and is waived." in " ".join(told.split())
    assert "         waived: agreed until the move\n" in told
    table = scratch.kvdsl("plan", "prod.kvspec", "--output", "markdown").out
    assert "| fails, waived |" in table
    assert scratch.kvdsl("report", "prod.kvspec", "--output", "html=page.html").code == 0
    page = (scratch.folder / "page.html").read_text(encoding="utf-8")
    assert "By a waiver, its requirement fails" in page
    assert '<span class="tag">waived</span>' in page


def test_a_waived_requirement_is_said_to_be_waived(scratch: Scratch) -> None:
    scratch.replace("prod.kvspec", *FAILING)
    scratch.commit("asks more")
    scratch.replace("prod.kvspec", "  require", WAIVER + "  require")
    (flip,) = changed(since(scratch, "waived"))["requirements"]
    assert (flip["before"], flip["after"]) == ("fails", "waived")
    assert (flip["broken"], flip["waived"]) == (False, "agreed until the move")
    scratch.replace("prod.kvspec", "reserve = 3 GB", "reserve = 4 GB")
    words = ("diff", "--against", "HEAD", "--output")
    told = scratch.kvdsl(*words, "markdown").out
    assert "- waived: `chat` `require kv.tokens >= 1.5 Mtok`: still fails:" in told
    assert "waived: agreed until the move" in told
    assert "still broken" not in told
    assert "require" not in scratch.kvdsl(*words, "github").out
    scratch.commit("less room")
    scratch.replace("prod.kvspec", WAIVER, "")
    scratch.commit("no longer")
    ran = scratch.kvdsl("diff", "--against", "HEAD~1", "--fail-on", "requirement")
    assert ran.code == 1
    assert "was waived at" in ran.out
