"""Costs: memory, collectives, time and money of a placement, one physical question a file."""
