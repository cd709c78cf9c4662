"""500 streams at once: starts a scripted server and bench_llm_streams on it.

python benchmarks/llm_streams.py [STREAMS] [BUILD FOLDER]
"""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))

from llm_server import LlmServer, Reply  # noqa: E402

# Each stream: 8 kB of text in 200 events over 10 s, as a slow model gives it.
REPLY = Reply(text="x" * 8000, chunk_chars=40, event_delay_s=0.05)


def main():
    streams = sys.argv[1] if len(sys.argv) > 1 else "500"
    build = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "build")
    with LlmServer(lambda call: REPLY) as server:
        done = subprocess.run(
            [os.path.join(build, "bench_llm_streams"), server.openai_url, streams], check=False
        )
        print(f"the server had {server.at_once_max} at once")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
