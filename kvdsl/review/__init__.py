"""Two states of a set of plans, compared: who changed what, and what that did to the numbers."""
