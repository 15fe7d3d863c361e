"""Planning: from a resolved deployment to a Plan."""
