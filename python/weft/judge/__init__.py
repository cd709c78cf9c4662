"""Rounds in which the candidate and the baselines take turns."""
