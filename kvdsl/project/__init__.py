"""Files of a project: the main one, what it imports, and the catalog."""
