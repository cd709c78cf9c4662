"""Requests of a sandboxed oracle to its warden: the oracle's problem is untrusted."""

import base64
import json
import mmap
import os
import tempfile
import unittest
from unittest import mock

from weft.judge.job_folders import JobFolders
from weft.oracle import warden


class WardenTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = os.path.join(temporary.name, "slot")
        folders = JobFolders(self.root)
        self.addCleanup(folders.close)
        self.warden = warden.Warden(folders, ["false"], "cpu")

    def ask(self, **request):
        return self.warden.answer(json.dumps(request).encode())

    def memory(self, size_bytes):
        reply, [descriptor] = self.ask(do="memory", bytes=size_bytes)
        self.assertEqual(reply, {})
        return descriptor

    def test_what_is_no_request_is_refused(self):
        for line in (
            b"",
            b"5",
            b"[]",
            b"{}",
            b'{"do": "run"}',
            b'{"do": "close"}',
            b'{"do": "__init__"}',
            b'{"do": "place"}',
            b"[" * 100_000,
            b'{"do": "memory", "bytes": "1"}',
            b'{"do": "memory", "bytes": -1}',
            b'{"do": "memory", "bytes": true}',
            b"\xff",
        ):
            reply, descriptors = self.warden.answer(line)
            self.assertEqual((reply["error"], descriptors), ("bad_request", []), line)

    def test_a_file_s_name_leads_nowhere(self):
        self.ask(do="begin")
        content = base64.b64encode(b"x").decode()
        for name in ("../x", "/tmp/x", "", ".", "..", "a/b", "a\0b"):
            reply, _ = self.ask(do="place", name=name, content=content)
            self.assertEqual(reply["error"], "bad_request", name)
        reply, _ = self.ask(do="place", name="x" * 300, content=content)
        self.assertEqual(reply["error"], "not_staged")
        path = self.ask(do="place", name="x", content=content)[0]["path"]
        self.assertTrue(path.startswith(os.path.join(self.root, "staged")))
        # A second file of that name would be another job's.
        reply, _ = self.ask(do="place", name="x", content=content)
        self.assertEqual(reply["error"], "not_staged")

    def test_memory_that_is_held_has_a_sum(self):
        page = 1 << 16
        all_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with mock.patch.object(warden, "MEMORY_SUM_SHARE_MAX", 3.5 * page / all_bytes):
            first, second, third = (self.memory(page) for _ in range(3))
            with self.assertRaises(MemoryError):
                self.ask(do="memory", bytes=page)
            mapped = mmap.mmap(first, page)
            os.close(first)
            with self.assertRaises(MemoryError):  # it is mapped
                self.ask(do="memory", bytes=page)
            mapped.close()
            again = self.memory(page)
            copy = os.dup(second)
            os.close(second)
            with self.assertRaises(MemoryError):  # another descriptor is open
                self.ask(do="memory", bytes=page)
            for one in (copy, third, again):
                os.close(one)
            os.close(self.memory(3 * page))

    def test_memory_cannot_be_made_longer(self):
        one = self.memory(4096)
        self.addCleanup(os.close, one)
        with self.assertRaises(OSError):
            os.ftruncate(one, 8192)
        with self.assertRaises(OSError):
            os.pwrite(one, b"x", 8192)


if __name__ == "__main__":
    unittest.main()
