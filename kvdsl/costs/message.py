"""What is asked of a library: a collective, its payload, and how many copies of a token it sends.

Comes in: a payload's terms. Goes out: a `Message`, also in the format that an algorithm sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from kvdsl.arithmetic import raised, real
from kvdsl.formulas import Term, formula
from kvdsl.spec.library import Algorithm, Library
from kvdsl.units import BYTES


def _of_format(label: str, size: Any, source: str | None) -> Term:
    return Term(label, Fraction(size or 0), BYTES, basis="catalog", source=source)


@formula("tokens x (width x bytes of a value + ceil(width / block) x bytes of a scale)", BYTES)
def token_bytes(tokens: Any, width: int, value: Any, block: int, scale: Any) -> Any:
    return real(tokens) * (width * real(value) + raised(width, block) * real(scale))


@dataclass(frozen=True, slots=True)
class Message:
    """What is asked: a collective and its payload as NCCL's tests count it. For dispatch and
    combine `size` is one copy of a rank's tokens, `copies` the experts that each visits, and
    `groups` the most nodes that the router lets it reach (0: any)."""

    kind: str
    size: Term
    copies: int = 1
    groups: int = 0
    backend: str | None = None
    tokens: Term | None = None
    width: int = 0
    sms: int = 0
    phase: str = "decode"

    def under(self, algorithm: Algorithm, library: Library) -> Message:
        """The same with tokens in the algorithm's own format, where it has one."""
        form = algorithm.payload
        if form is None or self.tokens is None:
            return self
        source = form.source or library.source
        return replace(
            self,
            size=token_bytes.derive(
                "bytes of a rank's tokens",
                tokens=self.tokens,
                width=Term("values a token", self.width, basis="definition", note="exchanged"),
                value=_of_format(f"a value in {form.title}", form.bits, source),
                block=Term("values a scale", form.block[-1] if form.block else self.width,
                           basis="catalog", source=source),
                scale=_of_format("a scale", form.scale, source),
            ),
        )  # fmt: skip

    def ground(self, algorithm: Algorithm) -> Term:
        """What the size of `under` stands on."""
        tokens = self.tokens if algorithm.payload is not None else None
        return self.size if tokens is None else tokens

    def bytes_under(self, algorithm: Algorithm) -> Any:
        """The value of the size of `under`."""
        form = algorithm.payload
        if form is None or self.tokens is None:
            return self.size.value
        return token_bytes(
            tokens=self.tokens.value,
            width=self.width,
            value=Fraction(form.bits or 0),
            block=form.block[-1] if form.block else self.width,
            scale=Fraction(form.scale or 0),
        )
