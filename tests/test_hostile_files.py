"""Files that no person would write, or that say less than they should: what a user is told.

Each case makes its files in an empty folder and runs `kvdsl check case.kvspec` there; the output is
`errors/files/CASE.txt`. `KVDSL_UPDATE=1 pytest tests/test_hostile_files.py` writes them anew.
"""

from __future__ import annotations

import io
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvdsl.cli import main
from tests.fuzz.trial import limited

FOLDER = Path(__file__).resolve().parent / "errors" / "files"
SPEC = "case.kvspec"
SOUND = "kvspec 1\nlet n = 8\n"


def holding(data: bytes | str) -> Callable[[], None]:
    def make() -> None:
        Path(SPEC).write_bytes(data if isinstance(data, bytes) else data.encode())

    return make


def importing(*paths: str) -> None:
    lines = [f'import "{path}"\n' for path in paths]
    Path(SPEC).write_text("kvspec 1\n" + "".join(lines), encoding="utf-8")


def outside() -> None:
    """The spec lies in a repository, and what it imports beside that."""
    (Path("repository") / ".git").mkdir(parents=True)
    Path("other.kvspec").write_text("a stranger may not see this\n", encoding="utf-8")
    os.chdir("repository")
    importing("../other.kvspec")


def linked() -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/secret").write_text("a stranger may not see this\n", encoding="utf-8")
    Path("here").mkdir()
    os.chdir("here")
    Path("shared.kvspec").symlink_to("../elsewhere/secret")
    importing("shared.kvspec")


def linked_in_a_circle() -> None:
    Path("round.kvspec").symlink_to("round.kvspec")
    importing("round.kvspec")


def circle() -> None:
    importing("other.kvspec")
    Path("other.kvspec").write_text('kvspec 1\nimport "case.kvspec"\n', encoding="utf-8")


def folders() -> None:
    Path("folder.kvspec").mkdir()
    importing("folder.kvspec", "case.txt", "")


def unreadable_imports() -> None:
    Path("binary.kvspec").write_bytes(bytes(range(256)))
    Path("empty.kvspec").touch()
    importing("binary.kvspec", "empty.kvspec")


CASES: dict[str, Callable[[], None]] = {
    "empty": holding(""),
    "blank": holding("\n\n  \n"),
    "comments_alone": holding("# later\n"),
    "binary": holding(bytes(range(256)) * 16),
    "not_utf8": holding(b"kvspec 1\n# caf\xe9\n"),
    "utf16": holding("kvspec 1\n".encode("utf-16")),
    "ten_megabytes_of_braces": holding("{" * 10_000_000),
    "a_megabyte_of_braces": holding("kvspec 1\n" + "{" * 900_000),
    "blocks_10000_deep": holding("kvspec 1\n" + "layout a { " * 10_000 + "}" * 10_000),
    "parentheses_10000_deep": holding("kvspec 1\nlet a = " + "(" * 10_000 + "1" + ")" * 10_000),
    "lists_10000_deep": holding("kvspec 1\nlet a = " + "[" * 10_000 + "]" * 10_000),
    "wrong_in_every_line": holding("kvspec 1\n" + "x\n" * 150),
    "missing_import": lambda: importing("gone.kvspec", "../lost.kvspec"),
    "import_outside_the_repository": outside,
    "import_through_a_link": linked,
    "link_in_a_circle": linked_in_a_circle,
    "import_of_itself": lambda: importing(SPEC),
    "imports_in_a_circle": circle,
    "import_of_a_folder": folders,
    "unreadable_imports": unreadable_imports,
}


def ran(patch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with patch.context() as streams, limited(60):
        streams.setattr(sys, "stdout", out)
        streams.setattr(sys, "stderr", out)
        code = main(list(arguments))
    return code, out.getvalue()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    inside = tmp_path / "files"
    inside.mkdir()
    monkeypatch.chdir(inside)
    return inside


@pytest.mark.parametrize("case", CASES)
def test_a_user_is_told_in_these_words(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES[case]()
    code, output = ran(monkeypatch, "check", SPEC)
    text = f"{output}exit code {code}\n"
    golden = FOLDER / f"{case}.txt"
    if os.environ.get("KVDSL_UPDATE"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", [case for case in CASES if case != "a_megabyte_of_braces"])
def test_every_command_refuses_it_without_a_trace(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    CASES[case]()
    before = Path(SPEC).read_bytes()
    for command in (
        ("plan", SPEC),
        ("get", SPEC, "prod.kv.tokens"),
        ("explain", SPEC, "prod.kv.tokens"),
        ("graph", SPEC),
        ("report", SPEC),
        ("fmt", "--check", SPEC),
    ):
        code, output = ran(monkeypatch, *command)
        assert code in (0, 1, 2), output
        assert code or command[0] == "fmt", output
        assert "fault in kvdsl" not in output
        assert "a stranger may not see this" not in output
    assert Path(SPEC).read_bytes() == before


def test_a_walk_does_not_follow_a_link_out_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("secret").write_text("a stranger may not see this\n", encoding="utf-8")
    Path("here").mkdir()
    Path("here/link.kvspec").symlink_to("../secret")
    Path("here/fine.kvspec").write_text(SOUND, encoding="utf-8")
    Path("here/same.kvspec").symlink_to("fine.kvspec")
    assert ran(monkeypatch, "check", "here") == (0, "no findings in 2 files\n")


def test_a_folder_that_is_gone_is_no_fault(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.rmdir()
    for arguments in (("check", SPEC), ("plan", SPEC), ("fmt", SPEC), ("report", SPEC)):
        code, output = ran(monkeypatch, *arguments)
        assert code == 2
        assert "there is no such file" in output
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b'kvspec 1\nimport "a.kvspec"\n'))
    )
    assert ran(monkeypatch, "check", "-")[0] == 1


def test_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst that may be read at all; what is larger is refused by its size."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    CASES["a_megabyte_of_braces"]()
    ran(monkeypatch, "check", SPEC)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 600 * 2**20
