"""`weft llm` over real sockets: each way in which a server can misbehave.

Every case is one call to a scripted server, and weft's result: the answer, or
the failure, whether it may be retried, and whether it may have been billed.
"""

import gzip
import json
import os
import socket
import subprocess
import tempfile
import unittest

from llm_server import LlmServer, Reply, event, make_certificate

KEY = "sk-test-0123456789abcdef"

# Far above what a case takes, far below what hangs.
PATIENCE_S = 60


def environment(folder, **more):
    kept = {
        name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")
    }
    return kept | {"HOME": folder, "XDG_CONFIG_HOME": folder, "TEST_KEY": KEY} | more


class Wire(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def settings(self, url, dialect="openai", **more):
        """Writes the settings of a provider "mini"; returns their file."""
        values = {"dialect": dialect, "base_url": url, "model": "m-1", "key_env": "TEST_KEY"} | more
        path = os.path.join(self.folder, "settings.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("[llm.mini]\n")
            for name, value in values.items():
                file.write(f"{name} = {json.dumps(value)}\n")
        return path

    def weft(self, *words, **variables):
        done = subprocess.run(
            [os.environ["WEFT_BIN"], *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=self.folder,
            check=False,
            env=environment(self.folder, **variables),
        )
        self.assertNotIn(KEY, done.stdout + done.stderr)
        return done

    def check(self, url, variables=None, **settings):
        """The check's JSON line and exit code."""
        path = self.settings(url, **settings)
        done = self.weft("llm", "check", "mini", "--json", "--config", path, **(variables or {}))
        # By this byte alone: an answer may hold U+2028.
        line = json.loads(done.stdout.split("\n")[0]) if done.stdout else {}
        return line | {"exit_code": done.returncode, "stderr": done.stderr}

    def ask(self, reply, dialect="openai", **settings):
        """What weft makes of that reply, in that dialect."""
        with LlmServer(lambda call: reply) as server:
            url = server.anthropic_url if dialect == "anthropic" else (server.openai_url)
            said = self.check(url, dialect=dialect, **settings)
            self.assertEqual(len(server.calls), 1)
        return said

    def assert_answer(self, said, text, **more):
        self.assertEqual(said["exit_code"], 0, said)
        self.assertEqual(said["answer"], text)
        for name, value in more.items():
            self.assertEqual(said[name], value, name)

    def assert_failure(self, said, code, billed=False, words=""):
        self.assertEqual(said.get("failure"), code, said)
        self.assertEqual(said["billed_maybe"], billed)
        self.assertNotEqual(said["exit_code"], 0)
        self.assertIn(words, said["stderr"])


class Answers(Wire):
    def test_each_dialect_answers(self):
        usage = {"input": 100, "cached": 40, "written": 0, "output": 20, "reasoning": 5}
        for dialect in ("openai", "anthropic", "responses"):
            with self.subTest(dialect):
                said = self.ask(Reply(text="ready", usage=usage, model="m-1-x"), dialect)
                self.assert_answer(
                    said, "ready", model="m-1-x", finish_reason="stop", request_id="req_scripted"
                )
                self.assertEqual(said["usage"]["input"], 60)
                self.assertEqual(said["usage"]["cached"], 40)
                reasoning = 0 if dialect == "anthropic" else 5
                self.assertEqual(said["usage"]["output"], 20 - reasoning)

    def test_key_and_prompt_are_sent(self):
        for dialect, header, value in (
            ("openai", "authorization", "Bearer " + KEY),
            ("anthropic", "x-api-key", KEY),
            ("responses", "authorization", "Bearer " + KEY),
        ):
            with self.subTest(dialect), LlmServer(lambda call: "ready") as server:
                url = server.anthropic_url if dialect == "anthropic" else (server.openai_url)
                self.check(url, dialect=dialect)
                self.assertEqual(server.calls[0].headers[header], value)
                self.assertIn("ready", server.calls[0].prompt)
                self.assertTrue(server.calls[0].body["stream"])

    def test_a_server_that_does_not_stream(self):
        body = {
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "whole"}}],
        }
        said = self.ask(Reply(raw=json.dumps(body).encode(), content_type="application/json"))
        self.assert_answer(said, "whole")
        self.assertFalse(said["usage"]["known"])

    def test_limits_of_headers(self):
        said = self.ask(
            Reply(
                text="x",
                headers={
                    "x-ratelimit-limit-requests": "500",
                    "x-ratelimit-remaining-requests": "499",
                    "x-ratelimit-reset-requests": "6m0s",
                },
            )
        )
        self.assertEqual(said["limits"]["requests"], 500)
        self.assertEqual(said["limits"]["requests_reset_ms"], 360_000)
        self.assertEqual(said["limits"]["tokens"], -1)

    def test_costs_by_the_settings_prices(self):
        with LlmServer(lambda call: "ready") as server:
            path = self.settings(server.openai_url)
            with open(path, "a", encoding="utf-8") as file:
                file.write("[llm.mini.prices]\ninput = 3.0\noutput = 15.0\n")
            done = self.weft("llm", "check", "mini", "--json", "--config", path)
        self.assertEqual(json.loads(done.stdout)["micro_usd"], 100 * 3 + 20 * 15)

    def test_a_refusal_is_an_answer_with_that_reason(self):
        for dialect in ("openai", "anthropic"):
            with self.subTest(dialect):
                said = self.ask(Reply(text="I can't", finish="refusal"), dialect)
                self.assert_answer(said, "I can't", finish_reason="refusal")

    def test_an_answer_that_was_too_long(self):
        for dialect in ("openai", "anthropic", "responses"):
            with self.subTest(dialect):
                said = self.ask(Reply(text="half", finish="length"), dialect)
                self.assert_answer(said, "half", finish_reason="length")

    def test_an_empty_answer(self):
        for dialect in ("openai", "anthropic", "responses"):
            with self.subTest(dialect):
                self.assert_answer(self.ask(Reply(text=""), dialect), "")


class Streams(Wire):
    """The traps of SSE, each as a whole reply."""

    def edited(self, edit, text="ab\u2028cd\u0085 \U0001f9f5", dialect="openai", **more):
        return self.ask(Reply(text=text, chunk_chars=3, edit=edit, **more), dialect)

    def assert_same(self, edit, **more):
        text = "ab\u2028cd\u0085 \U0001f9f5"
        for dialect in ("openai", "anthropic", "responses"):
            with self.subTest(dialect):
                self.assert_answer(self.edited(edit, dialect=dialect, **more), text)

    def test_byte_by_byte(self):
        self.assert_same(lambda events: [bytes([b]) for e in events for b in e])

    def test_raw_characters_of_several_bytes(self):
        def raw(events):
            return [
                e.decode()
                .encode()
                .decode("unicode_escape")
                .encode("utf-16", "surrogatepass")
                .decode("utf-16")
                .encode()
                if b"\\u" in e
                else e
                for e in events
            ]

        split = self.edited(lambda events: [bytes([b]) for e in raw(events) for b in e])
        self.assert_answer(split, "ab\u2028cd\u0085 \U0001f9f5")

    def test_line_ends(self):
        for end in (b"\r\n", b"\r"):
            with self.subTest(end):
                self.assert_same(lambda events, end=end: [e.replace(b"\n", end) for e in events])

    def test_a_line_end_that_is_split(self):
        def split(events):
            return [
                part for e in events for part in (e[:-1].replace(b"\n", b"\r\n") + b"\r", b"\n")
            ]

        self.assert_same(split)

    def test_comments_and_keep_alives(self):
        self.assert_same(
            lambda events: [
                b": ping\n\n",
                *(b":\n: OPENROUTER PROCESSING\n\nid: 3\n\n" + e for e in events),
            ]
        )

    def test_no_blank_after_the_colon(self):
        self.assert_same(lambda events: [e.replace(b"data: ", b"data:") for e in events])

    def test_a_byte_order_mark(self):
        self.assert_same(lambda events: [b"\xef\xbb\xbf", *events])

    def test_unknown_events(self):
        self.assert_same(
            lambda events: [events[0], event({"type": "news", "new": True}, "news"), *events[1:]]
        )

    def test_missing_done(self):
        self.assert_answer(self.edited(lambda events: events[:-1]), "ab\u2028cd\u0085 \U0001f9f5")

    def test_done_within_the_answer(self):
        self.assert_answer(self.ask(Reply(text="x [DONE] y")), "x [DONE] y")

    def test_the_last_event_has_no_blank_line(self):
        self.assert_same(lambda events: [*events[:-1], events[-1].rstrip()])

    def test_trailing_bytes_after_the_end(self):
        self.assert_same(lambda events: [*events, b"\n\n:bye\n\ndata: nonsense\n\n"])

    def test_usage_is_glued_to_the_last_piece(self):
        usage = {"prompt_tokens": 5, "completion_tokens": 2}
        events = event(
            {
                "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}],
                "usage": usage,
            }
        )
        said = self.ask(Reply(raw=events + event("[DONE]")))
        self.assert_answer(said, "x")
        self.assertEqual(said["usage"]["input"], 5)

    def test_no_usage_is_not_no_cost(self):
        for dialect in ("openai", "anthropic", "responses"):
            with self.subTest(dialect):
                said = self.ask(Reply(text="x", usage=None), dialect)
                self.assert_answer(said, "x")
                self.assertFalse(said["usage"]["known"])

    def test_gzip_that_nobody_asked_for(self):
        stream = event(
            {"choices": [{"index": 0, "delta": {"content": "zip"}, "finish_reason": "stop"}]}
        ) + event("[DONE]")
        said = self.ask(Reply(raw=gzip.compress(stream), headers={"Content-Encoding": "gzip"}))
        self.assert_answer(said, "zip")

    def test_a_long_answer(self):
        text = "kernel " * 200_000
        with LlmServer(lambda call: Reply(text=text, chunk_chars=len(text))) as server:
            self.assert_answer(self.check(server.openai_url), text)

    def test_one_wrong_byte_costs_one_character(self):
        stream = (
            b'data: {"choices":[{"index":0,"delta":{"content":"a\xe4z"},'
            b'"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        )
        self.assert_answer(self.ask(Reply(raw=stream)), "a\ufffdz")

    def test_a_connection_that_stays_open_after_the_end(self):
        # The end of the answer counts, not that of the connection.
        def hang(call):
            return Reply(
                text="x", hang="within", edit=lambda events: [*events, *[b":\n"] * len(events)]
            )

        with LlmServer(hang) as server:
            self.assert_answer(self.check(server.openai_url), "x")


class Failures(Wire):
    def test_a_stream_that_breaks_off_may_be_billed(self):
        for dialect in ("openai", "anthropic", "responses"):
            with self.subTest(dialect):
                said = self.ask(Reply(text="x" * 5000, cut=True), dialect)
                self.assert_failure(said, "failed", billed=True)

    def test_a_stream_that_ends_early_without_breaking(self):
        for dialect in ("openai", "anthropic", "responses"):
            with self.subTest(dialect):
                said = self.ask(Reply(text="x", edit=lambda events: events[:2]), dialect)
                self.assert_failure(said, "failed", billed=True)

    def test_a_malformed_event(self):
        for dialect in ("openai", "anthropic", "responses"):
            with self.subTest(dialect):
                said = self.ask(
                    Reply(
                        text="x",
                        edit=lambda events: [*events[:2], b'data: {"choices": [\n\n', *events[2:]],
                    ),
                    dialect,
                )
                self.assert_failure(said, "failed", True, "not to be understood")

    def test_the_wrong_encoding(self):
        stream = event("x").decode().encode("utf-16")
        self.assert_failure(self.ask(Reply(raw=stream)), "failed", billed=True)

    def test_nothing_at_all(self):
        self.assert_failure(self.ask(Reply(raw=b"")), "failed", True, "empty")

    def test_an_error_event_within_a_good_status(self):
        for dialect, kind, code in (
            ("anthropic", "overloaded_error", "overloaded"),
            ("anthropic", "rate_limit_error", "rate_limited"),
            ("openai", "server_error", "overloaded"),
            ("openai", "insufficient_quota", "quota"),
            ("responses", "rate_limit_error", "rate_limited"),
        ):
            with self.subTest(dialect + " " + kind):
                error = {"type": kind, "message": "the reason"}
                said = self.ask(Reply(text="x" * 2000, error=error), dialect)
                self.assert_failure(said, code, True, "the reason")

    def test_rate_limits(self):
        for headers, wait in (
            ({}, -1),
            ({"retry-after": "3"}, 3000),
            ({"retry-after-ms": "250"}, 250),
        ):
            with self.subTest(str(headers)):
                said = self.ask(
                    Reply(status=429, headers=headers, error={"type": "rate_limit_error"})
                )
                self.assert_failure(said, "rate_limited")
                self.assertEqual(said["retry_after_ms"], wait)

    def test_more_than_two_minutes_are_not_waited_for(self):
        said = self.ask(Reply(status=429, headers={"retry-after": "600"}))
        self.assert_failure(said, "quota", words="600 s")

    def test_overload_and_server_errors(self):
        for status in (500, 503, 529):
            with self.subTest(status):
                self.assert_failure(self.ask(Reply(status=status)), "overloaded")

    def test_no_money(self):
        self.assert_failure(self.ask(Reply(status=402)), "quota")
        self.assert_failure(
            self.ask(Reply(status=429, error={"message": "Budget has been exceeded!"})), "quota"
        )

    def test_an_error_that_is_no_json(self):
        said = self.ask(
            Reply(status=502, raw=b"<html>Bad gateway</html>", content_type="text/html")
        )
        self.assert_failure(said, "overloaded", billed=True)

    def test_a_web_page(self):
        said = self.ask(Reply(raw=b"<html>hello</html>", content_type="text/html"))
        self.assert_failure(said, "wrong_input", words="base_url")

    def test_a_wrong_key_is_told_without_being_shown(self):
        said = self.ask(Reply(status=401, error={"message": f"wrong key {KEY}"}))
        self.assert_failure(said, "wrong_input", words="TEST_KEY")
        self.assertIn("[key]", said["stderr"])
        self.assertEqual(said["exit_code"], 2)

    def test_a_key_in_an_answer_is_taken_out(self):
        self.assert_answer(self.ask(Reply(text=f"your key is {KEY}")), "your key is [key]")

    def test_no_part_of_a_key_stays_where_a_text_is_cut(self):
        told = "x" * 490 + KEY
        for reply in (
            Reply(status=400, error={"message": told}),
            Reply(error={"message": told}),
            Reply(raw=b"data: " + told[400:].encode() + b"\n\n"),
            Reply(raw=b"data: " + told[385:].encode() + b"\n\n"),
        ):
            said = self.ask(reply)
            self.assertNotEqual(said["exit_code"], 0)
            self.assertNotIn(KEY[:4], json.dumps(said))

    def test_names_that_a_server_gives_are_cut(self):
        """The journal holds them, and takes no message of any length."""
        said = self.ask(Reply(text="x", model="m" * 1_000_000))
        self.assert_answer(said, "x")
        self.assertLess(len(said["model"]), 300)
        stream = (
            b'data: {"model": "' + b"\xff" * 1_000_000 + b'", "choices": '
            b'[{"index": 0, "delta": {"content": "x"}, "finish_reason": "'
            + b"s" * 1_000_000
            + b'"}]}\n\ndata: [DONE]\n\n'
        )
        said = self.ask(Reply(raw=stream))
        self.assert_answer(said, "x")
        self.assertLess(len(json.dumps(said)), 4_000)

    def test_a_model_that_is_not_there(self):
        said = self.ask(Reply(status=404, error={"code": "model_not_found"}))
        self.assert_failure(said, "wrong_input", words="weft llm models mini")

    def test_a_redirect_does_not_get_the_key(self):
        with LlmServer(lambda call: "stolen") as thief:
            said = self.ask(
                Reply(status=307, headers={"location": thief.openai_url + "/chat/completions"})
            )
            self.assertEqual(thief.connections, 0)
        self.assert_failure(said, "wrong_input", words=thief.url)

    def test_a_server_that_hangs(self):
        for hang in ("before", "within"):
            with self.subTest(hang):
                said = self.ask(Reply(text="x" * 9000, hang=hang), idle_ms=300)
                self.assert_failure(said, "overloaded", True, "300 ms")

    def test_a_slow_drip_ends_at_the_calls_limit(self):
        reply = Reply(text="x" * 10_000, chunk_chars=1, event_delay_s=0.05)
        said = self.ask(reply, idle_ms=30_000, wall_ms=700)
        self.assert_failure(said, "overloaded", True, "700 ms")

    def test_fifty_megabytes(self):
        piece = event({"choices": [{"index": 0, "delta": {"content": "x" * 2**20}}]})
        said = self.ask(Reply(text="x", edit=lambda events: [piece] * 60))
        self.assert_failure(said, "failed", True, "bytes")

    def test_a_small_zip_that_becomes_large(self):
        bomb = gzip.compress(b": x\n" * (16 << 20))
        said = self.ask(Reply(raw=bomb, headers={"Content-Encoding": "gzip"}))
        self.assert_failure(said, "failed", True, "bytes")

    def test_nobody_there(self):
        with socket.socket() as taken:  # bound, not listening
            taken.bind(("127.0.0.1", 0))
            said = self.check(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        self.assert_failure(said, "failed", words="base_url")

    def test_no_such_host(self):
        said = self.check("https://weft.invalid/v1")
        self.assert_failure(said, "failed", words="weft.invalid")


class Tls(Wire):
    def setUp(self):
        super().setUp()
        self.certificate = make_certificate(self.folder)

    def test_a_strange_certificate_is_not_trusted(self):
        with LlmServer(lambda call: "x", certificate=self.certificate) as server:
            said = self.check(server.openai_url)
            self.assertEqual(server.calls, [])
        self.assert_failure(said, "wrong_input", words="ca_file")

    def test_one_that_the_settings_name_is(self):
        with LlmServer(lambda call: "x", certificate=self.certificate) as server:
            self.assert_answer(self.check(server.openai_url, ca_file=self.certificate[0]), "x")

    def test_one_that_the_environment_names_is(self):
        with LlmServer(lambda call: "x", certificate=self.certificate) as server:
            self.assert_answer(
                self.check(server.openai_url, {"SSL_CERT_FILE": self.certificate[0]}), "x"
            )

    def test_a_server_that_speaks_no_tls(self):
        with LlmServer(lambda call: "x") as server:
            said = self.check(server.openai_url.replace("http:", "https:"), connect_ms=300)
            self.assertEqual(server.calls, [])
        self.assert_failure(said, "failed", words="base_url")


class Settings(Wire):
    def test_a_missing_key_names_its_place(self):
        path = self.settings("http://127.0.0.1:1/v1", key_env="NO_SUCH_KEY")
        done = self.weft("llm", "check", "mini", "--config", path)
        self.assertEqual(done.returncode, 3)
        self.assertIn("NO_SUCH_KEY", done.stderr)

    def test_a_key_from_a_file(self):
        place = os.path.join(self.folder, "key")
        with open(place, "w", encoding="utf-8") as file:
            file.write(KEY + "\n")
        with LlmServer(lambda call: "x") as server:
            path = self.settings(server.openai_url, key_file=place)
            with open(path, encoding="utf-8") as file:
                text = file.read().replace('key_env = "TEST_KEY"\n', "")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = self.weft("llm", "check", "mini", "--config", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(server.calls[0].headers["authorization"], "Bearer " + KEY)

    def test_an_unknown_provider_names_those_there_are(self):
        path = self.settings("http://127.0.0.1:1/v1")
        done = self.weft("llm", "check", "maxi", "--config", path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("mini", done.stderr)

    def test_list_and_models(self):
        with LlmServer(lambda call: "x", models=("m-1", "m-2")) as server:
            path = self.settings(server.openai_url)
            models = self.weft("llm", "models", "mini", "--config", path)
            listed = self.weft("llm", "list", "--config", path)
        self.assertEqual(models.stdout.split(), ["m-1", "m-2"])
        self.assertIn("m-1", listed.stdout)
        self.assertIn("key found", listed.stdout)

    def test_the_folders_file_may_not_send_a_key_elsewhere(self):
        with LlmServer(lambda call: "x") as server:
            path = self.settings(server.openai_url)
            os.rename(path, os.path.join(self.folder, "weft.toml"))
            done = self.weft("llm", "check", "mini")
            self.assertEqual(server.calls, [])
        self.assertEqual(done.returncode, 2)
        self.assertIn("weft.toml:3", done.stderr)


if __name__ == "__main__":
    unittest.main()
