"""Checks: the rules, one family a file, one function a rule."""
