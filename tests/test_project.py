"""Files of a project: what can be read, what an import reaches, and asking for what is declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdsl.project.loader import load, load_text
from kvdsl.resolve.resolver import Resolver
from tests.plain import plain

BASE = """\
kvspec 1
layout tp8 { tp = 8 }
deployment base {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   = tp8
  workload { context = 8 ktok; concurrency = 16 req }
}
"""


# --- asking ------------------------------------------------------------------------------------


def test_declarations_answer_by_name_through_imports_and_the_catalog() -> None:
    resolver = Resolver(load_text(BASE))
    assert resolver.declared("deployment") == ("base",)
    assert resolver.kind_of("tp8") == "layout"
    assert resolver.kind_of("devices.h100_sxm") == "device"
    assert resolver.kind_of("nothing.here") is None
    spec, problems = resolver.declaration("devices.h100_sxm")
    assert spec is not None
    assert (spec.catalog, problems) == ("devices.h100_sxm", ())


def test_an_unknown_deployment_is_told_with_the_nearest() -> None:
    deployment, problems = Resolver(load_text(BASE)).deployment("bse")
    assert deployment is None
    assert "did you mean `base`" in plain(problems)


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfek\x00", "UTF-16"),
        (b"kvspec 1\n\xff", "byte 0xff in line 2"),
        (b"kvspec 1\n\0", "NUL"),
        (b"#" * 1_000_001, "1,000,000"),
    ],
)
def test_a_file_that_is_no_text_is_a_diagnostic(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "odd.kvspec"
    path.write_bytes(data)
    (problem,) = Resolver(load(str(path))).check()
    assert problem.code == "KV020"
    assert words in problem.headline


def test_a_folder_and_a_missing_file_are_diagnostics(tmp_path: Path) -> None:
    (tmp_path / "plan.kvspec").write_text("kvspec 1\n", encoding="utf-8")
    for path, words in ((tmp_path, "folder"), (tmp_path / "plam.kvspec", "`plan.kvspec`")):
        (problem,) = Resolver(load(str(path))).check()
        assert words in plain([problem])


def test_newlines_of_another_system_and_a_byte_order_mark_mean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plan.kvspec"
    path.write_bytes(b"\xef\xbb\xbfkvspec 1\r\nlayout a { tp = 8 }\r\n")
    resolver = Resolver(load(str(path)))
    assert resolver.check() == ()
    assert resolver.declared("layout") == ("a",)


def test_a_file_imported_twice_is_read_once_and_shown_as_the_user_would_write_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (tmp_path / "h-20.kvspec").write_text("kvspec 1\nlet n = 8\n", encoding="utf-8")
    second = 'kvspec 1\nimport "../h-20.kvspec" as h20\nlet m = h20.n\n'
    (folder / "second.kvspec").write_text(second, encoding="utf-8")
    main = 'kvspec 1\nimport "a/second.kvspec"\nimport "h-20.kvspec" as h20\nlet p = h20.n\n'
    (tmp_path / "main.kvspec").write_text(main, encoding="utf-8")
    project = load(str(tmp_path / "main.kvspec"))
    assert Resolver(project).check() == ()
    names = [Path(file.source.name).relative_to(tmp_path).as_posix() for file in project.files]
    assert names == ["h-20.kvspec", "a/second.kvspec", "main.kvspec"]


def test_the_catalog_is_read_one_file_at_a_time() -> None:
    project = load_text("kvspec 1\nlet m = devices.h100_sxm.memory\n")
    assert Resolver(project).check() == ()
    # A device names its links, and nothing else is read.
    assert [file.source.name for file in project.catalog.loaded] == [
        "catalog/devices/h100_sxm.kvspec",
        "catalog/links/nvlink4.kvspec",
        "catalog/links/pcie_5_x16.kvspec",
    ]
