"""The application: finds the command, runs it, and ends the process as `outputs` says.

Comes in: arguments. Goes out: an exit code. Nothing heavy is imported before a command asks for it.
Not its job: what a command does.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from platform import platform, python_version

import click

from kvdsl import __version__
from kvdsl.cli.completion import VARIABLE, completed
from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, Exit
from kvdsl.cli.options import color_option
from kvdsl.cli.streams import Unwritable
from kvdsl.render.characters import safe, wrapped
from kvdsl.spelling import nearest

COMMANDS = (
    "check", "plan", "levers", "diff", "compare", "sweep", "lock", "explain", "get", "collective",
    "graph", "report", "rule", "fmt", "import", "catalog", "completion",
)  # fmt: skip
"""In the order that people meet them; each is `command` in the module of its name."""

_MODULES = {"import": "importing"}
"""Where a command's word cannot name a module."""

_PACKAGE = Path(__file__).resolve().parent.parent


class _Commands(click.Group):
    """Loads a command's module when it is named, or when all are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(
            f"kvdsl.cli.{_MODULES.get(cmd_name, cmd_name)}"
        ).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"no command `{safe(name)}`; {_meant(name)}", ctx)


def _meant(name: str) -> str:
    """What was meant by a word that is no command."""
    if name in ("help", "version"):
        return f"write `kvdsl --{name}`"
    if name.endswith(".kvspec") or Path(name).is_file():
        return f"a file stands behind a command: `kvdsl check {safe(name)}`"
    near = nearest(name, COMMANDS, most=1)
    return f"did you mean `{near[0]}`?" if near else f"there are {', '.join(COMMANDS)}"


def _option(error: click.NoSuchOption) -> str:
    """An option that the command does not have, with the commands that do."""
    name = error.option_name
    words = f"no option `{safe(name)}`"
    if error.ctx is None or name.lstrip("-") == "":
        return words
    others = []
    for word in COMMANDS:
        found = kvdsl.get_command(error.ctx, word)
        has = found is not None and any(name in each.opts for each in found.params)
        others += [f"`{word}`"] if has and word != error.ctx.info_name else []
    own = [opt for each in error.ctx.command.params for opt in each.opts if opt.startswith("--")]
    near = nearest(name, [*own, "--help"], most=1)
    if near:
        words += f"; did you mean `{near[0]}`?"
    elif others:
        words += f"; {', '.join(others)} {'has' if len(others) == 1 else 'have'} it"
    return words


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    epilog="Exit codes: 0 fine, 1 errors found, 2 usage or an unreadable file, 3 a fault in kvdsl, "
    "4 changed, only with diff --exit-code.",
)
@click.version_option(__version__, "-V", "--version", message="kvdsl %(version)s")
@color_option
def kvdsl() -> None:
    """Plans for serving large language models, from .kvspec text to checked figures."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    console = replace(Console.of(os.environ), arguments=tuple(given))
    if asked := os.environ.get(VARIABLE):
        return completed(kvdsl, asked)
    try:
        # click writes help and the version to the process's streams, not to the console.
        with redirect_stdout(console.data), redirect_stderr(console.talk):
            code = _run(given, console)
            console.data.flush()
            console.talk.flush()
    except BrokenPipeError:
        console.silence()
        return Exit.BROKEN_PIPE
    except Unwritable as why:
        with suppress(OSError, Unwritable):
            console.talk.write(f"error: cannot write the output: {why}\n")
            console.talk.flush()
        console.silence()
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return code


def _run(arguments: list[str], console: Console) -> int:
    """click's own `main` is not used: it turns an interrupt and a closed pipe into exit code 1."""
    try:
        with kvdsl.make_context("kvdsl", arguments, obj=console) as context:
            return int(kvdsl.invoke(context))
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        console.say(asked.format_message())
        return Exit.USAGE
    except click.UsageError as error:
        if error.ctx:
            console.say(error.ctx.get_usage())
        told = _option(error) if isinstance(error, click.NoSuchOption) else error.format_message()
        _say_error(console, safe(" ".join(told.split())))
        return Exit.USAGE
    except (click.ClickException, CommandError) as error:
        words = error.format_message() if isinstance(error, click.ClickException) else str(error)
        _say_error(console, words)
        return Exit.USAGE
    except (BrokenPipeError, Unwritable):
        raise
    except Exception as fault:  # noqa: BLE001 - the one place where any fault becomes a message
        console.say(_fault(fault, arguments, console))
        return Exit.FAULT


def _say_error(console: Console, words: str) -> None:
    """Wrapped like every other sentence; what has lines of its own keeps them."""
    for number, line in enumerate(f"error: {words}".splitlines()):
        for part in wrapped(line, console.columns, "" if number == 0 else "  ", "  "):
            console.say(part)


def _fault(fault: Exception, arguments: list[str], console: Console) -> str:
    """What to say, and what to send, when kvdsl itself is wrong."""
    if console.debug:
        return "".join(traceback.format_exception(fault))
    where = ""
    for frame in traceback.extract_tb(fault.__traceback__):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            where = f" in {path.relative_to(_PACKAGE).as_posix()}:{frame.lineno}"
    command = " ".join(["kvdsl", *arguments])
    words = str(fault).split("\n")[0][:200]
    return (
        "error: this is a fault in kvdsl, not in your spec\n"
        f"  {type(fault).__name__}{where}: {safe(words)}\n"
        f"  kvdsl {__version__}, Python {python_version()}, {platform(terse=True)}\n"
        f"  command: {safe(command)}\n"
        "Please report it with these lines and the spec; KVDSL_DEBUG=1 shows the whole trace."
    )
