"""The JSON form of a difference.

Comes in: a difference. Goes out: plain objects in a fixed order of keys, with exact values.
"""

from __future__ import annotations

from kvdsl.difference import (
    FORMAT,
    DeploymentChange,
    Difference,
    FigureChange,
    Flip,
    Mover,
    SpecChange,
    Trouble,
    ValueChange,
)
from kvdsl.plan import Finding, Verdict
from kvdsl.render.machine import Json, diagnostic, maybe, quantity


def difference_form(difference: Difference) -> Json:
    """What `diff --output json` writes."""
    return {
        "format": FORMAT,
        "before": difference.before,
        "after": difference.after,
        "changed": not difference.empty,
        "unchanged": difference.unchanged,
        "regressions": [
            {"sort": each.sort, "subject": each.subject, "text": each.text}
            for each in difference.regressions
        ],
        "deployments": [_deployment(each) for each in difference.deployments],
        "catalog": [_figure(each) for each in difference.figures],
        "troubles": [_trouble(each) for each in difference.troubles],
    }


def _deployment(change: DeploymentChange) -> Json:
    return {
        "name": change.name,
        "kind": change.kind,
        "file": change.file,
        "state": change.state,
        "was": change.was or None,
        "was_file": change.was_file or None,
        "verdict_before": _verdict(change.verdict_before),
        "verdict_after": _verdict(change.verdict_after),
        "spec": [_spec(each) for each in change.spec],
        "values": [_value(each) for each in change.values],
        "requirements": [_flip(each) for each in change.flips],
        "findings": {
            state: [_finding(each) for each in change.found(state)]
            for state in ("new", "gone", "still", "waived")
        },
        "below_threshold": change.small,
        "compiler": change.compiler,
    }


def _verdict(verdict: Verdict | None) -> Json | None:
    return None if verdict is None else {"mood": verdict.mood, "sentence": verdict.sentence}


def _spec(change: SpecChange) -> Json:
    return {
        "sign": change.sign,
        "path": change.path,
        "before": change.before or None,
        "after": change.after or None,
    }


def _value(change: ValueChange) -> Json:
    return {
        "name": change.name,
        "label": change.label,
        "before": maybe(change.before),
        "after": maybe(change.after),
        "by": maybe(change.by),
        "ratio": change.ratio,
        "worth": change.worth,
        "between": maybe(change.between),
        "movers": [_mover(each) for each in change.movers],
    }


def _mover(mover: Mover) -> Json:
    return {
        "label": mover.label,
        "was": mover.was or None,
        "before": quantity(mover.before),
        "after": quantity(mover.after),
    }


def _flip(flip: Flip) -> Json:
    return {
        "keyword": flip.keyword,
        "text": flip.text,
        "label": flip.label or None,
        "because": flip.because or None,
        "before": flip.before,
        "after": flip.after,
        "value_before": maybe(flip.value_before),
        "value_after": maybe(flip.value_after),
        "bound": maybe(flip.bound),
        "place": flip.place,
        "broken": flip.broken,
        "waived": flip.waived or None,
    }


def _finding(finding: Finding) -> Json:
    return {"name": finding.name, **diagnostic(finding.diagnostic)}


def _figure(change: FigureChange) -> Json:
    return {
        "sign": change.sign,
        "entry": change.entry,
        "path": change.path,
        "before": change.before or None,
        "after": change.after or None,
        "source": change.source or None,
        "deployments": list(change.deployments),
        "replayed": change.replayed,
    }


def _trouble(trouble: Trouble) -> Json:
    return {
        "file": trouble.file,
        "side": trouble.side,
        "fault": trouble.fault,
        "count": trouble.count,
        "place": trouble.place or None,
    }
