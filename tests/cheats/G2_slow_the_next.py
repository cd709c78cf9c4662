"""G2: leaves its parent one processor and few files, for whoever comes next.

Reference: linear
Expect: rejected crashed
Reason: after that
"""

import os
import resource

parent = os.getppid()
os.sched_setaffinity(parent, {min(os.sched_getaffinity(0))})
os.setpriority(os.PRIO_PROCESS, parent, 19)
resource.prlimit(parent, resource.RLIMIT_NOFILE, (9, 9))


class ModelNew:
    def __init__(self):
        raise ValueError("it fails after that")
