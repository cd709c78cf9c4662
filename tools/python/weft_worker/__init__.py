"""The Python side of weft: capture, the oracle and the candidate harness."""
