"""`kvdsl get`: one exact number for a script, or all that a deployment answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, Exit, exit_of, unreadable
from kvdsl.cli.files import shown_file
from kvdsl.cli.options import Overrides, color_option, file_names, override_options
from kvdsl.cli.plan import errors_of, say_errors
from kvdsl.formulas import Term
from kvdsl.render import machine
from kvdsl.render.characters import safe
from kvdsl.render.diagnostics import tally
from kvdsl.spelling import nearest
from kvdsl.units import EXAMPLES, MISTAKEN, NONE, TOKENS, UNITS, Quantity, number_text, told, unit

if TYPE_CHECKING:
    from kvdsl.planning.questions import Answer
    from kvdsl.resolve.changes import Change

MOST_NAMES = 8
"""So many names are listed where none is near."""

_CODE = re.compile(r"[Kk][Vv]\d{3}")

_MEASURE = re.compile(r"(?P<number>\d[\d_]*(?:\.\d+)?)\s*(?P<unit>[A-Za-z]*)")


@click.command("get")
@click.argument("file", shell_complete=file_names)
@click.argument("dotted", metavar="DEPLOYMENT[.VALUE]")
@override_options
@click.option("--length", metavar="LENGTH", help='Of a request, for a model: "8192 tok".')
@click.option("--unit", "unit_name", metavar="UNIT", help="Write it in this unit, as in GB.")
@click.option("--output", type=click.Choice(("text", "json")), default="text")
@color_option
@click.pass_obj
def command(
    console: Console,
    file: str,
    dotted: str,
    overrides: Overrides,
    length: str | None,
    unit_name: str | None,
    output: str,
) -> int:
    """Print one value, exact.

    In base units: bytes, seconds, tokens. Of a deployment alone, everything that it answers.

    \b
    kvdsl get prod.kvspec llama_405b.kv.tokens --layout tp16
    kvdsl get prod.kvspec models.deepseek_v3.parameters
    kvdsl get prod.kvspec llama_405b --output json
    """
    answer = answered(console, file, dotted, overrides.changes(), tokens(length))
    if answer.value is not None:
        console.write(_one(dotted, answer.value.quantity, unit_name, output))
    elif unit_name is not None and answer.values:
        raise click.UsageError("--unit needs one value: DEPLOYMENT.VALUE")
    elif output == "json" and answer.values:
        console.write(machine.text(machine.values(dotted, answer.values)))
    else:
        console.write(_list(answer.values))
    return answer_exit(answer)


def answered(
    console: Console, file: str, dotted: str, made: Sequence[Change], length: int | None
) -> Answer:
    """The answer. Raises CommandError where there is none and no diagnostic says why.

    Errors are shown where they left no answer. A requirement that fails, as it may well do under
    another layout, takes nothing from a number: it gets one line.
    """
    from kvdsl.pipeline import ask
    from kvdsl.planning.questions import Answer

    answer = ask(file, dotted, made, length=length)
    if any(map(unreadable, answer.report.diagnostics)):
        answer = Answer(answer.report)  # whatever the catalog has of that name
    errors = tally(errors_of(answer.report))
    if not _found(answer):
        if answer.absent:
            raise CommandError(f"no value `{safe(dotted)}`: {safe(answer.absent)}")
        if not errors:
            raise CommandError(_nothing(file, dotted, answer))
        say_errors(console, answer.report)
    elif errors:
        console.say(f"note: {errors} of the spec under these settings; see `kvdsl plan`")
    return answer


def answer_exit(answer: Answer) -> Exit:
    """A value that was asked for and found is fine, whatever else stands in the spec."""
    return Exit.FINE if _found(answer) else exit_of(answer.report)


def tokens(length: str | None) -> int | None:
    """The tokens of `8192 tok`, `8 ktok` or `8192`."""
    if length is None:
        return None
    match = _MEASURE.fullmatch(length.strip())
    measured = (match["unit"] or "tok") if match else ""
    known = unit(measured) if match else None
    if match is None or known is None or known[0] != TOKENS:
        raise click.BadParameter(
            f"`{safe(length)}` is no length, as in `8192 tok`", param_hint="--length"
        )
    value = Quantity.of(Fraction(match["number"].replace("_", "")), measured).value
    if value != int(value) or value <= 0:
        raise click.BadParameter("a length is a whole number of tokens", param_hint="--length")
    return int(value)


def _found(answer: Answer) -> bool:
    return answer.value is not None or bool(answer.values)


def _nothing(file: str, dotted: str, answer: Answer) -> str:
    """With the name that was likely meant, or what there is."""
    behind = dotted.removeprefix(answer.head).lstrip(".")
    known = sorted(answer.known) if answer.head else answer.known
    group = behind if _begun(behind, known) else behind.partition(".")[0]
    inside = _begun(group, known) if answer.head else []
    if _CODE.fullmatch(dotted):
        hint = f"; `kvdsl rule {dotted.upper()}` explains a finding"
    elif inside and group == behind:
        hint = f"; `{safe(group)}` has {_few(inside)}"
    elif answer.meant:
        hint = f"; did you mean `{safe(answer.meant)}`?"
    elif inside:
        hint = f"; `{safe(group)}` has {_few(inside)}"
    elif answer.head and len(known) > MOST_NAMES:
        hint = f"; `kvdsl get {shown_file(file)} {safe(answer.head)}` lists {len(known)} values"
    elif known:
        hint = f"; there is {_few(known)}"
    else:
        hint = "; deployments, fleets and models have values"
    return f"no value `{safe(dotted)}` in {shown_file(file)}{hint}"


def _begun(group: str, known: Sequence[str]) -> list[str]:
    return [name for name in known if group and name.startswith(f"{group}.")]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(safe(name) for name in names[:MOST_NAMES]) + more


def _one(dotted: str, value: Quantity, unit_name: str | None, output: str) -> str:
    try:
        form = machine.in_unit(value, unit_name) if unit_name else machine.quantity(value)
        number = value.in_unit(unit_name) if unit_name else told(value)[0]
    except ValueError:
        raise CommandError(_no_unit(str(unit_name), value)) from None
    if output == "json":
        return machine.text({"format": machine.FORMAT, "name": dotted, **form})
    return number_text(number) + "\n"


def _no_unit(name: str, value: Quantity) -> str:
    if unit(name) is None:
        meant = MISTAKEN.get(name)
        near = nearest(name, UNITS, most=1)
        hint = f"; write {meant or near[0]}" if meant or near else ""
        return f"`{safe(name)}` is not a unit{hint}"
    example = EXAMPLES.get(value.dimension)
    hint = f"; as in `{example}`" if example else ""
    return f"{name} does not measure {value.dimension.noun} (in {value.unit}){hint}"


def _list(terms: Mapping[str, Term]) -> str:
    longest = max(map(len, terms), default=0)
    lines = []
    for name, term in sorted(terms.items()):
        value, unit_name = told(term.quantity)
        behind = "" if term.dimension == NONE else f" {unit_name}"
        lines.append(f"{name:<{longest}}  {number_text(value)}{behind}\n")
    return "".join(lines)
