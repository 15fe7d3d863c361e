"""The typed spec: what a declaration means, frozen, in base units, each value with its origin."""
