"""`kvdsl diff`: what a change of specs, or of the catalog, does to their plans."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError, Exit
from kvdsl.cli.files import deliver, spare
from kvdsl.cli.options import Output, color_option, file_names, output_option, outputs_or
from kvdsl.render.characters import safe, wrapped

if TYPE_CHECKING:
    from kvdsl.cli.sides import Half
    from kvdsl.difference import Difference
    from kvdsl.review.sides import Sketches
    from kvdsl.review.thresholds import Asked

FORMS = ("text", "markdown", "json", "github")
SAME = "No plan changed."


MOST_NAMED = 4
"""Values that a note names."""


@click.command("diff")
@click.argument("paths", nargs=-1, metavar="[OLD NEW | PATH...]", shell_complete=file_names)
@click.option(
    "--against",
    metavar="REV",
    is_flag=False,
    flag_value="upstream",
    help="Compare the working tree with a git revision. `upstream` (also without OLD NEW) is where "
    "this branch left its upstream branch.",
)
@click.option("--threshold", "thresholds", metavar="[NAME=]LIMIT", multiple=True,
              help="Leave out smaller changes: `1 %`, `decode.tpot=0.5 ms`; 0.1 % unless given. "
              "Repeatable.")  # fmt: skip
@click.option("--fail-on", "fails", metavar="WHAT", multiple=True,
              help="Exit with 1 on `requirement` (one breaks), `error` (a new one), a worse value "
              "such as `kv.tokens=5 %`, or `regression`: both, and values named beside it; else "
              "kv.tokens, kv.sequences, decode.tpot, decode.throughput, prefill.ttft and "
              "cost.per_mtok. Repeatable.")  # fmt: skip
@click.option("--exit-code", is_flag=True, help="Exit with 4 where something changed.")
@click.option("--exclude", "excluded", metavar="PATTERN", multiple=True,
              help="Leave out specs below a folder, as a line of .kvspecignore would.")  # fmt: skip
@click.option("--policy", "policies", metavar="FILE", multiple=True,
              help="Hold every deployment to the policies of a file, as it reads on each side. "
              "Repeatable.")  # fmt: skip
@click.option("--lock", metavar="FILE", default="kvspec.lock", show_default=True,
              help="The lock that says what the catalog was.")  # fmt: skip
@click.option("--always", is_flag=True, help="Say so, too, where nothing changed.")
@output_option(FORMS, "text without it.")
@color_option
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    console: Console,
    paths: tuple[str, ...],
    against: str | None,
    thresholds: tuple[str, ...],
    fails: tuple[str, ...],
    exit_code: bool,
    excluded: tuple[str, ...],
    policies: tuple[str, ...],
    lock: str,
    always: bool,
    outputs: tuple[Output, ...],
) -> int:
    """Compare plans: what the author changed, what the catalog changed, what the numbers did.

    Two files or two folders, plans that `plan --output json` kept and a file, or with --against the
    working tree with a git revision.
    """
    from kvdsl.cli.thresholds import asked_of

    asked = asked_of(thresholds, fails)
    shown = outputs_or(outputs, "text")
    spare((*paths, *policies), (output.path for output in shown))
    made = _difference(console, paths, against, excluded, policies, lock, asked)
    for output in shown:
        deliver(console, [output], {output.form: _text(console, made, output, always=always)})
    if passed := _not_counted(made, asked):
        more = f" and {len(passed) - MOST_NAMED} more" if len(passed) > MOST_NAMED else ""
        some = ", ".join(passed[:MOST_NAMED])
        _say(console, f"note: worse, and not among what `--fail-on` counts: {some}{more}")
    for fault in made.standing:
        _say(console, f"note: still fails: {fault}")
    if made.regressions:
        for reason in made.regressions:
            _say(console, f"fails: {reason}")
        return Exit.FINDINGS
    return Exit.CHANGED if exit_code and not made.empty else Exit.FINE


def _say(console: Console, text: str) -> None:
    for line in wrapped(text, console.columns, "", "  "):
        console.say(line)


def _not_counted(made: Difference, asked: Asked) -> tuple[str, ...]:
    """Values that got worse and fail nothing, where somebody asked for failing."""
    if not asked.fails:
        return ()
    worse = (v.name for d in made.deployments for v in d.values if v.worth == "worse")
    return tuple(name for name in dict.fromkeys(worse) if name not in asked.fails)


def _difference(
    console: Console,
    paths: Sequence[str],
    against: str | None,
    excluded: Sequence[str],
    policies: Sequence[str],
    lock: str,
    asked: Asked,
) -> Difference:
    from kvdsl.cli.sides import Half, below, held_to, refuse_no_policies, same_places
    from kvdsl.project.reading import Refusal, read
    from kvdsl.project.revisions import NoRevision, revision
    from kvdsl.project.shelves import DISK, Disk

    refuse_no_policies(policies)
    if against is None and len(paths) == 2:
        old, new = paths
        for path in paths:
            if not Path(path).exists():
                raise CommandError(f"cannot read `{safe(path)}`: there is no such file")
            if Path(path).is_file() and isinstance(refused := read(Path(path)), Refusal):
                raise CommandError(f"cannot read `{safe(path)}`: {refused.reason}")
        if old.endswith(".json"):
            if policies:
                raise click.UsageError("--policy holds files, and kept plans are none")
            return _since(console, old, new, asked)
        if Path(old).is_dir() != Path(new).is_dir():
            raise click.UsageError("compare two files or two folders, not one of each")
        held = held_to(policies, DISK)
        one = Half(Disk(old), below(DISK, old, excluded), held)
        two = Half(Disk(new), below(DISK, new, excluded), held)
        return _compared(one, two, asked, (_beside(old, lock), _beside(new, lock)), console)
    if against is None and paths:
        raise click.UsageError("name two files or folders, or a revision: --against REV")
    try:
        past = revision("upstream" if against is None else against)
    except NoRevision as error:
        raise CommandError(safe(str(error))) from None
    given = paths or (".",)
    try:
        halves = [
            Half(shelf, same_places(shelf, given, excluded), held_to(policies, shelf))
            for shelf in (past, DISK)
        ]
        halves = _own(console, halves, given, past.nested)
        return _compared(halves[0], halves[1], asked, (lock, lock), console)
    finally:
        past.close()


def _own(
    console: Console, halves: list[Half], given: Sequence[str], nested: Callable[[str], str | None]
) -> list[Half]:
    """Without specs of repositories within this one, whose revisions are others."""
    apart = {name: nested(name) for half in halves for name in half.paths}
    for path in given:
        inner = apart.get(os.path.normpath(path))
        if inner is not None:
            told = f"`{safe(path)}` is of another repository, `{safe(inner)}`; compare it there"
            raise CommandError(told)
    for inner in sorted({inner for inner in apart.values() if inner is not None}):
        console.say(f"left out: `{safe(inner)}` is another repository; compare it there")
    return [
        replace(half, paths={n: path for n, path in half.paths.items() if apart[n] is None})
        for half in halves
    ]


def _since(console: Console, old: str, new: str, asked: Asked) -> Difference:
    """From plans that were kept, perhaps by another kvdsl, to a file as it is planned now."""
    import json

    from kvdsl.cli.sides import Half, planned
    from kvdsl.project.catalog import Catalog
    from kvdsl.project.shelves import Disk
    from kvdsl.review.kept import BadPlans, kept_plans
    from kvdsl.review.review import difference
    from kvdsl.review.sides import Side

    if Path(new).is_dir():
        raise click.UsageError("compare kept plans with one file")
    try:
        kept = kept_plans(json.loads(Path(old).read_text("utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(f"cannot read `{safe(old)}`: {safe(str(error))[:120]}") from None
    except BadPlans as error:
        raise CommandError(f"cannot read `{safe(old)}`: {safe(str(error))}") from None
    plans, fleets = ([replace(p, file="") for p in each] for each in (kept.plans, kept.fleets))
    before = Side(old, {"": replace(kept, plans=tuple(plans), fleets=tuple(fleets))})
    after = planned(console, Half(Disk(new), {"": new}), [""], Catalog())
    return difference(before, after, asked)


def _beside(path: str, lock: str) -> str:
    """The lock in a folder, or beside a file."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    return (folder / lock).as_posix()


def _compared(
    old: Half, new: Half, asked: Asked, locks: tuple[str, str], console: Console
) -> Difference:
    """What changed; where nothing did, what policies want in vain."""
    made = _between(old, new, asked, locks, console)
    return replace(made, standing=_unmet(console, new)) if made.empty and new.policies else made


def _unmet(console: Console, half: Half) -> tuple[str, ...]:
    from kvdsl.cli.sides import planned
    from kvdsl.project.catalog import Catalog

    plans = planned(console, half, list(half.paths), Catalog()).plans()
    return tuple(
        f"{plan.name}: {finding.code} {finding.diagnostic.headline}"
        for plan in plans
        for finding in plan.findings
        if finding.agreed is not None
    )


def _between(
    old: Half, new: Half, asked: Asked, locks: tuple[str, str], console: Console
) -> Difference:
    from kvdsl.cli.locks import lock_on, moved_between, old_figures
    from kvdsl.cli.sides import planned, unlike
    from kvdsl.project.catalog import Catalog
    from kvdsl.review.review import difference

    held = [lock_on(half.shelf, place) for half, place in zip((old, new), locks, strict=True)]
    moves = moved_between(*held)
    names = unlike(old, new)
    now = Catalog()
    after = planned(console, new, names, now)
    if not moves:
        return difference(planned(console, old, names, now), after, asked)
    figures = old_figures(moves)
    was = Catalog(figures=figures)
    rest = [name for name in new.paths if name in old.paths and name not in names]
    same = planned(console, new, rest, now)
    touched = [name for name, one in same.files.items() if _uses(one, figures)]
    before = planned(console, old, [*names, *touched], was)
    between = planned(console, new, [n for n in names if n in old.paths], was)
    after = replace(after, files={**after.files, **{n: same.files[n] for n in touched}})
    replayed = frozenset((e, path) for e, paths in figures.items() for path in paths)
    return difference(before, after, asked, between, replayed, moves)


def _uses(sketches: Sketches, figures: Mapping[str, object]) -> bool:
    return any(fact.entry in figures for plan in sketches.plans for fact in plan.facts)


def _text(console: Console, made: Difference, output: Output, *, always: bool) -> str:
    from kvdsl.render.annotations import difference_annotations
    from kvdsl.render.comment import comment
    from kvdsl.render.machine import text
    from kvdsl.render.machine_changes import difference_form
    from kvdsl.render.paint import PLAIN
    from kvdsl.render.terminal_changes import difference_text

    match output.form:
        case "json":
            return text(difference_form(made))
        case "markdown":
            return comment(made, unchanged=SAME if always else "")
        case "github":
            return difference_annotations(made)
        case _:
            paint = console.data_paint if output.path is None else PLAIN
            told = difference_text(made, console.columns, paint)
            return told or (f"{SAME}\n" if always else "")
