"""Measurements: ratios in one run, against a peer or a limit. Never a timed test."""
