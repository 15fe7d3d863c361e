"""A check that is replayed prints what it would print, and is never replayed once it is stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdsl.cli import application, main, replay

SPEC = """kvspec 1
import "shared.kvspec"

deployment served {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   = shared.wide
  budget   { reserve = 3 GB }
  workload { context = 8 ktok; concurrency = 8 req }
  require kv.tokens >= 1 Mtok
}
"""
SHARED = "kvspec 1\n\nlayout wide { tp = 8 }\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.kvspec").write_text(SPEC)
    (tmp_path / "shared.kvspec").write_text(SHARED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _never(arguments: object) -> int:
    raise AssertionError(f"ran again: {arguments}")


def test_a_second_check_prints_the_same_without_running(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = main(["check", "a.kvspec"])
    said = capsys.readouterr()
    monkeypatch.setattr(application, "main", _never)
    assert main(["check", "a.kvspec"]) == first
    assert capsys.readouterr() == said
    assert "the requirement holds" in said.err


@pytest.mark.parametrize("changed", ["a.kvspec", "shared.kvspec"])
def test_a_changed_file_is_checked_again(
    changed: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "a.kvspec"]) == 0
    text = (folder / changed).read_text()
    (folder / changed).write_text(text.replace("tp = 8", "tp = 3").replace("1 Mtok", "900 Mtok"))
    assert main(["check", "a.kvspec"]) == 1


def test_other_arguments_are_another_check(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", "a.kvspec"])
    full = capsys.readouterr().out
    main(["check", "a.kvspec", "--output", "json"])
    assert capsys.readouterr().out != full


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--no-cache", "a.kvspec"],
        ["check", "."],
        ["check", "-"],
        ["check", "a.kvspec", "--output", "json=out.json"],
        ["check", "a.kvspec", "--output=json=out.json"],
        ["plan", "a.kvspec"],
        [],
    ],
)
def test_what_may_change_unseen_or_writes_is_never_replayed(
    arguments: list[str], folder: Path
) -> None:
    replay.keep(arguments, {"a.kvspec": SPEC}, ("out", "err"), 0)
    assert replay.replayed(arguments) is None


def test_a_missing_import_is_never_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "shared.kvspec").unlink()
    assert main(["check", "a.kvspec"]) == 1
    (folder / "shared.kvspec").write_text(SHARED)
    assert main(["check", "a.kvspec"]) == 0


def test_a_text_that_changed_while_it_was_checked_is_not_kept(folder: Path) -> None:
    replay.keep(["check", "a.kvspec"], {"a.kvspec": "another text"}, ("out", "err"), 0)
    assert replay.replayed(["check", "a.kvspec"]) is None


def test_a_cache_that_cannot_be_written_is_no_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    assert main(["check", "a.kvspec"]) == 0


def test_a_broken_cache_entry_is_passed_over(
    folder: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "a.kvspec"]) == 0
    for entry in (own_cache / "kvdsl" / "checks").iterdir():
        entry.write_text('{"inputs": 3}')
    assert main(["check", "a.kvspec"]) == 0


def test_old_results_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch,
                               own_cache: Path) -> None:  # fmt: skip
    monkeypatch.setattr(replay, "MOST_KEPT", 4)
    for number in range(8):
        replay.keep(["check", "a.kvspec", f"--n{number}"], {"a.kvspec": SPEC}, ("", ""), 0)
    assert len(list((own_cache / "kvdsl" / "checks").iterdir())) <= 5
