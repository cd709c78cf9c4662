"""The seccomp profile of docs/how-to/containers.md is enough for weft's sandbox. `weft doctor`
runs under a filter that refuses the calls that Docker's own profile refuses. The calls that
the page names are allowed."""

import ctypes.util
import json
import os
import re
import subprocess
import sys
import unittest

from weft_case import ROOT, WEFT, environment

#: Docker's seccomp/default.json allows these with CAP_SYS_ADMIN only, or not at all (2026-06-30).
REFUSED_BY_DOCKER = (
    "bpf",
    "clone",
    "clone3",
    "fanotify_init",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "kexec_load",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "setdomainname",
    "sethostname",
    "setns",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
)
#: Refuses the calls of a JSON list, and starts the program of the other arguments. Each flag
#: of clone that makes a namespace is refused; clone3 does not exist, as in Docker's profile.
START = """
import ctypes, json, os, sys

ALLOW, ENOSYS, EPERM, MASKED_EQUAL = 0x7FFF0000, 38, 1, 7

class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("operation", ctypes.c_int),
                ("mask", ctypes.c_uint64), ("value", ctypes.c_uint64)]

library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
filter = ctypes.c_void_p(library.seccomp_init(ALLOW))

def refuse(name, error, *comparisons):
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:
        assert library.seccomp_rule_add_array(
            filter, 0x00050000 | error, number, len(comparisons),
            (Comparison * len(comparisons))(*comparisons)) == 0, name

for name in json.loads(sys.argv[1]):
    if name == "clone":
        for flag in (0x20000, *(1 << bit for bit in range(25, 31))):
            refuse(name, EPERM, Comparison(0, MASKED_EQUAL, flag, flag))
    else:
        refuse(name, ENOSYS if name == "clone3" else EPERM)
assert library.seccomp_load(filter) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


@unittest.skipUnless(ctypes.util.find_library("seccomp"), "no libseccomp")
class ContainerProfile(unittest.TestCase):
    def doctor(self, refused: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", START, json.dumps(refused), WEFT, "doctor", "--no-run"],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )

    def test_the_calls_of_the_page_are_enough(self):
        with open(os.path.join(ROOT, "docs", "how-to", "containers.md"), encoding="utf-8") as file:
            [names] = re.findall(r'"names":\s*(\[[^]]*\])', file.read())
        allowed = json.loads(names)
        self.assertLess(set(allowed), set(REFUSED_BY_DOCKER))
        done = self.doctor(tuple(name for name in REFUSED_BY_DOCKER if name not in allowed))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stdout, "no +network namespace")

    def test_without_them_there_is_no_sandbox(self):
        done = self.doctor(REFUSED_BY_DOCKER)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "no +network namespace")


if __name__ == "__main__":
    unittest.main()
