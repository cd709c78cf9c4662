"""Problem files: loading them, and the state of the models that they define."""
