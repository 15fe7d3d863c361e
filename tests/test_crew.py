"""Many files checked by several workers: the same bytes as by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.many_files import repository
from kvdsl.cli import crew
from tests.scratch import Scratch

FORMS = ("concise", "json", "sarif")


@pytest.mark.parametrize("form", FORMS)
def test_workers_and_one_process_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    repository(tmp_path / "many", crew.WORTH_IT)
    scratch = Scratch(tmp_path / "many", monkeypatch)
    monkeypatch.setattr(crew, "_cores", lambda: 1)
    alone = scratch.kvdsl("check", "--output", form, ".")
    monkeypatch.setattr(crew, "_cores", lambda: 2)
    assert scratch.kvdsl("check", "--output", form, ".") == alone
    assert alone.code == 1
    assert crew._given == []


def test_the_catalog_is_resolved_once_for_all_files_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvdsl.resolve import declarations

    built: list[str] = []
    build = declarations.Declarations.build

    def counted(self: declarations.Declarations, kind: str, *rest: object) -> object:
        built.append(kind)
        return build(self, kind, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(declarations.Declarations, "build", counted)
    repository(tmp_path / "many", 41)
    scratch = Scratch(tmp_path / "many", monkeypatch)
    scratch.kvdsl("check", "--output", "concise", "area_000/team_0000.kvspec")
    once = built.count("library")
    assert once
    built.clear()
    alike = [f"area_{number // 10:03}/team_{number:04}.kvspec" for number in (0, 20, 40)]
    scratch.kvdsl("check", "--output", "concise", *alike)
    assert built.count("library") == once
