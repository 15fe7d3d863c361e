"""The house's laws, read off the source: who may import whom, how large, under what names.

A law that is broken names the module, its line and the wrong door. The floors are those of
docs/architecture.md; a change that moves one changes both.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import kvdsl

ROOT = Path(__file__).resolve().parent.parent

FLOORS: tuple[tuple[str, ...], ...] = (
    ("source", "units", "arithmetic", "spelling", "resources", "recall"),
    ("diagnostics", "rules", "formulas"),
    ("syntax",),
    ("importers", "project"),
    ("spec", "resolve"),
    ("placement",),
    ("costs",),
    ("checks",),
    ("plan", "difference", "requirements", "comparison", "planning", "search", "review"),
    ("engines", "render"),
    ("pipeline", "sketches"),
    ("reference", "cli", "lsp"),
    ("__main__",),
    ("kvdsl",),  # the package's own __init__: the front door, which no room goes through
)
STREET = tuple(room for floor in FLOORS for room in floor)
FREE_NAMES = {"__version__"}  # a literal of the front door, open to all

HOME = {
    "lark": {"syntax"},
    "networkx": {"placement"},
    "jinja2": {"render"},
    "weasyprint": {"render"},
    "click": {"cli"},
}
HEAVY = {"lark", "networkx", "jinja2", "weasyprint", "numpy", "rich"}
RENDERERS_SEE = {*FLOORS[0], *FLOORS[1], "plan", "difference", "render"}

MODULE_LINES = 500
FUNCTION_LINES = 60
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "base", "misc"}


@dataclass(frozen=True)
class Door:
    """One import: the dotted name of what it brings, and whether it runs when the module loads."""

    target: str
    line: int
    at_load: bool


@dataclass(frozen=True)
class Module:
    name: str
    source: str

    @property
    def room(self) -> str:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else parts[0]

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, self.name)

    def doors(self) -> list[Door]:
        return list(_doors(self.tree.body, at_load=True))


def _doors(nodes: Iterable[ast.AST], *, at_load: bool) -> Iterator[Door]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Door(alias.name, node.lineno, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            for alias in node.names:
                yield Door(f"{node.module}.{alias.name}", node.lineno, at_load)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"kvdsl(\.\w+)+", node.value):  # what importlib may be handed
                yield Door(node.value, node.lineno, at_load=False)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _doors(node.body, at_load=False)
            yield from _doors(node.orelse, at_load=at_load)
        else:
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _doors(ast.iter_child_nodes(node), at_load=at_load and not inside)


def _read_modules() -> tuple[Module, ...]:
    modules = []
    for path in sorted((ROOT / "kvdsl").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules.append(Module(name, path.read_text(encoding="utf-8")))
    return tuple(modules)


MODULES = _read_modules()
MODULE_NAMES = {module.name for module in MODULES}


def _library(door: Door) -> str:
    return door.target.split(".")[0]


def _goes_to(door: Door) -> str | None:
    """The kvdsl room behind a door, or None for another library and for the free names."""
    parts = door.target.split(".")
    if parts[0] != "kvdsl":
        return None
    if len(parts) == 1:
        return "kvdsl"
    if parts[1] in STREET:
        return parts[1]
    return None if parts[1] in FREE_NAMES else "kvdsl"


def upward_doors(module: Module) -> list[str]:
    here = STREET.index(module.room)
    return [
        f"{module.name}:{door.line} goes up to {door.target}"
        for door in module.doors()
        if (room := _goes_to(door)) is not None and STREET.index(room) > here
    ]


def test_every_module_has_a_room_on_a_floor() -> None:
    assert MODULES
    assert [m.name for m in MODULES if m.room not in STREET] == []


def test_imports_point_down() -> None:
    assert [door for module in MODULES for door in upward_doors(module)] == []


def test_an_import_that_points_up_is_seen_wherever_it_is_written() -> None:
    for text in (
        "from kvdsl.syntax import nodes",
        "import kvdsl.spec.layout",
        "from kvdsl import plan",
        "def f():\n    from kvdsl.cli import main",
        "if TYPE_CHECKING:\n    from kvdsl.project import Loader",
        "import_module('kvdsl.render.html')",
        "from kvdsl import compile",
    ):
        assert upward_doors(Module("kvdsl.units", text)), text
    for text in ("from kvdsl.source import Span", "from kvdsl import __version__", "import ast"):
        assert upward_doors(Module("kvdsl.units", text)) == [], text


def _imported_module(door: Door) -> str | None:
    """The longest prefix of a door's target that is a module of kvdsl."""
    parts = door.target.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 1, -1))
    return next((name for name in names if name in MODULE_NAMES), None)


def test_no_package_has_a_cycle_inside() -> None:
    graph = {
        module.name: {
            target
            for door in module.doors()
            if (target := _imported_module(door)) is not None and target != module.name
        }
        for module in MODULES
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"a cycle of imports: {' → '.join(error.args[1])}") from None


def test_costs_and_checks_never_see_the_layout_as_written() -> None:
    layout = "kvdsl.spec.layout"
    named_by_spec = {
        door.target.removeprefix(layout + ".")
        for module in MODULES
        if module.name == "kvdsl.spec"
        for door in module.doors()
        if door.target.startswith(layout + ".")
    }
    barred = {f"kvdsl.spec.{name}" for name in named_by_spec}
    wrong = [
        f"{module.name}:{door.line} imports {door.target}"
        for module in MODULES
        if module.room in {"costs", "checks"}
        for door in module.doors()
        if door.target in barred or f"{door.target}.".startswith(f"{layout}.")
    ]
    assert wrong == []


def test_renderers_read_a_plan_and_nothing_behind_it() -> None:
    wrong = [
        f"{module.name}:{door.line} imports {door.target}"
        for module in MODULES
        if module.room == "render"
        for door in module.doors()
        if (room := _goes_to(door)) is not None and room not in RENDERERS_SEE
    ]
    assert wrong == []


def test_each_library_is_imported_by_its_own_package_alone() -> None:
    wrong = [
        f"{module.name}:{door.line} imports {door.target}"
        for module in MODULES
        for door in module.doors()
        if module.room not in HOME.get(_library(door), {module.room})
    ]
    assert wrong == []


def loads_heavy(module: Module) -> list[str]:
    return [
        f"{module.name}:{door.line} loads {door.target}"
        for door in module.doors()
        if door.at_load and _library(door) in HEAVY
    ]


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    assert [door for module in MODULES for door in loads_heavy(module)] == []


def test_a_heavy_import_is_seen_at_the_top_in_a_class_and_in_a_branch() -> None:
    for text in (
        "import numpy as np",
        "class A:\n    from rich.table import Table",
        "try:\n    import lark\nexcept ImportError:\n    pass",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import jinja2",
    ):
        assert loads_heavy(Module("kvdsl.units", text)), text
    for text in (
        "def f():\n    import numpy",
        "if TYPE_CHECKING:\n    import networkx",
        "if typing.TYPE_CHECKING:\n    import networkx",
    ):
        assert loads_heavy(Module("kvdsl.units", text)) == [], text


def test_the_version_is_told_without_loading_anything_heavy() -> None:
    entry = (
        ["-m", "kvdsl", "--version"] if "kvdsl.__main__" in MODULE_NAMES else ["-c", "import kvdsl"]
    )
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *entry],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    loaded = {
        line.split("|")[-1].strip().split(".")[0]
        for line in run.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "kvdsl" in loaded
    assert loaded & (HEAVY | {"pydantic"}) == set()
    if "-m" in entry:
        assert kvdsl.__version__ in run.stdout


def test_the_version_is_written_the_same_in_code_and_packaging() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert kvdsl.__version__ == project["version"]


def _files() -> list[Path]:
    """Everything that is or would be committed; without git, everything that is not hidden."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    run = subprocess.run(git, cwd=ROOT, capture_output=True, check=False)
    if run.returncode == 0:
        names = (Path(name) for name in run.stdout.decode().split("\0") if name)
    else:
        names = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        names = (p for p in names if not any(part.startswith(".") for part in p.parts))
    return sorted(name for name in names if (ROOT / name).is_file())


def test_no_module_is_too_long_to_hold_in_the_head() -> None:
    sizes = {
        path: len((ROOT / path).read_text(encoding="utf-8").splitlines())
        for path in _files()
        if path.suffix == ".py"
    }
    assert {str(path): size for path, size in sizes.items() if size > MODULE_LINES} == {}


def _statement_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring: a rule's documentation is its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def test_no_function_is_longer_than_a_screen() -> None:
    wrong = [
        f"{module.name}:{node.lineno} {node.name} has {lines} lines"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := _statement_lines(node)) > FUNCTION_LINES
    ]
    assert wrong == []


def test_every_module_says_what_it_is() -> None:
    assert [m.name for m in MODULES if m.source.strip() and not ast.get_docstring(m.tree)] == []


def test_files_are_named_for_what_they_hold() -> None:
    code = [path for path in _files() if path.suffix == ".py"]
    assert [str(p) for p in code if EMPTY_NAMES & {part.split(".")[0] for part in p.parts}] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    places = "|".join(("work", "root", "tmp(?=/)"))
    machine_path = re.compile(rf"(?<![\w.~}}$/-])/(?:{places})(?![\w-])")
    wrong = []
    for path in _files():
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            wrong += [f"{path}:{number}: {line.strip()}"] if machine_path.search(line) else []
    assert wrong == []
