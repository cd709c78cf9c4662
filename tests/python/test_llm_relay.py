"""tools/llm-relay: answers that somebody writes into files."""

import glob
import json
import os
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

from llm_case import RIGHT, LlmCase, kernel
from weft_case import ROOT, WEFT

RELAY = os.path.join(ROOT, "tools", "llm-relay")
WAIT_S = 120


class Relay(LlmCase):
    def setUp(self):
        super().setUp()
        self.prompts = os.path.join(self.folder, "prompts")
        self.relay = self.start()

    def start(self):
        process = subprocess.Popen(
            [sys.executable, RELAY, self.prompts, "--port", "0"], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("base_url"):
                self.openai_url = json.loads(line.split("=", 1)[1])
            if line.startswith("prices"):
                break
        return process

    def answer(self, number, text):
        """Writes it in two parts once the prompt is there; the prompt."""
        prompt = os.path.join(self.prompts, f"{number:04}.prompt.md")
        until = time.monotonic() + WAIT_S
        while not os.path.exists(prompt) and time.monotonic() < until:
            time.sleep(0.05)
        with open(
            os.path.join(self.prompts, f"{number:04}.answer.md"), "w", encoding="utf-8"
        ) as file:
            file.write(text[:10])
            file.flush()
            file.write(text[10:])
        with open(prompt, encoding="utf-8") as file:
            return file.read()

    def ask(self, prompt, **more):
        request = urllib.request.Request(
            self.openai_url + "/chat/completions",
            data=json.dumps({"messages": [{"role": "user", "content": prompt}], **more}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]

    def test_a_run_is_answered_by_files(self):
        writer = threading.Thread(target=lambda: self.answer(1, kernel(RIGHT)), daemon=True)
        writer.start()
        done = self.run_weft(self.words(self, "--rounds", "0", model="relay"))
        writer.join()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        [prompt] = glob.glob(os.path.join(self.prompts, "*.prompt.md"))
        with open(prompt, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("<!-- system -->"), text[:80])
        self.assertIn("\n<!-- user -->\n", text)
        self.it_replays()

    def test_a_prompt_keeps_its_answer_when_it_is_asked_again(self):
        writer = threading.Thread(target=self.answer, args=(1, "forty-two"))
        writer.start()
        self.assertEqual(self.ask("what?"), "forty-two")
        writer.join()
        self.relay.kill()
        self.relay.wait()
        self.start()
        self.assertEqual(self.ask("what?"), "forty-two")
        self.assertEqual(len(os.listdir(self.prompts)), 2)

    def test_two_that_ask_the_same_at_once_get_an_answer_each(self):
        got = []
        asking = [threading.Thread(target=lambda: got.append(self.ask("which?"))) for _ in range(2)]
        for thread in asking:
            thread.start()
        self.answer(1, "the first")
        self.answer(2, "the second")
        for thread in asking:
            thread.join()
        self.assertEqual(sorted(got), ["the first", "the second"])

    def test_what_cannot_be_answered_is_refused_with_a_reason(self):
        for body, words in (({"n": 2}, "native_samples"), ({"messages": []}, "no mess")):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask("x", **body)
            self.assertEqual(refused.exception.code, 400)
            self.assertIn(words, refused.exception.read().decode())
            refused.exception.close()

    def test_check_names_the_relay(self):
        done = self.run_weft(
            [
                WEFT,
                "llm",
                "models",
                "relay",
                "--config",
                self.write(
                    "settings.toml",
                    f'[llm.relay]\ndialect = "openai"\nmodel = "relay"\n'
                    f'base_url = "{self.openai_url}"\n',
                ),
            ]
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("relay", done.stdout)


if __name__ == "__main__":
    unittest.main()
