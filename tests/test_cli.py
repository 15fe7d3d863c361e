"""The command line as its users meet it: scripts under `cli/`, and what no script can show.

After a change that is meant, `KVDSL_UPDATE=1 pytest tests/test_cli.py` writes the outputs anew;
read the difference. An expected output with a `...` in it is mended by hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvdsl.cli import application, rule
from kvdsl.cli.exits import CommandError
from kvdsl.cli.files import write_file
from kvdsl.render.diagnostics import COLUMNS
from kvdsl.render.pdf import PdfUnavailable
from tests.cli_script import open_ended, read_script, run, same, written

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "specs" / "examples"
SCRIPTS = sorted((HERE / "cli").glob("*.script"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_as_it_is_written(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = path.read_text(encoding="utf-8")
    script = read_script(text)
    for name, content in script.files:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # An empty file stands for the example of its name: specs are not written down twice.
        example = EXAMPLES / target.name
        if not content.strip() and example.is_file():
            shutil.copy(example, target)
        else:
            target.write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "NO_COLOR", "KVDSL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    outputs = []
    for command in script.commands:
        with monkeypatch.context() as patch:
            output = run(command.line, patch)
        as_expected = same(command.expected, output)
        if open_ended(command) or not os.environ.get("KVDSL_UPDATE"):
            assert as_expected, f"$ {command.line}\n" + "\n".join(output)
        outputs.append(list(command.expected) if as_expected else output)
    if os.environ.get("KVDSL_UPDATE"):
        path.write_text(written(script, outputs), encoding="utf-8")


def test_a_script_says_what_it_is_for() -> None:
    assert [p.name for p in SCRIPTS if not any(read_script(p.read_text()).intro)] == []


def kvdsl(*arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), **settings}
    command = [sys.executable, "-m", "kvdsl", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_the_module_runs_as_a_process(tmp_path: Path) -> None:
    ran = kvdsl("fmt", "gone.kvspec", cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "there is no such file" in ran.stderr


def test_a_stream_without_unicode_gets_it_spelt_out(tmp_path: Path) -> None:
    (tmp_path / "a.kvspec").write_text('kvspec 1\nlet a = "漢"\nlet b = = 1\n', encoding="utf-8")
    ran = kvdsl("fmt", "a.kvspec", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert ran.returncode == 1
    assert "this is a fault" not in ran.stderr


def test_a_pipe_that_closes_early_is_no_fault(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, "-m", "kvdsl", "rule"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before anything was written
        told = process.stderr.read()
        process.wait(60)
    assert told == b""
    assert process.returncode == 141


def test_every_code_that_a_user_may_meet_is_explained() -> None:
    written = re.compile(r'(?:code: ClassVar\[str\] = |@rule\(\s*)"(KV\d+)"')
    sources = (HERE.parent / "kvdsl").rglob("*.py")
    codes = {code for path in sources for code in written.findall(path.read_text("utf-8"))}
    assert codes
    assert codes - set(rule.known_pages()) == set()


def test_no_page_of_a_rule_is_wider_than_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    application.main(["rule", *rule.known_pages()])
    told, _ = capsys.readouterr()
    assert [line for line in told.splitlines() if len(line) > COLUMNS] == []


def test_a_report_without_pango_says_what_to_install_and_keeps_the_html(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = PdfUnavailable("no PDF: Pango is missing. Run: brew install pango")
    monkeypatch.setattr("kvdsl.render.pdf.report_pdf", lambda html: _raise(missing))
    spec = EXAMPLES / "llama_405b_tp16.kvspec"
    assert application.main(["report", str(spec), "--to", str(tmp_path)]) == 2
    assert "brew install pango" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["llama_405b_tp16.html"]


def _raise(error: BaseException) -> None:
    raise error


def test_an_interrupt_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kvdsl.cli.rule.known_pages", lambda: _raise(KeyboardInterrupt()))
    assert application.main(["rule"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_fault_says_that_it_is_ours_and_what_to_send(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KVDSL_DEBUG", raising=False)
    monkeypatch.setattr("kvdsl.cli.rule.known_pages", lambda: _raise(ZeroDivisionError("a by 0")))
    assert application.main(["rule", "KV101"]) == 3
    told = capsys.readouterr().err
    assert "this is a fault in kvdsl" in told
    assert "ZeroDivisionError in cli/rule.py" in told
    assert "command: kvdsl rule KV101" in told
    assert "Traceback" not in told


def test_the_whole_trace_is_shown_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVDSL_DEBUG", "1")
    monkeypatch.setattr("kvdsl.cli.rule.known_pages", lambda: _raise(ZeroDivisionError("a by 0")))
    assert application.main(["rule"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "a.json", tmp_path / "b.json"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_file(link, b"new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_a_file_that_cannot_be_written_is_the_users_to_mend(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no such file or directory"):
        write_file(tmp_path / "gone" / "a.json", b"")
    with pytest.raises(CommandError, match="it is a folder"):
        write_file(tmp_path, b"")


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_file(Path(os.devnull), b"gone")
    assert not Path(os.devnull).is_file()
