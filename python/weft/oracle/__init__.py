"""The trusted process that checks and times candidates."""
