"""Whether weft's Python side works on this machine's GPU: docs/explanation/timing.md.

    python3 tests/gpu/self_test.py [--device cuda:0] [--skip-compile]

Needs PyTorch with CUDA and nvcc or NVRTC; nothing of weft has to be built.
Starts an oracle without a sandbox, and asks it for verdicts and times of kernels
written by hand. Prints a line for each, and ends with 0 if all are as expected.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [HERE, PACKAGES]

import kernels  # noqa: E402

LIMITS = {"wall_ms": 10_000, "memory_bytes": 8 << 30}
QUICK = {"wall_ms": 2000, "memory_bytes": 8 << 30}


class Server:
    """An oracle process, asked one thing after another."""

    def __init__(self, folder, device):
        self._number = 0
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "weft.oracle.oracle",
                "--device",
                device,
                "--scratch",
                os.path.join(folder, "scratch"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": PACKAGES},
        )

    def ask(self, verb, **request):
        self._number += 1
        line = json.dumps({"id": self._number, "verb": verb, **request})
        start = time.perf_counter()
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the oracle ended with {self._process.wait()}")
        reply = json.loads(answer)
        reply["asked_ms"] = (time.perf_counter() - start) * 1000
        if not reply["ok"]:
            raise AssertionError(reply["error"])
        return reply

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()


class SelfTest:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.server = Server(folder, options.device)
        self.failed = []
        self.arch = ""

    def path(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def step(self, name, function, *arguments):
        """Runs it whatever came before, so that one visit tells all."""
        start = time.perf_counter()
        try:
            said = function(*arguments)
            word = "ok    "
        except Exception as error:
            self.failed.append(name)
            said, word = f"{type(error).__name__}: {error}", "FAILED"
            if not isinstance(error, AssertionError):
                traceback.print_exc()
        took_ms = (time.perf_counter() - start) * 1000
        print(f"{word} {name:34} {took_ms:8.0f} ms  {said}", flush=True)

    def context(self):
        """What a process pays for its first touch of the device."""
        program = (
            "import sys, time; sys.path.insert(0, sys.argv[1])\n"
            "from weft.device.cuda_driver import open_driver\n"
            "t = time.perf_counter(); d = open_driver(int(sys.argv[2]))\n"
            "print(round((time.perf_counter() - t) * 1000), d.version())"
        )
        number = self.options.device.partition(":")[2] or "0"
        done = subprocess.run(
            [sys.executable, "-c", program, PACKAGES, number],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-500:]
        milliseconds, version = done.stdout.split()
        return f"context {milliseconds} ms, driver for CUDA {version}"

    def probe(self):
        machine = self.server.ask("probe")["machine"]
        self.arch = machine["gpu"]["arch"]
        return json.dumps(machine)

    def kernel(self, name, count):
        graph = self.path(f"graph-{count}.json", json.dumps(kernels.graph(count)))
        package = kernels.package(name, count, self.arch, self.folder)
        return {
            "subgraph": graph,
            "random_seed": 3,
            "limits": LIMITS,
            "candidate": {"kind": "cuda", "library": package},
        }

    def check(self, name, kind, words="", count=kernels.COUNT, limits=LIMITS):
        request = {**self.kernel(name, count), "limits": limits}
        reply = self.server.ask("check", **request)
        verdict = reply["verdict"]
        told = (
            f"{verdict['kind']} after {verdict['cases']} cases, "
            f"{verdict['wall_ms']:.0f} ms of {reply['asked_ms']:.0f}; "
            f"{verdict['reason']}"
        )
        assert verdict["kind"] == kind and words in verdict["reason"], told
        assert verdict["correct"] == (kind == "correct"), told
        if kind == "correct":
            assert set(verdict["controls"].values()) == {True}, verdict["controls"]
        return told

    def time(self, name, rejected="", count=kernels.COUNT):
        baselines = ["eager"]
        if not self.options.skip_compile and not rejected:
            baselines.append("compile")
        reply = self.server.ask(
            "time", **self.kernel(name, count), baselines=baselines, budget_ms=1000
        )
        return self.judged(reply, rejected)

    def model(self, verb, name, **more):
        problem = self.path("problem.py", kernels.MODEL)
        composed = self.path(f"{name}.py", kernels.module(name))
        return self.server.ask(
            verb, problem=problem, composed=composed, seed=5, limits=LIMITS, **more
        )

    def check_model(self, name, kind):
        verdict = self.model("check_model", name)["verdict"]
        told = f"{verdict['kind']}, {verdict['wall_ms']:.0f} ms; {verdict['reason']}"
        assert verdict["kind"] == kind, told
        return told

    def time_model(self, name, rejected=""):
        baselines = ["eager"]
        if not self.options.skip_compile and not rejected:
            baselines.append("compile")
        reply = self.model("time_model", name, baselines=baselines, budget_ms=1000)
        return self.judged(reply, rejected)

    def judged(self, reply, rejected):
        """What a timing says in a line; it must be as expected."""
        timing = reply["timing"]
        told = f"asked {reply['asked_ms']:.0f} ms; "
        for party in ("candidate", "eager", "compile"):
            t = timing.get(party)
            if t:
                told += (
                    f"{party} {t['median_us']:.1f} us [{t['p10_us']:.1f}, "
                    f"{t['p90_us']:.1f}] of {t['runs']}; "
                )
        told += (
            f"clock ratio {timing['clock_ratio']:.2f}, overhead "
            f"{timing.get('overhead_us', 0):.0f} us, {timing.get('gpu')} "
            f"checked {timing['outputs_checked']} "
            f"{timing['compile_error']}{timing['rejected']}"
        )
        if rejected:
            assert timing["rejected"].startswith(rejected), told
        else:
            assert timing["rejected"] == "", told
            assert timing["outputs_checked"] > 0, told
            floor_us = timing["gpu"]["floor_us"]
            # Results that fit in the L2 need not reach memory in time.
            assert timing["candidate"]["median_us"] > 0.5 * floor_us, told
        return told

    def run(self):
        step = self.step
        step("context", self.context)
        step("probe", self.probe)
        if not self.arch:
            return
        step("honest is accepted", self.check, "honest", "correct")
        step("again, all warm", self.check, "honest", "correct")
        step("scratch and shared memory", self.check, "two_steps", "correct")
        step("wrong", self.check, "wrong", "wrong")
        step("never written", self.check, "no_op", "wrong", "never written")
        step("writes beyond", self.check, "beyond", "cheated", "outside")
        step("writes to its input", self.check, "writes_input", "cheated", "x0")
        step("strays far", self.check, "stray", "crashed", "CUDA_ERROR")
        step("hangs", self.check, "hangs", "timed_out", "", kernels.COUNT, QUICK)
        step("honest after these", self.check, "honest", "correct")
        step("honest is timed", self.time, "honest")
        step("idle after the check", self.time, "idle_later", "wrong")
        step("large", self.check, "honest", "correct", "", kernels.LARGE_COUNT)
        step("large and wrong", self.check, "wrong", "wrong", "", kernels.LARGE_COUNT)
        step("large is timed", self.time, "honest", "", kernels.LARGE_COUNT)
        step("a model", self.check_model, "same", "correct")
        step("a wrong model", self.check_model, "no_relu", "wrong")
        step("a model is timed", self.time_model, "same")
        step("a model on another stream", self.time_model, "side_stream", "cheated")


def main():
    parser = argparse.ArgumentParser(description="Try weft on this GPU.")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--skip-compile", action="store_true", help="without torch.compile, which takes longest"
    )
    folder = tempfile.mkdtemp(prefix="weft-gpu-self-test-")
    test = SelfTest(parser.parse_args(), folder)
    try:
        test.run()
    finally:
        test.server.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(test.failed)} failed: {', '.join(test.failed)}")
    return 1 if test.failed or not test.arch else 0


if __name__ == "__main__":
    sys.exit(main())
