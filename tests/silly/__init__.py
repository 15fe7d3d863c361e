"""Plans that nobody would ask for, by what is silly about them."""

from tests.silly.asked import BUDGETS, LAYOUTS, SEVERAL, WORKLOADS
from tests.silly.case import Case
from tests.silly.things import ATTENTION, HARDWARE, SIZES

__all__ = ["CASES", "Case"]

CASES: dict[str, Case] = {
    **SIZES, **ATTENTION, **HARDWARE, **LAYOUTS, **WORKLOADS, **BUDGETS, **SEVERAL,
}  # fmt: skip
