"""Through a stranger's server: LiteLLM's proxy in front of the scripted one.

It takes a separate environment, and is skipped where there is none:
    python3 -m venv ENV && ENV/bin/pip install 'litellm[proxy]'
    WEFT_LITELLM=ENV/bin/litellm ctest -R python_litellm
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from llm_server import LlmServer, Reply

LITELLM = os.environ.get("WEFT_LITELLM") or shutil.which("litellm")
KEY = "sk-proxy-0123456789abcdef"

# It imports half of PyPI before it answers.
START_S = 180


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipUnless(LITELLM, "no LiteLLM here: see this file's first lines")
class LiteLlm(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.reply = Reply(text="ready")
        server = LlmServer(lambda call: self.reply)
        self.server = server.__enter__()
        self.addCleanup(server.__exit__)
        self.start_proxy()

    def start_proxy(self):
        config = os.path.join(self.folder, "litellm.yaml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "model_list": [
                        {
                            "model_name": "mini",
                            "litellm_params": {
                                "model": "openai/scripted",
                                "api_base": self.server.openai_url,
                                "api_key": "upstream",
                                "max_retries": 0,
                            },
                        }
                    ],
                    "router_settings": {"num_retries": 0},
                    "general_settings": {"master_key": KEY},
                },
                file,
            )
        port = free_port()
        environment = {
            name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")
        }
        # Its own directory: it writes and reads files in the current one.
        self.proxy = subprocess.Popen(
            [LITELLM, "--config", config, "--host", "127.0.0.1", "--port", str(port)],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
        self.addCleanup(self.stop_proxy)
        self.url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            self.assertIsNone(self.proxy.poll(), "LiteLLM ended")
            try:
                urllib.request.urlopen(self.url + "/health/liveliness", timeout=5)
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        self.fail("LiteLLM did not come up")

    def stop_proxy(self):
        self.proxy.kill()
        self.proxy.wait()

    def check(self):
        settings = os.path.join(self.folder, "settings.toml")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(
                f'[llm.mini]\nbase_url = "{self.url}/v1"\nmodel = "mini"\nkey_env = "PROXY_KEY"\n'
            )
        done = subprocess.run(
            [os.environ["WEFT_BIN"], "llm", "check", "mini", "--json", "--config", settings],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=os.environ | {"PROXY_KEY": KEY, "XDG_CONFIG_HOME": self.folder},
        )
        self.assertNotIn(KEY, done.stdout + done.stderr)
        return json.loads(done.stdout.split("\n")[0]), done

    def test_answers_and_failures_come_through(self):
        said, done = self.check()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(said["answer"], "ready")
        self.assertEqual(said["usage"]["input"] + said["usage"]["cached"], 100)
        self.reply = Reply(status=429, error={"message": "slow down"})
        said, done = self.check()
        self.assertEqual(said["failure"], "rate_limited", done.stderr)
        self.reply = Reply(status=429, error={"message": "Budget has been exceeded!"})
        said, done = self.check()
        self.assertEqual(said["failure"], "quota", done.stderr)


if __name__ == "__main__":
    unittest.main()
