"""`kvdsl fmt`: specs laid out in their one form."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import Exit, exit_of, worst
from kvdsl.cli.files import STANDARD_INPUT, spec_paths, write_file
from kvdsl.cli.options import color_option, file_names
from kvdsl.cli.plan import say_errors
from kvdsl.diagnostics import Report
from kvdsl.render.characters import safe
from kvdsl.units import counted


@dataclass(frozen=True, slots=True)
class _Formatted:
    """A text before and after; `after` is None where errors keep it from being laid out."""

    path: str
    name: str
    before: str
    after: str | None
    report: Report


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=file_names)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
@click.option(
    "--stdin-name", metavar="NAME", help="What messages call -, as in an editor's buffer."
)
@color_option
@click.pass_obj
def command(
    console: Console, files: tuple[str, ...], check: bool, diff: bool, stdin_name: str | None
) -> int:
    """Lay out specs in their one form.

    - formats standard input to stdout. A file with errors is left as it is. A folder is
    searched for .kvspec files.
    """
    exits: list[Exit] = []
    changed = 0
    paths = spec_paths(files)
    if stdin_name is not None and STANDARD_INPUT not in paths:
        raise click.UsageError("--stdin-name is the name of -, and - is not among the files")
    for path in paths:
        done = _formatted(path, stdin_name)
        exits.append(exit_of(done.report))
        say_errors(console, done.report)
        differs = done.after is not None and _differs(done)
        changed += differs
        if differs and check:
            exits.append(Exit.FINDINGS)
            console.say(f"would reformat {safe(done.name)}")
        if differs and diff:
            console.write(_difference(done))
        if not check and not diff:
            _write(console, done, differs=differs)
    if not check and not diff and paths != (STANDARD_INPUT,):
        console.say(f"{counted(changed, 'files')} reformatted, {len(paths) - changed:,} left as is")
    return worst(exits)


def _formatted(path: str, stdin_name: str | None) -> _Formatted:
    from kvdsl.project.files import unreadable
    from kvdsl.project.reading import Refusal, read, read_standard_input
    from kvdsl.source import SourceFile
    from kvdsl.syntax.formatter import format_module
    from kvdsl.syntax.parser import parse

    name = (stdin_name or "<stdin>") if path == STANDARD_INPUT else Path(path).as_posix()
    text = read_standard_input() if path == STANDARD_INPUT else read(Path(path))
    if isinstance(text, Refusal):
        return _Formatted(path, name, "", None, Report.of(unreadable(name, text).diagnostics))
    module, found = parse(SourceFile(name, text))
    report = Report.of(found)
    if report.failed:
        return _Formatted(path, name, text, None, report)
    after = format_module(module)
    _prove(name, text, after)
    return _Formatted(path, name, text, after, report)


def _prove(name: str, before: str, after: str) -> None:
    """That the new text means the same and stays as it is. Nothing is written otherwise."""
    from kvdsl.source import SourceFile
    from kvdsl.syntax.formatter import equivalent, format_module
    from kvdsl.syntax.parser import parse

    old, _ = parse(SourceFile(name, before))
    new, found = parse(SourceFile(name, after))
    if found or not equivalent(old, new):
        raise AssertionError(f"formatting would change what {name} means")
    if format_module(new) != after:
        raise AssertionError(f"formatting {name} again would change it again")


def _differs(done: _Formatted) -> bool:
    """Against the bytes on disk: line ends and a byte order mark are gone from the text read."""
    assert done.after is not None
    if done.path == STANDARD_INPUT:
        return done.before != done.after
    return Path(done.path).read_bytes() != done.after.encode()


def _difference(done: _Formatted) -> str:
    assert done.after is not None
    before, after = done.before.splitlines(), done.after.splitlines()
    name = safe(done.name)
    lines = unified_diff(before, after, f"{name} (as it is)", f"{name} (formatted)", lineterm="")
    text = "".join(safe(line.replace("\t", "    ")) + "\n" for line in lines)
    return text or f"{name}: line ends differ\n"


def _write(console: Console, done: _Formatted, *, differs: bool) -> None:
    if done.path == STANDARD_INPUT:
        if done.after is not None:
            console.write(done.after)
    elif differs and done.after is not None:
        write_file(Path(done.path), done.after.encode())
