"""Names, inheritance and expressions: from the tree to the typed spec."""
