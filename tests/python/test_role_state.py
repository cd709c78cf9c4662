"""A role's description has all that the role keeps: each member of a class that describes
itself stands in its describe(). A forgotten one fails here, not in somebody's run."""

import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

#: Counters whose value follows from what is listed.
NOT_TOLD = {"PendingEffects": {"next_"}, "LlmCalls": {"next_"}}

CLASS = re.compile(r"^class (\w+)([^;{]*)\{(.*?)^\};", re.S | re.M)
MEMBER = re.compile(r"\b([a-z]\w*_)\s*(?:=[^;,]*|\{[^;]*\})?[;,]")


def read(pattern):
    texts = []
    for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


def members(body):
    """Declared at the class's own level: comments and nested structs aside."""
    own = [line.split("//")[0] for line in body.splitlines() if re.match(r"  \S", line)]
    return set(MEMBER.findall("\n".join(own)))


def kept():
    """{class: its members} of what is a role or describes itself."""
    found = {}
    for name, bases, body in CLASS.findall(read("actors/*.hpp") + read("actors/llm/*.hpp")):
        if "describe() const" in body or "public Role" in bases:
            found[name] = members(body) - NOT_TOLD.get(name, set())
    return found


class RoleStateTest(unittest.TestCase):
    def test_every_member_is_told(self):
        told = read("actors/state/*.cpp")
        for name, fields in kept().items():
            body = re.search(rf"\b{name}::describe\(\) const \{{(.*?)^\}}", told, re.S | re.M)
            words = set(re.findall(r"\w+", body[1] if body else ""))
            with self.subTest(name):
                self.assertEqual(
                    fields - words,
                    set(),
                    f"{name}::describe() lacks them: add them in actors/state/",
                )

    def test_members_are_found_as_they_are_declared(self):
        found = kept()
        self.assertLessEqual({"within_", "outside_", "stage_", "trials_"}, found["Composer"])
        self.assertLessEqual({"calls_", "proposals_"}, found["Extractor"])
        self.assertIn("asked_", found["TestWriter"])
        self.assertEqual(
            members("  int a_ = 0, b_{1};  ///< c_;\n    int nested_ = 0;\n"), {"a_", "b_"}
        )


if __name__ == "__main__":
    unittest.main()
