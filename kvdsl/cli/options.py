"""Options that several commands take: colour, overrides, outputs.

Comes in: words of the command line. Goes out: typed values, or a usage error with the nearest known
word. Not its job: what the overrides mean (resolve) or what is written (render).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kvdsl.cli.console import Colour, Console
from kvdsl.render.characters import safe
from kvdsl.spelling import nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kvdsl.resolve.changes import Change

Command = TypeVar("Command", bound=Callable[..., Any])


def color_option(command: Command) -> Command:
    def chosen(context: click.Context, _parameter: click.Parameter, colour: Colour | None) -> None:
        if colour is not None and isinstance(context.obj, Console):
            context.obj = context.obj.coloured(colour)

    return click.option(
        "--color",
        type=click.Choice(("auto", "always", "never")),
        metavar="WHEN",
        expose_value=False,
        callback=chosen,
        help="auto (the default: on a terminal), always or never.",
    )(command)


def file_names(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """What a shell completes by itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(begun, type="file")]


# --- overrides ---------------------------------------------------------------------------------


def override_options(command: Command) -> Command:
    """`--layout L` and `--set PATH=EXPR`, which the command gets as one `overrides`."""

    @wraps(command)
    def given(*words: Any, layout: str | None, settings: tuple[str, ...], **rest: Any) -> Any:
        return command(*words, overrides=Overrides(layout, settings), **rest)

    setting = click.option(
        "--set",
        "settings",
        metavar="PATH=EXPR",
        multiple=True,
        help="Change a value before planning: `workload.context=32 ktok`. Repeatable.",
    )
    layout = click.option(
        "--layout", metavar="LAYOUT", help="Plan under another layout: short for --set layout=…"
    )
    return cast(Command, layout(setting(given)))


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line changes in a deployment before it is planned."""

    layout: str | None
    settings: tuple[str, ...]

    def changes(self) -> tuple[Change, ...]:
        """In the order in which they apply: the layout first, for paths below it."""
        from kvdsl.resolve.changes import Change

        made = []
        if self.layout is not None:
            layout = self.layout.strip()
            made.append(Change("layout", layout, option="--layout", given=layout))
        for setting in self.settings:
            path, equals, value = setting.partition("=")
            if not equals or not path.strip() or not value.strip():
                raise click.BadParameter(
                    f"`{safe(setting)}` is not PATH=EXPR, as in `workload.context=32 ktok`",
                    param_hint="--set",
                )
            given = setting.strip()
            made.append(Change(path.strip(), value.strip(), option="--set", given=given))
        return tuple(made)


# --- outputs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Output:
    """A form, and the file that takes it; without one, stdout."""

    form: str
    path: str | None = None


def output_option(forms: Sequence[str], shown: str) -> Callable[[Command], Command]:
    """`--output FORMAT[=PATH]`, repeatable; `shown` says what is written without it."""

    def read(
        _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
    ) -> tuple[Output, ...]:
        return tuple(_output(text, forms) for text in given)

    return click.option(
        "--output",
        "outputs",
        callback=read,
        multiple=True,
        metavar="FORMAT[=PATH]",
        help=f"{', '.join(forms)}; {shown} Repeatable.",
    )


def _output(given: str, forms: Sequence[str]) -> Output:
    form, equals, path = given.partition("=")
    if form not in forms:
        near = nearest(form, forms, most=1)
        hint = f"did you mean `{near[0]}`?" if near else f"it is one of {', '.join(forms)}"
        raise click.BadParameter(f"there is no form `{safe(form)}`; {hint}")
    if equals and not path:
        raise click.BadParameter(f"no file stands behind `{form}=`")
    if path and not Path(path).parent.is_dir():
        folder = safe(str(Path(path).parent))
        raise click.BadParameter(f"cannot write `{safe(path)}`: there is no folder `{folder}`")
    return Output(form, path or None)


def outputs_or(outputs: Sequence[Output], form: str) -> tuple[Output, ...]:
    """The outputs, or the one form that a command writes unasked; stdout takes one alone."""
    asked = tuple(dict.fromkeys(outputs)) or (Output(form),)
    if sum(output.path is None for output in asked) > 1:
        raise click.UsageError("two outputs go to stdout; give one a file: --output FORMAT=PATH")
    paths = [output.path for output in asked if output.path is not None]
    if len(set(paths)) < len(paths):
        raise click.UsageError("two outputs go to one file")
    return asked
