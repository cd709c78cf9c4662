"""The launchers' files are what their engines read, as far as that shows without the engines."""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import weft_case

try:
    import kubernetes_validate
    import yaml  # kubernetes_validate brings it
except ImportError:
    kubernetes_validate = None

FOLDER = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools", "launch"
)


def text_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def launched_flags(text):
    """Flags behind the words `weft node`, in whatever syntax."""
    return set(re.findall(r"--[a-z-]+(?=[= \"',]|$)", text, re.MULTILINE))


class LaunchersTest(unittest.TestCase):
    def test_the_shell_reads_its_scripts(self):
        for name in ("slurm.sbatch", "ssh-nodes"):
            done = subprocess.run(
                ["bash", "-n", os.path.join(FOLDER, name)],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_flag_of_a_node_is_one_that_it_has(self):
        help_text = subprocess.run(
            [weft_case.WEFT, "node", "--help"], capture_output=True, text=True, check=True
        ).stdout
        nodes = {
            "slurm.sbatch": r"srun (?:.*\\\n)+.*",
            "ssh-nodes": r"printf '%q ' .*\n.*",
            "weft-node.service": r"ExecStart=.*",
            "kubernetes.yaml": r"args:\n(?: +- --.*\n)+",
        }
        for name, pattern in nodes.items():
            found = re.search(pattern, text_of(name))
            self.assertTrue(found, name)
            flags = launched_flags(found.group(0))
            self.assertIn("--join", flags, name)
            for flag in flags - {"--ntasks"}:  # srun's own
                self.assertIn(flag, help_text, name)

    def test_every_flag_of_a_head_is_one_that_it_has(self):
        help_text = subprocess.run(
            [weft_case.WEFT, "head", "--help"], capture_output=True, text=True, check=True
        ).stdout
        heads = {
            "weft-head.service": r"ExecStart=(?:.*\\\n)+.*",
            "kubernetes-head.yaml": r"args:\n(?: +- --.*\n)+",
        }
        for name, pattern in heads.items():
            flags = launched_flags(re.search(pattern, text_of(name)).group(0))
            self.assertEqual(
                flags, {"--listen", "--keys", "--nodes", "--node-keys", "--folder"}, name
            )
            for flag in flags:
                self.assertIn(flag, help_text, name)

    @unittest.skipUnless(kubernetes_validate, "pip install kubernetes-validate")
    def test_kubernetes_takes_its_job_by_the_schema_of_its_api(self):
        job = yaml.safe_load(text_of("kubernetes.yaml"))
        # podReplacementPolicy and backoffLimitPerIndex: since 1.29 for all.
        for version in ("1.29", "1.37"):
            kubernetes_validate.validate(job, version, strict=True)
        # Else two pods of one index run at once, under one name.
        self.assertEqual(job["spec"]["podReplacementPolicy"], "Failed")
        self.assertEqual(job["spec"]["completionMode"], "Indexed")
        job["spec"]["podReplacementPolicies"] = "Failed"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(job, "1.37", strict=True)

    def test_kubernetes_probe_tells_one_that_hangs_from_one_that_lives(self):
        probe = re.search(r'command: \[sh, -c, "(.*)"\]', text_of("kubernetes.yaml")).group(1)
        with tempfile.TemporaryDirectory() as folder:
            alive = os.path.join(folder, "alive")
            command = ["sh", "-c", probe.replace("/scratch/alive", alive)]
            quiet = {"stderr": subprocess.DEVNULL, "check": False}
            self.assertNotEqual(subprocess.run(command, **quiet).returncode, 0)
            with open(alive, "w", encoding="utf-8"):
                pass
            self.assertEqual(subprocess.run(command, **quiet).returncode, 0)
            os.utime(alive, (1, 1))
            self.assertNotEqual(subprocess.run(command, **quiet).returncode, 0)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd")
    def test_systemd_takes_its_units(self):
        for name in ("weft-node", "weft-head"):
            with self.subTest(name):
                self.check_unit(name)

    def check_unit(self, name):
        with tempfile.TemporaryDirectory() as folder:
            unit = os.path.join(folder, f"{name}.service")
            with open(unit, "w", encoding="utf-8") as file:
                file.write(
                    text_of(f"{name}.service").replace(
                        "/usr/local/bin/weft", os.path.abspath(weft_case.WEFT)
                    )
                )
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", unit],
                capture_output=True,
                text=True,
                check=False,
            )
            complaints = [line for line in done.stderr.splitlines() if name in line]
            self.assertEqual(complaints, [])
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_ray_starts_a_node_of_its_own_name_in_each_actor(self):
        path = os.path.join(FOLDER, "ray_nodes.py")
        spec = importlib.util.spec_from_file_location("ray_nodes", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        args = module.parse(["--join", "tcp://h:1", "--cpus", "2"])
        self.assertEqual(
            module.node_command(args, 3),
            [
                "weft",
                "node",
                "--join",
                "tcp://h:1",
                "--name",
                "ray-3",
                "--slots",
                "cpu=2",
                "--devices",
                "none",
                "--once",
            ],
        )
        self.assertEqual(module.serve(["true"]), 0)
        with self.assertRaises(RuntimeError):
            module.serve(["false"])


if __name__ == "__main__":
    unittest.main()
