"""Rules on layouts that an engine version does not run: what its axes may cut, and beside what.

Each finding names the policy of the engine that it comes from, with the policy's source. Without an
engine nothing is refused: every module divides exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvdsl.checks.splits import splits, widths
from kvdsl.checks.study import CACHE_VALUES, Fact, Study, Suggestion
from kvdsl.diagnostics import Label, Severity
from kvdsl.placement.degrees import Degrees, ExpertAxes
from kvdsl.placement.subject import Subject
from kvdsl.rules import Rule, rule
from kvdsl.spec.engine import Engine
from kvdsl.spec.model import (
    Gated,
    Gqa,
    Mla,
    Moe,
    Plain,
    Softmax,
)
from kvdsl.units import Quantity


def policy(engine: Engine, attribute: str) -> dict[str, str]:
    """The engine, its policy as written, and the policy's source."""
    origin = engine.origin(attribute)
    source = (origin.source if origin else None) or engine.source or "as declared"
    value = dict(engine)[attribute]
    said = str(value).lower() if isinstance(value, bool) else str(value)
    return {"engine": engine.title, "policy": f"{attribute} = {said}", "source": source}


def policy_label(engine: Engine, attribute: str) -> tuple[Label, ...]:
    """The place where a policy is written."""
    origin = engine.origin(attribute)
    return (Label(origin.span, "the engine's policy"),) if origin is not None else ()


POLICY_NOTE = "policy `{policy}` of {engine}: {source}"


def softmax(subject: Subject) -> list[tuple[str, Softmax]]:
    """Attention parts of the stack whose cache grows."""
    model = subject.model
    used = {name for _, layer in model.sequence() for name in layer.parts}
    return [(n, p) for n, p in model.parts.items() if n in used and isinstance(p, Gqa | Mla)]


# --- context parallelism ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """A policy that a layout runs into, and what is wrong in words."""

    policy: str
    fault: str
    fix: str


def cp_refusals(subject: Subject, engine: Engine) -> Iterator[Refused]:
    """What an engine has against the cp of a layout."""
    a = subject.degrees.attention
    if a.cp == 1:
        return
    parts = softmax(subject)
    if engine.cp_of == "none":
        yield Refused("cp_of", "it has no context parallelism of the cache", "leave `cp` out")
        return
    plain = [(n, p) for n, p in parts if isinstance(p, Gqa)]
    if plain and engine.cp_of == "latent":
        name, _ = plain[0]
        yield Refused("cp_of", f"it cuts the sequence of a latent alone, and `{name}` has KV heads",
                      "cut the heads (`tp`) instead")  # fmt: skip
        return
    for name, part in plain if engine.cp_of == "copies" else ():
        if a.tp < part.kv_heads:
            most = max(1, a.tp * a.cp // part.kv_heads)
            yield Refused(
                "cp_of",
                f"the {a.tp * a.cp} ranks of a request share {part.kv_heads} KV heads of `{name}`, "
                f"so that cp may be {most} at the most, and it is {a.cp}",
                f"attention {{ tp = {a.tp * a.cp // most}; cp = {most} }}" if most > 1
                else f"attention {{ tp = {a.tp * a.cp} }}",
            )  # fmt: skip
            return
        if (part.query_heads // part.kv_heads) % a.cp:
            yield Refused(
                "cp_of",
                f"the {part.query_heads // part.kv_heads} query heads of a KV head of `{name}` do "
                f"not divide by cp = {a.cp}",
                "a cp that divides them",
            )
            return
    if not engine.cp_windows and _bounded(subject):
        yield Refused("cp_windows", "it does not cut windows or states by sequence",
                      "leave `cp` out")  # fmt: skip
    elif not engine.cp_stages and subject.degrees.pp > 1:
        yield Refused("cp_stages", "it does not cut by sequence and by stages at once",
                      "leave out `cp` or `pp`")  # fmt: skip


def _bounded(subject: Subject) -> bool:
    """Whether a part of the stack keeps a window or a state."""
    model = subject.model
    used = {name for _, layer in model.sequence() for name in layer.parts}
    for name in used:
        part = model.parts[name]
        if isinstance(part, Gqa | Mla):
            if part.window is not None or part.chunk is not None:
                return True
        elif not isinstance(part, Gated | Plain | Moe) and part.form != "shared":
            return True
    return False


@rule(
    "KV110",
    "cp-out-of-range",
    Severity.ERROR,
    "subject",
    "{engine} refuses cp = {cp}: {fault}",
    label="the sequence is cut {cp:ways}",
    notes=(POLICY_NOTE,),
    helps=("{fix}",),
)
def cp_out_of_range(study: Study) -> Iterator[Fact]:
    """Context parallelism stays in the range that the engine has.

    What it checks
        By the engine's policies `cp_of`, `cp_windows` and `cp_stages`: which caches cp may cut
        (heads that TP would copy anyway, a latent), whether windows and states may be among them,
        and whether it stands beside pipeline stages. Without an engine any cp goes.

    Why it matters
        The layout would hold, but this version of the engine does not start with it.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          engine   = engines.vllm_0_33
          on       = 1 x nodes.hgx_h200
          layout   { attention { tp = 4; cp = 2 } }
          budget   { reserve = 3 GB }
          limits   { context = 32 ktok }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        As many ranks as KV heads hold no copies that cp could spare.

        deployment better extends served { layout = { tp = 8 } }
    """
    engine = study.subject.engine
    if engine is None:
        return
    for found in cp_refusals(study.subject, engine):
        cp = study.subject.degrees.attention.cp
        yield Fact(
            study.subject.place("layout"),
            {**policy(engine, found.policy), "cp": cp, "fault": found.fault, "fix": found.fix},
            (("cp", Quantity(cp)),),
            labels=policy_label(engine, found.policy),
        )


# --- combinations -------------------------------------------------------------------------------


def combination_refusals(subject: Subject, engine: Engine) -> Iterator[Refused]:
    """Combinations of axes that an engine does not run."""
    e, a = subject.degrees.experts, subject.degrees.attention
    sparse = any(isinstance(p, Moe) for p in subject.model.parts.values())
    if sparse and engine.expert_grid == "one_axis":
        if e.ep > 1 and e.tp > 1:
            yield Refused("expert_grid", f"experts over ep = {e.ep} and tp = {e.tp} at once",
                          f"experts {{ ep = {e.ep * e.tp} }}")  # fmt: skip
        elif e.redundant and e.ep == 1:
            yield Refused("expert_grid", f"{e.redundant} redundant experts without `ep`",
                          f"experts {{ ep = {e.size}; redundant = {e.redundant} }}")  # fmt: skip
    if engine.attention_dp == "stage" and a.dp > 1 and a.dp < a.size:
        yield Refused("attention_dp", f"dp = {a.dp} over a part of the {a.size} ranks of a stage",
                      f"attention {{ dp = {a.size} }}")  # fmt: skip
    for name, part in softmax(subject) if engine.kv_copies == "refuse" else ():
        if isinstance(part, Gqa) and a.tp > part.kv_heads:
            yield Refused("kv_copies", f"TP={a.tp} past the {part.kv_heads} KV heads of `{name}`",
                          f"tp = {part.kv_heads}")  # fmt: skip
            return


def _mended(study: Study, found: Refused) -> Suggestion | None:
    """The layout without what is refused."""
    if found.policy == "kv_copies":
        return None if study.closed else splits(study, widths(study)).best
    other = study.under(_whole_grid(study.subject.degrees, found))
    if other is None or not other.fits:
        return None
    return Suggestion(found.fix, other.subject.degrees.text(), other, CACHE_VALUES)


def _whole_grid(degrees: Degrees, found: Refused) -> Degrees:
    """The layout with the combination taken apart."""
    if found.policy == "expert_grid":
        e = degrees.experts
        return replace(degrees, experts=ExpertAxes(ep=e.size, redundant=e.redundant), name="")
    a = degrees.attention
    return replace(degrees, attention=replace(a, dp=a.size, tp=1, cp=1, pcp=1), name="")


@rule(
    "KV222",
    "refused-combination",
    Severity.ERROR,
    "subject",
    "{engine} does not run {fault}",
    label="it would fit; this version refuses it",
    notes=(POLICY_NOTE,),
    helps=("write `{fix}`",),
)
def refused_combination(study: Study) -> Iterator[Fact]:
    """Axes stand together only as the engine has them.

    What it checks
        By the engine's policies: experts over `ep` or `tp`, or both (`expert_grid`), redundant
        experts without `ep`, attention's `dp` beside other axes (`attention_dp`), and TP past the
        KV heads (`kv_copies`).

    Why it matters
        The layout would fit, but this version of the engine has no flags for it.

    Example
        deployment served {
          model    = models.qwen3_30b_a3b
          weights  = formats.bf16
          kv       = formats.bf16
          engine   = engines.vllm_0_33
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4; experts { ep = 2; tp = 2 }; replicas = 2 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Experts over one axis.

        layout whole { tp = 4; experts { ep = 4 }; replicas = 2 }

        deployment better extends served { layout = whole }
    """
    engine = study.subject.engine
    if engine is None:
        return
    for found in combination_refusals(study.subject, engine):
        made = _mended(study, found)
        yield Fact(
            study.subject.place("layout"),
            {**policy(engine, found.policy), "fault": found.fault, "fix": found.fix},
            (),
            made,
            policy_label(engine, found.policy),
        )


# --- a cache handed over ------------------------------------------------------------------------


def transfer_fact(sender: Subject, taker: Subject) -> Fact | None:
    """What the decoding engine has against taking the cache from the prefill pool's ranks."""
    engine = taker.engine
    if engine is None or engine.transfer_tp == "any":
        return None
    one, other = sender.degrees.attention, taker.degrees.attention
    from_tp, to_tp = one.tp * one.cp, other.tp * other.cp
    fault = ""
    if from_tp % to_tp and to_tp % from_tp:
        fault = "neither is a multiple of the other"
    for name, part in softmax(sender) if not fault else ():
        if isinstance(part, Gqa) and from_tp > max(to_tp, part.kv_heads):
            fault = f"the {part.kv_heads} KV heads of `{name}` are copied on the sending ranks"
            break
    if not fault:
        return None
    return Fact(
        taker.place("layout"),
        {**policy(engine, "transfer_tp"), "from_tp": from_tp, "to_tp": to_tp, "fault": fault},
        (("TP that sends", Quantity(from_tp)), ("TP that takes", Quantity(to_tp))),
        labels=policy_label(engine, "transfer_tp"),
    )


@rule(
    "KV224",
    "refused-transfer",
    Severity.ERROR,
    "plan",
    "{engine} does not hand a cache from TP={from_tp} to TP={to_tp}: {fault}",
    label="takes on {to_tp:ranks} what {from_tp} send",
    notes=(POLICY_NOTE,),
    helps=("give both pools the same TP, or the decoding one a multiple of the other's",),
)
def refused_transfer() -> Iterator[Fact]:
    """A cache goes between pools only where the engine can put its heads together.

    What it checks
        With `transfer_tp = multiple`: of the TP of a prefill and of a decode pool one is a multiple
        of the other, and a sender with copies of KV heads has no more ranks than the taker.

    Why it matters
        Each rank takes its heads from whole ranks of the other side. Other ratios stop at the
        first request, on a deployment that fits.

    Example
        deployment served {
          model    = many_heads
          weights  = formats.bf16
          kv       = formats.bf16
          engine   = engines.vllm_0_33
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 400 tok; rate = 1 req/s }
          pool prefill { on = hall.devices[0..7]; layout { tp = 8 } }
          pool decode  { on = hall.devices[8..13]; layout { tp = 6 } }
          transfer { over = links.infiniband_ndr }
        }
        cluster hall { nodes = 2 x nodes.hgx_h200; fabric = links.infiniband_ndr }
        model many_heads {
          hidden = 3072; vocab = 32_064
          attention a = gqa { query_heads = 24; kv_heads = 24; head_dim = 128 }
          ffn f = gated { intermediate = 9216 }
          stack { 28 x layer { a; f } }
        }

    Instead
        Equal TP, or a multiple on the side that decodes.

        deployment better extends served {
          pool decode { on = hall.devices[8..15]; layout = { tp = 8 } }
        }
    """
    yield from ()


RULES: tuple[Rule, ...] = (
    cp_out_of_range,
    refused_combination,
    refused_transfer,
)
