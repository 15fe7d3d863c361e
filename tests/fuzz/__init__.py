"""Texts made to break kvdsl: whole specs drawn at random, and specs that were damaged."""
