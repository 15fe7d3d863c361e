"""Pictures of a plan: each function takes records of a Plan and gives one `<svg>` as text."""
