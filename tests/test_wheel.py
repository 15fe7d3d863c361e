"""What a user installs: a wheel that works far from this checkout, all that it reads inside."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("grammar", "templates", "specs/catalog")

SPEC = """\
kvspec 1

deployment prod {
  model   = models.llama_3_1_405b
  weights = formats.fp8
  kv      = formats.bf16
  on      = 1 x nodes.hgx_h100
  layout { tp = 8 }
  workload { prompt = 4 ktok; output = 1 ktok; concurrency = 16 req }
}
"""


def run(*command: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.args}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, and the wheel built from it alone."""
    folder = tmp_path_factory.mktemp("dist")
    build = ("-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    run(sys.executable, *build, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds kvdsl and nothing else; its libraries come from this environment."""
    folder = tmp_path_factory.mktemp("site")
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder)
    run(sys.executable, *install, wheel, cwd=folder, PIP_DISABLE_PIP_VERSION_CHECK="1")
    return folder


def test_the_wheel_carries_grammar_templates_and_catalog(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"kvdsl/_data/{path.relative_to(ROOT).as_posix()}"
        for folder in SHIPPED
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }
    assert "kvdsl/_data/templates/fonts/inter-regular.woff2" in wanted
    assert wanted - inside == set()
    assert "kvdsl/py.typed" in inside


def test_the_wheel_carries_nothing_but_the_package(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"kvdsl", "kvdsl-0.1.0.dist-info"}


def test_the_source_archive_holds_what_it_takes_to_build_and_test(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    wanted = {
        *(".ci/run", "LICENSE", "Makefile", "README.md", "pyproject.toml", "tests/test_wheel.py"),
        *(path.relative_to(ROOT).as_posix() for path in ROOT.glob("specs/**/*.kvspec")),
    }
    assert wanted - inside == set()


def test_an_installed_kvdsl_checks_a_spec_in_an_empty_folder(site: Path, tmp_path: Path) -> None:
    (tmp_path / "prod.kvspec").write_text(SPEC, encoding="utf-8")
    where = "import kvdsl.cli; print(kvdsl.cli.__file__)"
    loaded = run(sys.executable, "-c", where, cwd=tmp_path, PYTHONPATH=str(site)).stdout
    assert Path(loaded.strip()).is_relative_to(site)

    kvdsl = site / "bin" / "kvdsl"
    done = run(kvdsl, "check", "prod.kvspec", cwd=tmp_path, PYTHONPATH=str(site))
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["prod.kvspec"]
