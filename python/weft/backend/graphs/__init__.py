"""Graphs of the user's process: capture, arguments, guards and problem files."""
