"""T6: fails with half of a surrogate pair, which no UTF-8 has.

Reference: linear
Expect: rejected crashed
Reason: half ?
"""


class ModelNew:
    def __init__(self):
        raise ValueError("half \ud800")
