"""Importers: what others write of a model, turned into a readable declaration."""
