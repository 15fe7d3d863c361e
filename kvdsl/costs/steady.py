"""The steady state: steps of decode and of prefill on the same ranks, under a load.

Comes in: a placement, its inventories, an engine's constants and a load: numbers, or numpy arrays
over many loads, lengths too. Goes out: the time of a token and to the first token with their parts,
and the throughput. In aggregated serving each rank prefills others' prompts between its decode
steps, and a token waits for its share of that. Lengths are means; clients are closed loops, or
arrivals a Poisson stream where a rate is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import greater, raised, rate, real, smaller
from kvdsl.costs.draft import Drafting
from kvdsl.costs.load import Load
from kvdsl.costs.origins import fixed
from kvdsl.costs.pace import Constants
from kvdsl.costs.setting import Passed, Setting
from kvdsl.costs.step import StagePace, paced
from kvdsl.formulas import Term, formula, greatest, total
from kvdsl.units import REQUESTS, TIME, TOKEN_RATE, TOKENS


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of a request, means: `new` prompt tokens to compute, `found` ones in a cache, `output`.
    Without an output there is no steady state of both, and nobody waits for prompts."""

    new: Term
    found: Term
    output: Term


@dataclass(frozen=True, slots=True)
class Steady:
    """`step` and `chunk` are the passes by stage; `through` is the way through all stages,
    `verified` that with waiting for the slowest, `stepped` that with drafting. `chunk` of `tokens`
    on a DP rank is None where nobody prefills."""

    step: tuple[StagePace, ...]
    chunk: tuple[StagePace, ...] | None
    tokens: Term | None
    through: Term
    verified: Term
    stepped: Term
    prompts: Term
    tpot: Term
    throughput: Term


@formula("requests a DP rank x tokens a request", TOKENS)
def step_tokens(requests: float, each: float) -> float:
    return real(requests) * real(each)


@formula(
    "requests in flight / replicas, rounded up, / DP ranks",
    REQUESTS,
    "prompts are dealt over ranks as they come",
)
def replica_share(in_flight: float, replicas: int, ranks: int) -> float:
    return real(raised(in_flight, replicas)) / real(ranks)


@formula(
    "the least of step limit and the greatest of prompt / DP ranks and requests x prompt / output",
    TOKENS,
    "a prompt is prefilled alone or with others, in chunks where it is longer than a step",
)
def chunk_tokens(limit: float, ranks: int, new: float, requests: float, output: float) -> float:
    arriving = real(requests) * real(new) / real(output)
    return smaller(real(limit), greater(real(new) / real(ranks), arriving))


@formula("tokens x a request / prompt, at least 1", TOKENS, "the last of each prompt is scored")
def prompt_ends(tokens: float, new: float) -> float:
    return greater(real(tokens) / real(new), 1.0)


@formula("found + new / 2", TOKENS, "the mean over a prompt's tokens")
def keys_met(found: float, new: float) -> float:
    return real(found) + real(new) / 2


@formula(
    "requests in flight - own / DP ranks",
    REQUESTS,
    "a client meets the others: Lavenberg, Reiser, J. Appl. Prob. 17(4), 1980; what arrives by "
    "chance meets all: Wolff, Op. Res. 30(2), 1982",
)
def others(in_flight: float, own: int, ranks: int) -> float:
    return greater(real(in_flight) - real(own) / real(ranks), 0.0)


@formula(
    "share waited for x others x prompt / output / tokens of a chunk x time of a chunk",
    TIME,
    "a device computes prompts or makes tokens; an engine's share is fitted, an ideal one is all",
)
def prompts_share(
    waited: float, others: float, new: float, output: float, tokens: float, chunk: float
) -> float:
    return real(waited) * real(others) * real(new) / real(output) / real(tokens) * real(chunk)


@formula(
    "the longer of all stages once and the slowest as often as there are micro-batches",
    TIME,
    "a stage that is slower than the others sets the round's time: Huang et al., arXiv 1811.06965",
)
def pipelined(through: float, slowest: float, micro_batches: int) -> float:
    return greater(real(through), real(micro_batches) * real(slowest))


@formula("time of a step / tokens that it yields + prompts of others", TIME)
def token_time(step: float, yielded: float, prompts: float) -> float:
    return real(step) / real(yielded) + real(prompts)


@formula("time of a token + time to the first token / output", TIME,
         "a client's request keeps its place through both")  # fmt: skip
def token_turn(tpot: float, held: float, output: float) -> float:
    return real(tpot) + real(held) / real(output)


@formula("requests in flight / time of a token", TOKEN_RATE, "Little's law on tokens")
def token_throughput(requests: float, tpot: float) -> float:
    return rate(requests, tpot)


def steady(
    setting: Setting,
    constants: Constants,
    load: Load,
    lengths: Lengths,
    drafting: Drafting,
    *,
    closed: bool = True,
) -> Steady:
    """The steady state of a load; not `closed` where requests arrive at a rate."""
    passed = _decoding(load, drafting, undisturbed=setting.role == "decode")
    step = paced(setting, constants, passed)
    through = total("all stages", [stage.time for stage in step])
    verified = through
    if len(step) > 1:
        verified = pipelined.derive(
            "time of a step",
            through=through,
            slowest=greatest("slowest stage", [stage.time for stage in step]),
            micro_batches=load.micro_batches,
        )
    stepped = drafting.step(verified)
    prompts, chunk, tokens = _no_prompts(), None, None
    if setting.role == "both" and positive(lengths.output):
        tokens = chunk_of(setting, constants, load, lengths)
        chunk, prompts = _prompts(setting, constants, load, lengths, tokens, closed=closed)
    tpot = token_time.derive(
        "time of a token", step=stepped, yielded=drafting.yielded, prompts=prompts
    )
    flow = token_throughput.derive("decode throughput", requests=load.served, tpot=tpot)
    return Steady(step, chunk, tokens, through, verified, stepped, prompts, tpot, flow)


def positive(term: Term) -> bool:
    least = smaller(term.value, float("inf"))
    return bool(least > 0) if isinstance(least, int | Fraction | float) else bool(least.min() > 0)


CLIENT = fixed("own prompts", 1, "a client waits for its answer", REQUESTS)
ARRIVING = fixed("own prompts", 0, "requests arrive at a rate, whatever is in flight", REQUESTS)


def _no_prompts() -> Term:
    return fixed("prompts of others", 0.0, "nobody prefills here", TIME)


def _decoding(load: Load, drafting: Drafting, *, undisturbed: bool) -> Passed:
    tokens = step_tokens.derive("tokens of a DP rank", requests=load.batch, each=drafting.verified)
    return Passed("decode step", tokens, tokens, load.batch, load.context, load.context,
                  undisturbed=undisturbed)  # fmt: skip


def prefilling(tokens: Term, lengths: Lengths, requests: Term, what: str) -> Passed:
    """A prefill of so many tokens on each DP rank."""
    return Passed(
        what,
        tokens,
        prompt_ends.derive("tokens that the head scores", tokens=tokens, new=lengths.new),
        requests,
        lengths.found,
        keys_met.derive("keys that a token meets", found=lengths.found, new=lengths.new),
        prefill=True,
    )


def chunk_of(setting: Setting, constants: Constants, load: Load, lengths: Lengths) -> Term:
    """Prompt tokens of a DP rank in one step."""
    return chunk_tokens.derive(
        "prompt tokens of a DP rank in a step",
        limit=constants.chunk,
        ranks=setting.ranks,
        new=lengths.new,
        requests=_shared_out(setting, load),
        output=lengths.output,
    )


def _shared_out(setting: Setting, load: Load) -> Term:
    return replica_share.derive(
        "requests in flight for each DP rank",
        in_flight=load.served,
        replicas=setting.replicas,
        ranks=setting.ranks,
    )


def _prompts(
    setting: Setting,
    constants: Constants,
    load: Load,
    lengths: Lengths,
    tokens: Term,
    *,
    closed: bool,
) -> tuple[tuple[StagePace, ...], Term]:
    """A chunk of others' prompts, and what a token waits for it."""
    one = fixed("requests", 1, "a prompt at a time", units.REQUESTS)
    chunk = paced(setting, constants, prefilling(tokens, lengths, one, "prefill chunk"))
    slowest = greatest("prefill chunk", [stage.time for stage in chunk])
    share = prompts_share.derive(
        "prompts of others",
        waited=constants.prompts,
        others=others.derive(
            "others on a DP rank",
            in_flight=_shared_out(setting, load),
            own=CLIENT if closed else ARRIVING,
            ranks=setting.ranks,
        ),
        new=lengths.new,
        output=lengths.output,
        tokens=tokens,
        chunk=slowest,
    )
    return chunk, share


@formula("time / (1 + band)", TIME, "measurements of the fit")
def low_end(time: float, band: float) -> float:
    return real(time) / (1 + real(band))


@formula("time x (1 + band)", TIME, "measurements of the fit")
def high_end(time: float, band: float) -> float:
    return real(time) * (1 + real(band))
