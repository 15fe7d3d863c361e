"""A declaration that is only to be extended may leave out whatever it likes.

The kinds, the forms of parts and what each must have are read off the language's schema: one that
is declared later is tried too.
"""

from __future__ import annotations

import pytest

from kvdsl.pipeline import check_text
from kvdsl.resolve.schema import KINDS, Schema, schema_of
from kvdsl.spec.model import FORMS
from kvdsl.spec.slots import Count, Measured, Word

FORMS_OF_PARTS = [(kind, form) for kind, forms in FORMS.items() for form in forms]


def counts(schema: Schema) -> list[str]:
    """The attributes that must be given and are plain numbers or words, with a value each."""
    found = []
    for name, attribute in schema.attributes.items():
        slot = attribute.slots[0]
        if attribute.required and isinstance(slot, Count | Measured | Word):
            found.append(f"{name} = {'a' if isinstance(slot, Word) else 4}")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_an_abstract_declaration_may_say_nothing(kind: str) -> None:
    report = check_text(f"kvspec 1\n{kind} a {{ abstract = true }}\n").report
    assert report.diagnostics == ()
    whole = check_text(f"kvspec 1\n{kind} a {{ }}\n").report
    assert whole.failed == (kind not in ("layout", "policy", "tier"))


@pytest.mark.parametrize(("kind", "form"), FORMS_OF_PARTS)
def test_a_part_of_an_abstract_model_may_leave_out_any_figure(kind: str, form: str) -> None:
    written = counts(schema_of(FORMS[kind][form]))
    text = "kvspec 1\nmodel a {{ {rest}{kind} p = {form} {{ {body} }} }}\n"
    for place in range(len(written)):
        body = "; ".join(written[:place] + written[place + 1 :])
        abstract = text.format(rest="abstract = true; ", kind=kind, form=form, body=body)
        assert check_text(abstract).report.diagnostics == (), body
        whole = check_text(text.format(rest="", kind=kind, form=form, body=body)).report
        assert "KV029" in {each.code for each in whole.diagnostics}, body
