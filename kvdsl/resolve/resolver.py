"""The resolver: from a project's trees to typed specs.

Comes in: a project. Goes out: deployments and other declarations as frozen specs with the origin of
each value, and diagnostics. Not its job: whether a plan fits, or what it costs.

One fault gives one diagnostic: what could not be read is known by name, and whatever uses it fails
without a word.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvdsl.diagnostics import Diagnostic, Report
from kvdsl.project.loader import Project
from kvdsl.resolve.addressees import (
    addressee,
    for_deployment,
    misplaced,
    of_fleet,
    unreached,
    within,
)
from kvdsl.resolve.blocks import Raw
from kvdsl.resolve.changes import Change, changed
from kvdsl.resolve.declarations import Declarations, heading
from kvdsl.resolve.hardware import kinds_of
from kvdsl.resolve.libraries import own_library
from kvdsl.resolve.lookup import find
from kvdsl.resolve.names import Bound, Declared, Scope
from kvdsl.resolve.naming_messages import UnknownName, like
from kvdsl.resolve.sweep_values import faults_of
from kvdsl.resolve.values import Reference
from kvdsl.source import SourceFile
from kvdsl.spec.declaration import Declaration
from kvdsl.spec.deployment import Deployment, Fleet
from kvdsl.spec.hardware import Cluster, Device, Node, Rack
from kvdsl.spec.library import Library
from kvdsl.syntax.nodes import Assign, Block, Name, Path, Truth

__all__ = ["Change", "Resolver"]


class Resolver:
    """Answers for one project. Answers are kept, so a second deployment or a change is cheap."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._all = Declarations(project.catalog)
        self._main = self._all.names(project.main)
        self._deployments: tuple[str, ...] | None = None

    def declared(self, kind: str) -> tuple[str, ...]:
        """Names of the main file's declarations of a kind, in order."""
        return tuple(d.name for d in self._main.declared() if d.kind == kind)

    def concrete(self, kind: str) -> tuple[str, ...]:
        """The same without those that are only to be extended, and without broken ones."""
        return tuple(
            d.name
            for d in self._main.declared()
            if d.kind == kind and d.node is not None and not _abstract(d.node.body)
        )

    def catalog_names(self, plural: str) -> tuple[str, ...]:
        """`models.llama_3_1_8b` and all others of the catalog under a plural."""
        return tuple(f"{plural}.{name}" for name in self._all.catalog.names(plural))

    def kind_of(self, dotted: str) -> str | None:
        """`deployment` for a name of the file, an import or the catalog; None if there is none."""
        answer = self._all.collected(lambda: self._found(dotted))
        return answer.result.kind or None if answer.result else None

    def check(self) -> tuple[Diagnostic, ...]:
        """Resolves everything that the main file declares, also what nothing uses."""
        return self._with_files(self._all.collected(self._checked).found)

    def declaration(self, dotted: str) -> tuple[Declaration | None, tuple[Diagnostic, ...]]:
        """A declaration by its name in the file, an import or the catalog."""
        answer = self._all.collected(lambda: self._declaration(dotted))
        return answer.result, self._with_files(answer.found)

    def deployment(
        self, name: str, changes: Sequence[Change] = ()
    ) -> tuple[Deployment | None, tuple[Diagnostic, ...]]:
        """A deployment, with changes from outside in their order."""
        answer = self._all.collected(lambda: self._deployment(name, changes))
        return answer.result, self._with_files(answer.found)

    def heard(self, changes: Sequence[Change], *names: str) -> tuple[Change, ...]:
        """The changes without those that are for others of the file's deployments than these."""
        others = set(self._known()) - set(names) if changes else set()
        return tuple(change for change in changes if addressee(change) not in others)

    def fleet(
        self, name: str, changes: Sequence[Change] = ()
    ) -> tuple[Fleet | None, tuple[Diagnostic, ...]]:
        """A fleet with those of the changes from outside that are its own. Those for deployments
        are `member`'s, and one that reaches none of them is told."""
        answer = self._all.collected(lambda: self._fleet(name, changes))
        return answer.result, self._with_files(answer.found)

    def member(
        self, deployment: Deployment, changes: Sequence[Change]
    ) -> tuple[Deployment | None, tuple[Diagnostic, ...]]:
        """A deployment of a fleet with what of changes from outside reaches it, whatever file
        declares it."""
        every = (each for file in self._all.files for each in file.declared() if each.node)
        declared = next((each for each in every if heading(each) == deployment.at), None)
        if declared is None:
            return deployment, ()
        own = for_deployment(changes, declared.name)
        answer = self._all.collected(lambda: self._changed(declared, own))
        made = answer.result if isinstance(answer.result, Deployment) else None
        return made, self._with_files(self._all.of_parent(declared, answer.found))

    def own_libraries(self, hardware: Declaration) -> list[Library]:
        """What the makers of its devices give for collectives, each once."""
        if not isinstance(hardware, Device | Node | Rack | Cluster):
            return []
        found = [own_library(self._all, device) for device in kinds_of(hardware)]
        return list({each.name: each for each in found if each is not None}.values())

    def variant(
        self, name: str, changes: Sequence[Change]
    ) -> tuple[Deployment | None, tuple[Diagnostic, ...]]:
        """A point of a deployment's sweep: the deployment with these changes and no sweep, which
        would be read once for each of its own points."""
        declared = self._all.collected(lambda: self._found(name)).result
        if declared is None or declared.kind != "deployment":
            return None, ()
        answer = self._all.collected(lambda: self._varied(declared, changes))
        return answer.result if isinstance(answer.result, Deployment) else None, answer.found

    # --- the work behind each question ---------------------------------------------------------

    def _with_files(self, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """What was told, after what is wrong with the files themselves."""
        names = [d for file in self._all.files for d in file.diagnostics]
        return Report.of((*self._project.diagnostics, *names, *found)).diagnostics

    def _found(self, dotted: str) -> Declared | None:
        asked = SourceFile("<name>", dotted)
        names, start = [], 0
        for text in dotted.split("."):
            names.append(Name(text, asked.span(start, start + len(text))))
            start += len(text) + 1
        path = Path(tuple(names), (), asked.span(0, len(dotted)))
        found = find(self._all, path, self._main.scope)
        if found is None:
            return None
        named, rest = found
        if isinstance(named, Declared) and not rest:
            return named
        what = "declaration called" if isinstance(named, Bound) else "declaration"
        self._all.tell(UnknownName(path.span, what, dotted))
        return None

    def _declaration(self, dotted: str) -> Declaration | None:
        declared = self._found(dotted)
        if declared is None or declared.node is None:
            return None
        reference = Reference(declared.kind, declared.title, declared)
        return self._all.spec(reference, declared.span)

    def _deployment(self, name: str, changes: Sequence[Change]) -> Deployment | None:
        declared = self._found(name)
        if declared is None or declared.node is None:
            return None
        if declared.kind != "deployment":
            near = like(name, self.declared("deployment"))
            self._all.tell(UnknownName(declared.span, "deployment called", name, near))
            return None
        if changes:
            answer = self._all.collected(lambda: self._changed(declared, changes))
            self._all.found += self._all.of_parent(declared, answer.found)
            spec = answer.result
        else:
            reference = Reference(declared.kind, declared.title, declared)
            spec = self._all.spec(reference, declared.span)
        return spec if isinstance(spec, Deployment) else None

    def _fleet(self, name: str, changes: Sequence[Change]) -> Fleet | None:
        declared = self._found(name)
        if declared is None or declared.kind != "fleet":
            return None
        own = [change for change in changes if of_fleet(change)]
        if own:
            spec = self._changed(declared, own)
        else:
            reference = Reference(declared.kind, declared.title, declared)
            spec = self._all.spec(reference, declared.span)
        if not isinstance(spec, Fleet):
            return None
        names = [deployment.name for deployment in spec.deployments]
        rest = [change for change in changes if change not in own]
        return spec if self._reaches(rest, names) else None

    def _reaches(self, changes: Sequence[Change], names: Sequence[str]) -> bool:
        """Whether changes from outside begin with what the deployments have; told where not."""
        outside = [change for change in changes if change.at is None]
        known = self._known() or tuple(names) if outside else ()
        one_of = known if len(known) > 1 else ()
        told = [unreached(c, names, known) or misplaced(c, one_of) for c in outside]
        for message in told:
            if message is not None:
                self._all.tell(message)
        return not any(told)

    def _known(self) -> tuple[str, ...]:
        """Names of the deployments that the file declares, and of those in its fleets."""
        if self._deployments is None:
            found = dict.fromkeys(self.concrete("deployment"))
            for name in self.declared("fleet"):
                fleet, _ = self.fleet(name)
                found |= dict.fromkeys(d.name for d in fleet.deployments) if fleet else {}
            self._deployments = tuple(found)
        return self._deployments

    def _changed(self, declared: Declared, changes: Sequence[Change]) -> Declaration | None:
        raw = self._raw(declared, changes)
        return None if raw is None else self._all.titled(declared, raw)

    def _varied(self, declared: Declared, changes: Sequence[Change]) -> Declaration | None:
        raw = self._raw(declared, changes)
        if raw is None:
            return None
        sweeps = [key for key in raw.entries if key == "sweep" or key.startswith("sweep ")]
        return self._all.titled(declared, raw.without(*sweeps))

    def _raw(self, declared: Declared, changes: Sequence[Change]) -> Raw | None:
        raw = self._all.raw(declared, declared.span)
        if declared.kind == "deployment" and not self._reaches(changes, (declared.name,)):
            return None
        for change in changes:
            own = within(change) if addressee(change) == declared.name else change
            if raw is not None:
                raw = changed(self._all, declared.kind, raw, own, self._scope_of)
        return raw

    def _scope_of(self, source: SourceFile) -> Scope:
        """What names in a text mean: those of its file, or of the main file for a flag's text."""
        for file in self._all.files:
            if file.scope.source is source:
                return file.scope
        return self._main.scope

    # --- checking a file -----------------------------------------------------------------------

    def _checked(self) -> bool:
        """Whether every declaration could be resolved."""
        sound = True
        for let in self._main.lets():
            sound &= self._all.bound(let, let.span) is not None
        for declared in self._main.declared():
            if declared.node is None:
                continue
            spec = self._all.resolved(declared, declared.span)
            sound &= spec is not None
            if isinstance(spec, Deployment):
                self._check_variants(declared, spec)
        return sound

    def _check_variants(self, declared: Declared, spec: Deployment) -> None:
        """The values of its sweeps; layouts of a comparison are resolved with it."""

        def tried(changes: Sequence[Change]) -> tuple[Diagnostic, ...]:
            return self._all.collected(lambda: self._varied(declared, changes)).found

        for sweep in spec.sweeps:
            self._all.found += faults_of(sweep, tried)


def _abstract(body: Block) -> bool:
    return any(
        isinstance(s, Assign)
        and s.path.dotted == "abstract"
        and isinstance(s.value, Truth)
        and s.value.value
        for s in body.statements
    )
