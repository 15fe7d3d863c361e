"""The one rule: atoms over axes.

A dimension of a tensor has atoms, the smallest pieces that can be placed apart. Over an axis of
size `a`, `n` atoms give each rank `max(1, n / a)` atoms and each atom `max(1, a / n)` copies. An
axis that no dimension of a tensor uses multiplies its copies. KV heads that are replicated past
TP, the latent on every rank, DP attention's copies and context parallelism all follow from this.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Cut:
    """One dimension over one axis. `atoms` None means that it divides exactly, however wide."""

    dimension: str
    atoms: int | None
    axis: str
    size: int

    @property
    def held(self) -> Fraction:
        """The part of the dimension that each rank holds."""
        return Fraction(1, self.parts)

    @property
    def parts(self) -> int:
        """How many such parts make the dimension."""
        return self.size if self.atoms is None or self.atoms >= self.size else self.atoms

    @property
    def copies(self) -> Fraction:
        """How many ranks of the axis hold each atom."""
        return self.held * self.size

    @property
    def even(self) -> bool:
        """Whether atoms divide the axis or the axis divides the atoms."""
        n, a = self.atoms, self.size
        return n is None or n % a == 0 or a % n == 0

    def atoms_of(self, coordinate: int) -> tuple[Fraction, Fraction]:
        """The run of the dimension (as parts of 1) that the rank at `coordinate` holds."""
        n, a = self.atoms, self.size
        if n is None or n >= a:
            return Fraction(coordinate, a), Fraction(coordinate + 1, a)
        atom = coordinate * n // a
        return Fraction(atom, n), Fraction(atom + 1, n)
