"""Placement: which device holds what, and who talks to whom. Costs and checks read this alone."""
