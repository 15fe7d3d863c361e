"""The scratch repository that tests of reviews start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.review.repository import HARDWARE, OTHER, PROD
from tests.scratch import Scratch


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    made = Scratch(tmp_path / "plans", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made.write({"shared/hardware.kvspec": HARDWARE, "prod.kvspec": PROD, "small.kvspec": OTHER})
    made.kvdsl("lock")
    made.commit("base")
    return made
