"""The Python side of weft: capture, the oracle and the candidate harness."""

import os

if os.environ.get("WEFT_BYTECODE"):
    from weft.build import bytecode

    bytecode.read_kept(os.environ["WEFT_BYTECODE"])
