"""Measurements, side by side. Nothing here is asserted: a test never looks at a clock."""
