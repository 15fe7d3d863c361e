"""Sides of a comparison: revisions of a repository in any state, folders, and files left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvdsl.pipeline import sketched
from kvdsl.project.loader import load_text
from kvdsl.project.revisions import NoRevision, revision
from kvdsl.review.sides import Side, Sketches, pairs
from tests.review.repository import HARDWARE, OTHER, changed, since
from tests.scratch import Scratch


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
