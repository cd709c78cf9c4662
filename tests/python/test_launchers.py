"""The launchers' files are what their engines read, as far as that can be told
without the engines."""

import importlib.util
import os
import re
import subprocess
import unittest

import weft_case

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "tools", "launch")


def text_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def launched_flags(text):
    """Flags behind the words `weft node`, in whatever syntax."""
    return set(re.findall(r"--[a-z-]+(?=[= \"',]|$)", text, re.MULTILINE))


class LaunchersTest(unittest.TestCase):
    def test_the_shell_reads_its_scripts(self):
        for name in ("slurm.sbatch", "ssh-nodes"):
            done = subprocess.run(["bash", "-n", os.path.join(FOLDER, name)],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_flag_of_a_node_is_one_that_it_has(self):
        help_text = subprocess.run(
            [weft_case.WEFT, "node", "--help"], capture_output=True, text=True,
            check=True).stdout
        nodes = {"slurm.sbatch": r"exec .*\n.*\n?.*",
                 "ssh-nodes": r"printf '%q ' .*\n.*",
                 "weft-node.service": r"ExecStart=.*",
                 "kubernetes.yaml": r"args:\n(?: +- --.*\n)+"}
        for name, pattern in nodes.items():
            found = re.search(pattern, text_of(name))
            self.assertTrue(found, name)
            flags = launched_flags(found.group(0))
            self.assertIn("--join", flags, name)
            for flag in flags:
                self.assertIn(flag, help_text, name)

    def test_kubernetes_replaces_a_pod_only_when_it_has_ended(self):
        text = text_of("kubernetes.yaml")
        self.assertIn("completionMode: Indexed", text)
        self.assertIn("podReplacementPolicy: Failed", text)
        self.assertNotIn("\t", text)

    def test_ray_starts_a_node_of_its_own_name_in_each_task(self):
        path = os.path.join(FOLDER, "ray_nodes.py")
        spec = importlib.util.spec_from_file_location("ray_nodes", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        args = module.parse(["--join", "tcp://h:1", "--cpus", "2"])
        self.assertEqual(
            module.node_command(args, 3),
            ["weft", "node", "--join", "tcp://h:1", "--name", "ray-3",
             "--slots", "cpu=2", "--devices", "none", "--once"])
        self.assertEqual(module.serve(["true"]), 0)
        with self.assertRaises(RuntimeError):
            module.serve(["false"])


if __name__ == "__main__":
    unittest.main()
