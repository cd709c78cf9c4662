"""The folders of an oracle's jobs, after candidates that leave traps in them."""

import contextlib
import os
import tempfile
import unittest
from unittest import mock

from canaries import Canaries
from weft.judge import job_folders
from weft.judge.job_folders import JobFolders, NotStaged


def deepen(folder, depth):
    """Folders within folders: longer than the longest path."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


class JobFoldersTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.canaries = Canaries(os.path.join(temporary.name, "canaries"))
        self.victim = self.canaries.folder
        self.root = os.path.join(temporary.name, "slot")
        self.folders = JobFolders(self.root)
        self.addCleanup(self.folders.close)
        self.work = os.path.join(self.root, "work")
        self.folders.begin()

    def tearDown(self):
        self.assertEqual(self.canaries.changed(), [])

    def it_goes_on(self):
        """The next job finds fresh folders."""
        self.folders.begin()
        self.assertEqual(os.listdir(self.work), [])
        path = self.folders.place("candidate.py", b"text")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"text")
        build = self.folders.build_folder(b"text")
        self.assertEqual(os.listdir(self.work), [os.path.basename(build)])
        self.assertEqual(os.listdir(build), [])

    def test_links_to_folders_are_not_followed(self):
        os.symlink(self.victim, os.path.join(self.work, "kernel-cache"))
        os.makedirs(os.path.join(self.work, "a/b"))
        os.symlink(self.victim, os.path.join(self.work, "a/b/c"))
        self.it_goes_on()

    def test_a_build_folder_that_became_a_link_is_not_followed(self):
        build = self.folders.build_folder(b"x")
        os.rmdir(build)
        os.symlink(self.victim, build)
        self.folders.keep_build()
        self.it_goes_on()
        again = self.folders.build_folder(b"x")
        self.assertFalse(os.path.islink(again))

    def test_a_tree_deeper_than_any_path_is_removed(self):
        deepen(self.work, 2500)
        self.it_goes_on()

    def test_folders_that_nobody_may_enter_are_removed(self):
        os.makedirs(os.path.join(self.work, "a/b/c"))
        for name in ("a/b/c", "a/b", "a", "."):
            os.chmod(os.path.join(self.work, name), 0)
        self.it_goes_on()

    def test_names_pipes_and_dangling_links_are_removed(self):
        for name in ("candidate.so", "model", "candidate.py", "lock"):
            os.mkdir(os.path.join(self.work, name))
        for number in range(300):
            os.mkdir(os.path.join(self.work, f"model/{number}"))
        os.mkfifo(os.path.join(self.work, "pipe"))
        os.symlink("/nowhere", os.path.join(self.work, "dangling"))
        with open(os.path.join(os.fsencode(self.work), b"\xff\n\x1b[31m"), "w"):
            pass
        with open(os.path.join(self.work, "n" * 255), "w", encoding="utf-8"):
            pass
        self.it_goes_on()

    def test_what_lay_in_the_root_before_is_gone(self):
        for name in ("staged", "kept", "work"):
            folder = os.path.join(self.root, name)
            os.rename(folder, folder + "-moved")
            os.symlink(self.victim, folder)
        with contextlib.closing(JobFolders(self.root)) as folders:
            folders.begin()
            self.assertEqual(sorted(os.listdir(self.root)), ["kept", "staged", "work"])

    def test_a_name_that_is_a_path_is_refused(self):
        for name in ("../x", "a/b", "/etc/x", "", ".", "..", "a\0b"):
            with self.subTest(name), self.assertRaises(ValueError):
                self.folders.place(name, b"")

    def test_a_file_that_is_there_already_is_not_written_over(self):
        path = self.folders.place("candidate.py", b"1")
        os.unlink(path)
        os.symlink(os.path.join(self.victim, "secret"), path)
        with self.assertRaises(NotStaged):
            self.folders.place("candidate.py", b"2")
        self.it_goes_on()

    def test_a_build_comes_back_to_its_own_candidate(self):
        build = self.folders.build_folder(b"one")
        with open(os.path.join(build, "made"), "w", encoding="utf-8"):
            pass
        self.folders.keep_build()
        self.folders.begin()
        self.assertEqual(os.listdir(self.folders.build_folder(b"two")), [])
        self.folders.begin()
        self.assertEqual(self.folders.build_folder(b"one"), build)
        self.assertEqual(os.listdir(build), ["made"])

    def test_large_and_deep_builds_are_not_kept(self):
        def deep(build):
            deepen(build, job_folders.KEPT_DEPTH_MAX + 2)

        def many(build):
            for number in range(101):
                os.symlink("x", os.path.join(build, str(number)))

        for fill in (deep, many):
            with (
                self.subTest(fill.__name__),
                mock.patch.object(job_folders, "KEPT_ENTRIES_MAX", 100),
            ):
                self.folders.begin()
                fill(self.folders.build_folder(b"x"))
                self.folders.keep_build()
                self.assertEqual(os.listdir(os.path.join(self.root, "kept")), [])

    def test_another_sandbox_gets_another_folder(self):
        build = self.folders.build_folder(b"x")
        inode = os.stat(self.work).st_ino
        deepen(self.work, 2500)
        self.folders.renew_work()
        self.assertNotEqual(os.stat(self.work).st_ino, inode)
        self.assertEqual(os.listdir(self.work), [os.path.basename(build)])
        self.assertEqual(sorted(os.listdir(self.root)), ["kept", "staged", "work"])


if __name__ == "__main__":
    unittest.main()
