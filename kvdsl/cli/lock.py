"""`kvdsl lock`: what the catalog means to these specs, written down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import Exit, exit_of, worst
from kvdsl.cli.files import spec_paths, write_file
from kvdsl.cli.options import color_option, file_names
from kvdsl.cli.progress import shown
from kvdsl.render.characters import safe, wrapped

if TYPE_CHECKING:
    from kvdsl.plan import Fact
    from kvdsl.review.lock import Lock


@click.command("lock")
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=file_names)
@click.option("--update", is_flag=True, help="Take over figures that moved.")
@click.option("--lock", "place", metavar="FILE", default="kvspec.lock", show_default=True,
              help="Where the lock lies.")  # fmt: skip
@click.option("--exclude", "excluded", metavar="PATTERN", multiple=True,
              help="Leave out specs below a folder, as a line of .kvspecignore would.")  # fmt: skip
@color_option
@click.pass_obj
def command(
    console: Console, paths: tuple[str, ...], update: bool, place: str, excluded: tuple[str, ...]
) -> int:
    """Write kvspec.lock: the catalog's figures that specs stand on.

    Of named specs the entries are added; without names those of the whole folder are written, and
    entries that no spec uses go. A figure that moved since is told, and taken over only with
    --update; after a merge conflict the conflicting entries are written anew.
    """
    from kvdsl.cli.locks import lock_on
    from kvdsl.project.shelves import DISK
    from kvdsl.review.lock import Lock, lock_text, move_text, moves

    held = lock_on(DISK, place) or Lock()
    specs = spec_paths(paths or (".",), excluded)
    ended = _sound(console, specs)
    if ended is not Exit.FINE:
        return ended
    now = used_lock(console, specs)
    if paths:
        # Other specs may stand on the rest: only a lock of the whole folder drops entries.
        now = Lock({**held.entries, **now.entries})
    moved = moves(held, now)
    for move in moved:
        console.say(safe(move_text(move)))
    if moved and not update:
        console.say(f"{_figures(len(moved))} moved; `kvdsl lock --update` takes them over")
        return Exit.FINDINGS
    text = lock_text(now)
    before = DISK.read(Path(place))
    if text != before:
        write_file(Path(place), text.encode())
    count = len(now.entries)
    state = "is as it was" if text == before else "written"
    console.say(f"{safe(place)} {state}: {count:,} entr{'y' if count == 1 else 'ies'}")
    return Exit.FINE


def _sound(console: Console, paths: tuple[str, ...]) -> Exit:
    """Fine if every spec can be resolved: a lock of broken ones would lose what they stand on."""
    from kvdsl.project.catalog import Catalog
    from kvdsl.project.loader import load
    from kvdsl.sketches import sketched_report

    catalog = Catalog()
    ended = [Exit.FINE]
    for path in paths:
        report = sketched_report(load(path, catalog))
        if not report.failed:
            continue
        ended.append(exit_of(report))
        why = "has errors, so no lock is written: see `kvdsl check`"
        if ended[-1] is Exit.USAGE:
            why = f"has no text, so no lock is written: {report.diagnostics[0].headline}"
        for line in wrapped(f"{safe(path)} {why}", console.columns, "", "  "):
            console.say(line)
    return worst(ended)


def used_lock(console: Console, paths: tuple[str, ...]) -> Lock:
    """The lock of what these specs use of the installed catalog."""
    from kvdsl.project.catalog import Catalog
    from kvdsl.project.loader import load
    from kvdsl.review.lock import lock_of
    from kvdsl.sketches import facts

    catalog = Catalog()
    found: dict[tuple[str, str], Fact] = {}
    for path in shown(console, ((p, p) for p in paths)):
        for fact in facts(load(path, catalog)):
            if fact.entry:
                found.setdefault(fact.key, fact)
    return lock_of(found.values())


def _figures(count: int) -> str:
    return "1 figure" if count == 1 else f"{count:,} figures"
