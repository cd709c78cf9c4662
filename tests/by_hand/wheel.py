"""A whole `pip install`: builds the wheel by its own backend, installs it into an
empty environment, and uses it there with nothing of the checkout in reach. Then
moves it, and asks auditwheel which Linux it needs.

    python tests/by_hand/wheel.py [--build DIR] [--wheel FILE]

--build: a build folder that is gone on from; --wheel: a wheel that is there. Otherwise all
is compiled, which takes minutes. The environment borrows PyTorch from the Python that runs
this. Needs pip and the network, for scikit-build-core and auditwheel."""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILDER = "scikit-build-core>=0.10"
PROBLEM = os.path.join(ROOT, "examples", "01_pointwise_chain.py")

# What a user's own program says, without a word of weft's package.
BY_NAME = """
import torch
import torch._dynamo
assert "weft" in torch._dynamo.list_backends(), torch._dynamo.list_backends()
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(),
                            torch.nn.LayerNorm(512)).eval()
x = torch.randn(512, 512)
compiled = torch.compile(model, backend="weft",
                         options={"wait": True, "budget_s": 300})
with torch.no_grad():
    for _ in range(3):
        torch.testing.assert_close(compiled(x), model(x))
import weft
print(weft.explain())
"""


def run(words, **options):
    """The seconds and the text of a command; what it said, if it fails."""
    begin = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    text = done.stdout + done.stderr
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\nended with {done.returncode}:\n{text}")
    return time.monotonic() - begin, text


def say(what, seconds, text=""):
    print(f"{what}: {seconds:.1f} s{'; ' + text if text else ''}", flush=True)


def build_wheel(folder, build):
    words = [sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--wheel-dir", folder, "-q"]
    environment = dict(os.environ)
    if build:
        words += [
            "--config-settings",
            f"build-dir={os.path.abspath(build)}",
            "--no-build-isolation",
        ]
        tools = folder + "-tools"
        run([sys.executable, "-m", "pip", "install", "-q", "--target", tools, BUILDER])
        environment["PYTHONPATH"] = tools
    seconds, _ = run(words, env=environment)
    (name,) = [name for name in os.listdir(folder) if name.endswith(".whl")]
    path = os.path.join(folder, name)
    say("pip wheel", seconds, f"{name}, {os.path.getsize(path) / 1e6:.1f} MB")
    return path


class Environment:
    """A new one, in which weft is installed and PyTorch is borrowed."""

    def __init__(self, folder, wheel):
        self.folder = folder
        run([sys.executable, "-m", "venv", folder])
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.site = os.path.join(folder, "lib", version, "site-packages")
        with open(os.path.join(self.site, "borrowed.pth"), "w", encoding="utf-8") as file:
            file.write(sysconfig.get_paths()["purelib"] + "\n")
        say(
            "pip install",
            run(
                [
                    self.program("python"),
                    "-m",
                    "pip",
                    "install",
                    "-q",
                    "--no-deps",
                    "--no-index",
                    wheel,
                ]
            )[0],
        )

    def program(self, name):
        return os.path.join(self.folder, "bin", name)

    def use(self, *words):
        """With nothing of the checkout in reach."""
        home = os.path.join(self.folder, "home")
        os.makedirs(home, exist_ok=True)
        return run(words, cwd=home, env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": home})

    def check(self, where):
        path = self.use(self.program("python"), "-c", "import weft; print(weft.__file__)")[1]
        assert path.startswith(self.site), path
        seconds, text = self.use("weft", "--version")
        say(f"{where}: weft --version", seconds, text.strip())
        seconds, text = self.use("weft", "doctor")
        assert self.site in text, text
        say(f"{where}: weft doctor", seconds)
        seconds, text = self.use(
            "weft",
            "run",
            PROBLEM,
            "--out",
            os.path.join(self.folder, "run"),
            "--variants",
            "2",
            "--no-compile-baseline",
        )
        say(f"{where}: weft run", seconds, text.strip().splitlines()[-2])
        shutil.rmtree(os.path.join(self.folder, "run"))
        seconds, text = self.use(self.program("python"), "-c", BY_NAME)
        say(f'{where}: torch.compile(backend="weft")', seconds, text.strip().splitlines()[0])


def check_moved(folder, wheel):
    """Programs find their libraries and Python from wherever they lie."""
    target = os.path.join(folder, "first")
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            "--target",
            target,
            wheel,
        ]
    )
    moved = os.path.join(folder, "second place")
    os.rename(target, moved)
    seconds, text = run(
        [os.path.join(moved, "weft", "native", "bin", "weft"), "doctor"],
        env={"PATH": "/usr/bin:/bin", "WEFT_PYTHON": sys.executable, "HOME": folder},
    )
    assert moved in text, text
    say("moved elsewhere: weft doctor", seconds)


def audit(folder, wheel):
    """Which Linux it runs on, by tools/wheel, which tags it."""
    seconds, text = run(
        [os.path.join(ROOT, "tools", "wheel"), "--wheel", wheel, "--out", folder],
        env={**os.environ, "PYTHON": sys.executable},
    )
    say("tools/wheel", seconds, text.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", help="a build folder that is gone on from")
    parser.add_argument("--wheel", help="a wheel that was built before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-wheel-") as folder:
        wheel = options.wheel or build_wheel(os.path.join(folder, "wheel"), options.build)
        Environment(os.path.join(folder, "new"), wheel).check("installed")
        check_moved(folder, wheel)
        audit(folder, wheel)


if __name__ == "__main__":
    main()
