"""Nodes as the engines of tools/launch start them, each with its real engine on
this machine. Two nodes work, one process is killed -9, and the engine starts it
again. The run ends with the verdicts of one machine.

    cd tests/by_hand && PYTHONPATH=../python python3 -m unittest -v launched_nodes

Slurm: Debian's slurm-wlm and munge, and root (its daemons run jobs as others).
Ray: WEFT_RAY_PYTHON names a Python that has it (pip install ray).
ssh: openssh-server, and root.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

import weft_case
from nodes_case import NodesCase, free_port

LAUNCH = os.path.join(weft_case.ROOT, "tools", "launch")


def process_of(node):
    """The number of the process that is the node of that name; 0: none is."""
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        is_weft = os.path.basename(words[0]) == os.path.basename(weft_case.WEFT)
        named = "--name" in words and words[words.index("--name") + 1] == node
        if is_weft and named:
            return int(entry)
    return 0


class LaunchedCase(NodesCase):
    # Long enough for an engine to notice, and to begin again.
    run_flags = (
        "--variants",
        "2",
        "--no-compile-baseline",
        "--no-library",
        "--jobs",
        "3",
        "--timing-ms",
        "4000",
        "--final-timing-ms",
        "12000",
    )

    def setUp(self):
        super().setUp()
        made = self.weft("keygen", self.path("keys"))
        self.assertEqual(made.returncode, 0, made.stderr)

    def start_head(self):
        return self.head("--keys", self.path("keys"), "--node-seconds", "10")

    def spawn(self, name, words, **changes):
        """Another program than weft, in its own session."""
        with open(self.path(name + ".txt"), "a", encoding="utf-8") as output:
            process = subprocess.Popen(
                words,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=weft_case.environment(**changes),
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def assert_begun_again(self, head, victim, kill):
        """`kill` kills the victim, which is at work; then it is back."""
        self.wait_for(lambda: self.asked(victim) or head.poll() is not None)
        first = process_of(victim)
        self.assertNotEqual(first, 0, self.output())
        kill(first)
        killed_s = time.monotonic()
        # In, gone, in.
        self.wait_for(lambda: self.changes(victim) > 2 or head.poll() is not None)
        self.assertIsNone(head.poll(), self.output())
        print(
            f"{victim} is in again {time.monotonic() - killed_s:.1f} s after it was killed",
            flush=True,
        )
        self.assertNotIn(process_of(victim), (0, first))

    def assert_ends_as_ever(self, head, nodes):
        self.assert_ends_well(head)
        self.wait_for(lambda: not any(map(process_of, nodes)))

    def assert_nothing_left(self):
        """With the engine itself gone, whose processes name the folder."""
        self.kill_all()
        self.assert_same_and_nothing_left()


def kill_it(process):
    os.kill(process, signal.SIGKILL)


SLURM_CONF = """
ClusterName=weft
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
NodeName=m1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1
NodeName=m2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1
PartitionName=all Nodes=m1,m2 Default=YES MaxTime=INFINITE State=UP
"""


@unittest.skipIf(
    os.getuid() != 0 or not all(map(shutil.which, ("slurmctld", "slurmd", "munged"))),
    "needs root, slurm-wlm and munge",
)
class SlurmTest(LaunchedCase):
    """One controller, and two machines of one core that are this one."""

    def setUp(self):
        super().setUp()
        self.slurm = self.path("slurm")
        os.makedirs(os.path.join(self.slurm, "state"))
        # munged wants no stranger to be able to change its socket's folders.
        os.chmod(self.folder, 0o755)
        self.conf = os.path.join(self.slurm, "slurm.conf")
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(
                SLURM_CONF.format(
                    folder=self.slurm,
                    host=socket.gethostname().split(".")[0],
                    ports=[free_port() for _ in range(3)],
                )
            )
        key = os.path.join(self.slurm, "munge.key")
        with open(key, "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(key, 0o600)
        at = lambda name: os.path.join(self.slurm, name)
        self.spawn(
            "munged",
            [
                "munged",
                "--foreground",
                "--force",
                f"--key-file={key}",
                f"--socket={at('munge.sock')}",
                f"--pid-file={at('munged.pid')}",
                f"--log-file={at('munged.log')}",
                f"--seed-file={at('munge.seed')}",
            ],
        )
        self.wait_for(lambda: os.path.exists(at("munge.sock")))
        self.daemon("slurmctld", "-i", "-D")
        for machine in ("m1", "m2"):
            self.daemon("slurmd", "-D", "-N", machine, name=machine)
        self.wait_for(lambda: self.tell("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2")

    def daemon(self, program, *words, name=None):
        self.spawn(name or program, [program, *words], SLURM_CONF=self.conf)

    def tell(self, *words, **changes):
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=weft_case.environment(SLURM_CONF=self.conf, **changes),
        )
        return done.stdout

    def submit(self):
        job = self.tell(
            "sbatch",
            "--parsable",
            "--array=0-1",
            os.path.join(LAUNCH, "slurm.sbatch"),
            WEFT_JOIN=self.endpoint,
            WEFT_KEYS=self.path("keys"),
            WEFT_BIN=weft_case.WEFT,
            HOME=self.folder,
        ).strip()
        self.assertTrue(job.isdigit(), self.output())
        return job, [f"slurm-{job}-{index}" for index in (0, 1)]

    def test_slurm_begins_a_node_that_died_again(self):
        head = self.start_head()
        job, nodes = self.submit()
        self.assert_begun_again(head, nodes[1], kill_it)
        self.assert_ends_as_ever(head, nodes)
        self.wait_for(lambda: not self.tell("squeue", "-h"))
        self.assertIn("Restarts=1", self.tell("scontrol", "show", "job", f"{job}_1"))
        self.assert_nothing_left()

    def test_slurm_takes_a_node_away_and_it_leaves_in_peace(self):
        head = self.start_head()
        job, nodes = self.submit()
        self.wait_for(lambda: self.asked(nodes[0]) or head.poll() is not None)
        self.tell("scancel", f"{job}_0")
        self.wait_for(lambda: not process_of(nodes[0]))
        self.assertTrue(self.has_said("head", f"{nodes[0]} is lost: it left"), self.output())
        self.assert_ends_as_ever(head, nodes)
        self.wait_for(lambda: not self.tell("squeue", "-h"))
        self.assert_nothing_left()


RAY = os.environ.get("WEFT_RAY_PYTHON")
RAY_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster()
for _ in range(3):
    cluster.add_node(num_cpus=1)
print("address", cluster.address, flush=True)
sys.stdin.read()
"""


@unittest.skipUnless(RAY, "WEFT_RAY_PYTHON names no Python with Ray")
class RayTest(LaunchedCase):
    """Three raylets of one core on this machine."""

    def setUp(self):
        super().setUp()
        self.cluster = cluster = subprocess.Popen(
            [RAY, "-c", RAY_CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(cluster.wait)
        self.addCleanup(cluster.stdin.close)
        self.address = ""
        while not self.address.startswith("address"):
            self.address = cluster.stdout.readline()
            self.assertTrue(self.address, "Ray did not begin")
        self.address = self.address.split()[1]

    def launch(self):
        driver = self.spawn(
            "driver",
            [
                RAY,
                os.path.join(LAUNCH, "ray_nodes.py"),
                "--join",
                self.endpoint,
                "--keys",
                self.path("keys"),
                "--count",
                "2",
                "--cpus",
                "1",
                "--weft",
                weft_case.WEFT,
            ],
            RAY_ADDRESS=self.address,
            HOME=self.folder,
        )
        return driver, ["ray-0", "ray-1"]

    def ends(self, kill):
        # Ray takes its time: all would be dealt out by then.
        driver, nodes = self.launch()
        self.wait_for(lambda: all(map(process_of, nodes)))
        head = self.start_head()
        self.assert_begun_again(head, nodes[1], kill)
        self.assert_ends_as_ever(head, nodes)
        self.assert_ends_well(driver)
        self.cluster.stdin.close()
        self.cluster.wait()
        self.assert_nothing_left()

    def test_ray_begins_a_node_that_died_again(self):
        self.ends(kill_it)

    def test_ray_begins_an_actor_that_died_again(self):
        def kill_actor(process):
            with open(f"/proc/{process}/stat", encoding="utf-8") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            os.kill(parent, signal.SIGKILL)

        self.ends(kill_actor)


SSHD = "/usr/sbin/sshd"
SSHD_CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
PermitRootLogin yes
UsePAM no
"""
SSH_CONFIG = """
Host one two
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/user
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
"""


@unittest.skipIf(os.getuid() != 0 or not os.path.exists(SSHD), "needs root and openssh-server")
class SshTest(LaunchedCase):
    run_flags = NodesCase.run_flags

    def setUp(self):
        super().setUp()
        about = {"folder": self.folder, "port": free_port()}
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)], check=True
            )
        for name, text in (("sshd.conf", SSHD_CONFIG), ("ssh.conf", SSH_CONFIG)):
            self.write(name, text.format(**about))
        self.write("ssh", f'#!/bin/sh\nexec /usr/bin/ssh -F {self.path("ssh.conf")} "$@"\n')
        os.chmod(self.path("ssh"), 0o755)
        os.makedirs("/run/sshd", exist_ok=True)
        self.spawn("sshd", [SSHD, "-D", "-e", "-f", self.path("sshd.conf")])

    def test_ssh_starts_nodes_and_takes_them_away(self):
        head = self.start_head()
        launcher = self.spawn(
            "ssh-nodes",
            [os.path.join(LAUNCH, "ssh-nodes"), self.endpoint, self.path("keys"), "one", "two"],
            WEFT_BIN=weft_case.WEFT,
            PATH=self.folder + ":" + os.environ["PATH"],
        )
        nodes = ("one", "two")
        self.wait_for(lambda: all(map(self.changes, nodes)) or head.poll() is not None)
        self.assertTrue(all(map(process_of, nodes)), self.output())
        launcher.terminate()
        self.wait_for(lambda: not any(map(process_of, nodes)))
        self.assertTrue(self.has_said("head", "is lost: it left"), self.output())
        self.assert_ends_as_ever(head, nodes)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
