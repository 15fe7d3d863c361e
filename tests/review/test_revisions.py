"""Sides of a comparison: revisions of a repository in any state, folders, and files left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvdsl.project.loader import load_text
from kvdsl.project.revisions import NoRevision, revision
from kvdsl.review.sides import Side, Sketches, pairs
from kvdsl.sketches import sketched
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


def _told(text: str) -> str:
    """A message however it is wrapped."""
    return " ".join(text.split())


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


def test_a_branch_that_goes_back_to_nothing_is_told_so(scratch: Scratch) -> None:
    scratch.git("branch", "-m", "work")
    ran = scratch.kvdsl("diff")
    told = "error: this branch tracks none; name a revision, as in `--against main`\n"
    assert (ran.code, ran.out, ran.err) == (2, "", told)
    scratch.git("checkout", "-q", "--detach")
    ran = scratch.kvdsl("diff")
    told = "error: HEAD is on no branch; name a revision, as in `--against main`\n"
    assert (ran.code, ran.out, ran.err) == (2, "", told)
    scratch.replace("small.kvspec", "tp = 8", "tp = 4")
    assert changed(scratch.kvdsl("diff", "--against", "HEAD", "--output", "json"))


def test_branches_without_a_common_commit_are_told_so(scratch: Scratch) -> None:
    scratch.git("checkout", "-q", "--orphan", "other")
    scratch.commit("from nothing")
    ran = scratch.kvdsl("diff")
    assert ran.code == 2
    assert _told(ran.err) == (
        "error: this branch and `main` have no commit in common;"
        " name a revision, as in `--against main`"
    )


def test_a_shallow_clone_without_the_common_commit_says_what_to_fetch(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch.git("checkout", "-q", "-b", "feature")
    scratch.replace("small.kvspec", "tp = 8", "tp = 4")
    scratch.commit("mine")
    scratch.git("checkout", "-q", "main")
    scratch.commit("theirs")
    source = scratch.folder.as_uri()
    scratch.git("clone", "-q", "--depth", "1", "--no-single-branch", "-b", "feature", source,
                str(tmp_path / "clone"))  # fmt: skip
    monkeypatch.chdir(tmp_path / "clone")
    scratch.git("-C", str(tmp_path / "clone"), "branch", "--unset-upstream")
    hint = "the clone is shallow: fetch more of it, as `git fetch --unshallow` does"
    ran = scratch.kvdsl("diff")
    assert ran.code == 2
    assert (
        _told(ran.err) == f"error: this branch and `origin/HEAD` have no commit in common; {hint}"
    )
    ran = scratch.kvdsl("diff", "--against", "HEAD~1")
    assert (ran.code, _told(ran.err)) == (2, f"error: git knows no revision `HEAD~1`; {hint}")
    assert scratch.kvdsl("diff", "--against", "origin/main").code == 0


def test_a_repository_without_files_or_commits_is_told_so(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    places = {
        tmp_path / "bare.git": "this repository is bare: it has no files beside its commits;"
        " use a clone of it",
        scratch.folder / ".git": "this is git's own folder; go up to the files of the repository",
        tmp_path: "this folder is in no git repository",
    }
    for place, told in places.items():
        monkeypatch.chdir(place)
        ran = scratch.kvdsl("diff", "--against", "HEAD")
        assert (ran.code, ran.out, _told(ran.err)) == (2, "", f"error: {told}")
    scratch.git("init", "-q", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path / "empty")
    ran = scratch.kvdsl("diff")
    told = "this repository has no commit yet: there is nothing to compare with"
    assert (ran.code, ran.err) == (2, f"error: {told}\n")


def test_a_repository_that_git_does_not_trust_is_told_with_the_way_out(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    ran = scratch.kvdsl("diff", "--against", "HEAD")
    assert ran.code == 2
    assert f"`git config --global --add safe.directory {scratch.folder}`" in _told(ran.err)


def test_without_git_that_is_said(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(scratch.folder))
    ran = scratch.kvdsl("diff")
    told = "error: git is not installed, or not where programs are looked for\n"
    assert (ran.code, ran.err) == (2, told)


def test_a_submodule_is_left_out_and_said_so(scratch: Scratch, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    for words in (("init", "-q", "-b", "main", str(inner)),
                  ("-C", str(inner), "commit", "-q", "--allow-empty", "-m", "x"),
                  ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
                   inner.as_uri(), "vendor/inner")):  # fmt: skip
        scratch.git(*words)
    scratch.commit("a submodule")
    scratch.write({"vendor/inner/theirs.kvspec": OTHER})
    scratch.replace("small.kvspec", "tp = 8", "tp = 4")
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--output", "json")
    assert ran.err == "left out: `vendor/inner` is another repository; compare it there\n"
    assert changed(ran)["file"] == "small.kvspec"
    named = scratch.kvdsl("diff", "--against", "HEAD", "vendor/inner/theirs.kvspec")
    told = "`vendor/inner/theirs.kvspec` is of another repository, `vendor/inner`"
    assert (named.code, _told(named.err)) == (2, f"error: {told}; compare it there")


def test_bytes_that_are_no_text_are_told_where_they_changed(scratch: Scratch) -> None:
    place = scratch.folder / "bytes.kvspec"
    place.write_bytes(b"\0\1\2")
    scratch.commit("bytes")
    assert scratch.kvdsl("diff", "--against", "HEAD", "--exit-code").code == 0
    place.write_bytes(b"\0\1\3")
    ran = scratch.kvdsl("diff", "--against", "HEAD")
    assert ran.code == 1
    assert "it holds NUL bytes, so it is not text" in ran.err.replace("\n  ", " ")
    place.write_text(OTHER.replace("small", "text"))
    ran = scratch.kvdsl("diff", "--against", "HEAD", "--output", "json")
    assert (ran.code, changed(ran)["state"]) == (0, "mended")


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
