"""What the pure rooms may include: roles and compiler do no I/O."""

import os
import re
import unittest
from pathlib import Path

ROOT = Path(os.path.abspath(__file__)).parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"][^>"]+[>"])', re.MULTILINE)
RAW_STRING = re.compile(r'R"(\w*)\((.*?)\)\1"', re.DOTALL)

#: Rooms of weft's own that each pure room may include.
ROOMS = {
    "messages": {"messages"},
    "compiler": {"messages", "compiler"},
    "actors": {"messages", "compiler", "actors"},
}
#: Values, containers and formats. Nothing that knows the time, a file, a
#: thread, the environment or chance; a new entry needs that to stay true.
HARMLESS = {
    "algorithm", "array", "bit", "charconv", "cmath", "cstddef", "cstdint",
    "cstdio", "cstdlib", "cstring", "deque", "expected", "functional",
    "initializer_list", "iterator", "limits", "map", "memory", "numeric",
    "optional", "queue", "ranges", "set", "span", "sstream", "string",
    "string_view", "tuple", "type_traits", "unordered_map", "utility",
    "variant", "vector", "msgpack.hpp", "nlohmann/json.hpp",
    "nlohmann/json_fwd.hpp",
}
#: Calls that the harmless headers would still allow.
FORBIDDEN = re.compile(
    r"\b(getenv|system|rand|srand|random|clock|fopen|popen|fread|fwrite|"
    r"fprintf|printf|puts|abort|exit)\s*\(|(?<!\w)(std)?::time\s*\(")


def code_of(path):
    """The file's text without raw strings, which hold other programs."""
    text = RAW_STRING.sub('""', path.read_text(encoding="utf-8"))
    return re.sub(r"//.*", "", text)


def offences(room, text):
    """What a file of that room must not have, as texts."""
    found = []
    for name in INCLUDE.findall(text):
        inner = name[1:-1]
        if name[0] == '"':
            if inner.split("/")[0] not in ROOMS[room]:
                found.append(f"includes {name}")
        elif inner not in HARMLESS:
            found.append(f"includes {name}")
    for call in FORBIDDEN.finditer(re.sub(r'"(\\.|[^"\\])*"', '""', text)):
        found.append(f"calls {call[0]}")
    return found


class PurityTest(unittest.TestCase):
    def test_the_pure_rooms_do_no_io(self):
        for room in ROOMS:
            files = sorted((ROOT / room).glob("*.[ch]pp"))
            self.assertTrue(files, room)
            for path in files:
                with self.subTest(str(path.relative_to(ROOT))):
                    self.assertEqual(offences(room, code_of(path)), [])

    def test_what_is_not_pure_gets_caught(self):
        for room, line in (
                ("actors", '#include "runtime/journal.hpp"'),
                ("actors", "#include <chrono>"),
                ("actors", "#include <caf/all.hpp>"),
                ("compiler", '#include "actors/role.hpp"'),
                ("compiler", "#include <filesystem>"),
                ("compiler", "#include <random>"),
                ("messages", '#include "compiler/graph.hpp"'),
                ("actors", 'auto home = std::getenv("HOME");'),
                ("actors", "const auto now = std::time(nullptr);"),
                ("compiler", "std::srand(1);")):
            with self.subTest(line):
                self.assertEqual(len(offences(room, line + "\n")), 1)


if __name__ == "__main__":
    unittest.main()
