"""Decides whether a result is correct: inputs, references, expected values, and bounds of
errors."""
