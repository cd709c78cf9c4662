"""`weft llm` over HTTP/2, against a server that speaks nothing else. Skipped
where the `h2` package is not installed (tools/test installs it)."""

import unittest

from llm_case import RIGHT, LlmCase, kernel
from llm_server import Reply, make_certificate
from test_llm_wire import Wire

try:
    from h2_server import Http2Server
except ImportError:
    Http2Server = None

WHY = "no h2 package here: pip install h2"


@unittest.skipIf(Http2Server is None, WHY)
class Http2(Wire):
    def setUp(self):
        super().setUp()
        self.certificate = make_certificate(self.folder)

    def ask(self, reply):
        with Http2Server(lambda call: reply, self.certificate) as server:
            said = self.check(server.openai_url, ca_file=self.certificate[0])
            self.assertEqual(len(server.calls), 1)
            self.assertEqual(server.calls[0].headers[":method"], "POST")
        return said

    def test_answers(self):
        said = self.ask(Reply(text="ready " * 5000, headers={"x-ratelimit-limit-requests": "500"}))
        self.assert_answer(said, "ready " * 5000)
        self.assertEqual(said["limits"]["requests"], 500)

    def test_refusals(self):
        said = self.ask(Reply(status=429, headers={"retry-after": "3"}))
        self.assert_failure(said, "rate_limited")
        self.assertEqual(said["retry_after_ms"], 3000)

    def test_a_stream_that_is_reset_may_be_billed(self):
        said = self.ask(Reply(text="x" * 5000, cut=True))
        self.assert_failure(said, "failed", billed=True)


@unittest.skipIf(Http2Server is None, WHY)
class Http2Runs(LlmCase):
    def test_calls_at_once_share_a_connection(self):
        certificate = make_certificate(self.folder)
        bodies = [f"v * {i}.0f" for i in range(3, 6)] + [RIGHT]

        def answer(call):
            return kernel(bodies[(call.number - 1) % len(bodies)])

        with Http2Server(answer, certificate, gather=4) as server:
            done = self.run_weft(
                self.words(server, "--rounds", "0", samples=4, ca_file=certificate[0])
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(server.calls), 4)
            self.assertEqual(server.at_once_max, 4)
            self.assertEqual(server.connections, 1)
        self.assertIn("kernel_function", self.only_file("kernels/*/kernel.py"))


if __name__ == "__main__":
    unittest.main()
