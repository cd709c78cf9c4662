"""Roles, messages and the compiler do no I/O: they include nothing that could.

DESIGN's promise is that a role's life is the list of envelopes it was given.
A clock, a file, a thread or a random number in there would break replay.
<chrono> may be included for its calendar: its clocks are found by their names.
"""

import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

IMPURE_HEADER = re.compile(
    r'^\s*#\s*include\s*[<"](?:'
    r"runtime/|tools/|caf/|zmq|curl/|sqlite3|sys/|unistd\.h|fcntl\.h|poll\.h"
    r"|signal\.h|time\.h|ctime|thread|mutex|shared_mutex|stop_token"
    r"|condition_variable|future|atomic|random|fstream|filesystem|iostream"
    r"|syslog\.h)",
    re.MULTILINE,
)

IMPURE_WORD = re.compile(
    r"\b\w+_clock\b|\b(?:current_zone|random_device"
    r"|getenv|rand|srand|clock_gettime|gettimeofday|fopen|freopen|fprintf"
    r"|printf|ifstream|ofstream|std::time)\b\s*(?=[({<:])"
    r"|\btime\s*\(\s*(?:nullptr|NULL|0)\s*\)"
)

# The order of a hash table is no input of a role.
HASH_TABLE = re.compile(r"#\s*include\s*<unordered_(?:map|set)>")

ALLOWED = {
    "messages": ("messages/",),
    "compiler": ("messages/", "compiler/", "embedded/compiler/"),
    "actors": ("messages/", "compiler/", "actors/", "embedded/config/prompts/"),
}

OURS = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def without_comments_and_texts(source):
    pattern = (
        r'R"(\w*)\((?:.|\n)*?\)\1"'
        r'|"(?:\\.|[^"\\\n])*"'
        r"|//[^\n]*"
        r"|/\*(?:.|\n)*?\*/"
    )
    return re.sub(pattern, '""', source)


def faults_of(room, source):
    """What makes this source text of `room` impure."""
    faults = [m.group(0).strip() for m in IMPURE_HEADER.finditer(source)]
    code = without_comments_and_texts(source)
    faults += [m.group(0).strip() for m in IMPURE_WORD.finditer(code)]
    if room == "actors":
        faults += [m.group(0) for m in HASH_TABLE.finditer(source)]
    faults += [
        "#include " + path for path in OURS.findall(source) if not path.startswith(ALLOWED[room])
    ]
    return faults


def sources_of(room):
    return sorted(glob.glob(os.path.join(ROOT, room, "**", "*.[ch]pp"), recursive=True))


class PurityTest(unittest.TestCase):
    def test_every_file_is_pure(self):
        for room in ALLOWED:
            self.assertTrue(sources_of(room), room)
            for path in sources_of(room):
                with self.subTest(os.path.relpath(path, ROOT)):
                    with open(path, encoding="utf-8") as file:
                        self.assertEqual(faults_of(room, file.read()), [])

    def test_impure_lines_are_found(self):
        for line in (
            '#include "runtime/journal.hpp"',
            "#include <caf/all.hpp>",
            "#include <zmq.h>",
            "using Clock = steady_clock;",
            "  # include <thread>",
            "#include <fstream>",
            "#include <random>",
            "#include <filesystem>",
            "#include <unordered_map>",
            '#include "tools/weft/a.hpp"',
            "auto t = std::chrono::steady_clock::now();",
            'const char* home = std::getenv("HOME");',
            "int x = rand();",
            "auto now = time(nullptr);",
        ):
            with self.subTest(line):
                self.assertTrue(faults_of("actors", line + "\n"))

    def test_a_room_may_not_include_the_rooms_above_it(self):
        self.assertTrue(faults_of("compiler", '#include "actors/role.hpp"\n'))
        self.assertTrue(faults_of("messages", '#include "compiler/a.hpp"\n'))
        self.assertFalse(faults_of("actors", '#include "compiler/a.hpp"\n'))

    def test_words_in_comments_and_texts_do_not_count(self):
        source = (
            '// steady_clock: not here\nauto a = "getenv(x)";\n'
            'auto b = R"py(\nimport time\ntime(3)\n)py";\n'
        )
        self.assertEqual(faults_of("actors", source), [])


if __name__ == "__main__":
    unittest.main()
