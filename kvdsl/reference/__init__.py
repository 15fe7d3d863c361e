"""The reference pages of `docs/`, made from the code and the catalog: one module a page.

Comes in: rules, spec models, units, vocabulary, codes, catalog. Goes out: markdown. A test fails
when a page in `docs/` is not what its module gives. Not its job: prose that no code can know.
"""
