"""Outputs: each renderer reads a Plan, or diagnostics, and computes nothing."""
