"""Closed loops: clients who ask again once they are answered, and what they wait for.

Comes in: a load, or a pool that prefills for others. Goes out: the wait for a place in a full
cache, and the time to the first token of clients whose requests decode in another pool.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvdsl.arithmetic import greater, real
from kvdsl.costs.first_token import Arrival, crowded, first, prefilled, waited_place
from kvdsl.costs.fitted import Serving, banded, lengths_of, serving, share_of
from kvdsl.costs.load import Load
from kvdsl.costs.memory import Ledger
from kvdsl.costs.origins import fixed
from kvdsl.costs.pace import Constants, constants
from kvdsl.costs.steady import Lengths, positive
from kvdsl.formulas import Term, formula, greatest, total
from kvdsl.placement.placement import Placement
from kvdsl.units import TIME


@formula(
    "clients x time of a prompt / replicas - output x time of a token - time to the first token",
    TIME,
    "a closed loop cannot turn faster than its slowest part: Denning and Buzen, 1978",
)
def loop_wait(
    clients: float, one: float, replicas: int, output: float, tpot: float, ttft: float
) -> float:
    turn = real(output) * real(tpot) + real(ttft)
    return greater(real(clients) * real(one) / real(replicas) - turn, 0.0)


def place(
    carried: Load, output: Term, tpot: Term, pace: Constants | None, *, always: bool = True
) -> Term | None:
    """What clients wait for a place in a cache that they overfill; `pace` None: in full, as closed
    loops that never end do. Without `always` None where all fit."""
    if not always and not (carried.overfull and positive(output)):
        return None
    full = pace.full if pace else fixed("share waited for", 1, "closed loops of clients: all of it")
    return waited_place(carried.asked, carried.served, output, tpot, full)


def beside(
    made: Serving, lengths: Lengths, clients: Term, tpot: Term, places: Sequence[Term]
) -> Term:
    """The time to the first token of a pool that prefills for others: clients in closed loops,
    each with one request in either pool; `places` are the waits for a place there."""
    each = share_of.derive("requests in flight in a replica", whole=clients,
                           parts=made.setting.replicas)  # fmt: skip
    own = prefilled(made.setting, made.constants, lengths)
    met = Arrival(tpot, tpot, each, clients, clients)
    token = first(made.constants, lengths, own, met).ttft
    if places:
        place = greatest("wait for a place in the decode pool", places)
        token = total("time to the first token", [token, place])
    wait = loop_wait.derive(
        "wait for the prefill pool",
        clients=clients,
        one=crowded(made.setting, made.constants, lengths),
        replicas=made.setting.replicas,
        output=lengths.output,
        tpot=tpot,
        ttft=token,
    )
    return total("time to the first token", [token, wait])


def handed_on(
    placement: Placement,
    books: tuple[Ledger, ...],
    clients: Term,
    tpot: Term,
    places: Sequence[Term],
) -> dict[str, Term]:
    """The same for a pool of a plan, with its band; nothing where its times are ideal or requests
    have no output."""
    pace = constants(placement.subject)
    lengths = lengths_of(placement.subject)
    if pace is None or not positive(lengths.output):
        return {}
    ttft = beside(serving(placement, books, pace), lengths, clients, tpot, places)
    return {"prefill.ttft": ttft, **banded("prefill.ttft", ttft, pace.ttft)}
