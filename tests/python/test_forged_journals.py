"""Journals whose checksums are right and whose paths lead out of the run directory."""

import os
import subprocess
import unittest

from canaries import Canaries
from made_journal import MadeJournal
from weft_case import WEFT, WeftCase, environment

#: Paths that leave the run directory, or reach what is weft's own in it.
PATHS = ("../canaries/new", "a/../../canaries/new", "/tmp/weft-canary-new", "..",
         "composed/../../canaries/secret", "journal.db", "a//b", "", "a\0b",
         "x" * 5000)


class ForgedJournals(WeftCase):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries(self.path("canaries"))

    def forged(self, name, start=None, files=(), finished=True):
        """A run directory with a journal whose checksums are right."""
        folder = self.path(name)
        journal = MadeJournal(folder)
        begin = {"problem_name": "p.py", "problem": journal.blob("class Model: pass"),
                 "options": {"target": "cpu"}, "machine": {"name": "m", "cores": 2},
                 "weft_version": "0.1.0", "vocabulary": 2}
        journal.say("user", "extractor", "RunStart", begin | (start or {}))
        if files:
            blob = journal.blob("forged")
            asked = journal.say("composer", "port/files", "WriteFilesRequest", {
                "effect": 1, "files": [{"path": path, "blob": blob}
                                       for path in files]})
            journal.say("port/files", "composer", "WriteFilesReply",
                        {"effect": 1}, asked)
        if finished:
            journal.say("composer", "user", "RunFinished",
                        {"exit_code": 0, "summary": "verified"})
        journal.close()
        return folder

    def test_no_path_leads_out_of_the_run_directory(self):
        for number, path in enumerate(PATHS):
            with self.subTest(path[:40]):
                run = self.forged(f"path-{number}", files=[path])
                done = subprocess.run(
                    [WEFT, "resume", "--recorded", run], capture_output=True,
                    timeout=120, cwd=self.folder, env=environment(), check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(self.canaries.changed(), [])
        self.assertFalse(os.path.exists("/tmp/weft-canary-new"))


if __name__ == "__main__":
    unittest.main()
