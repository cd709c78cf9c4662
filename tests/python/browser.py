"""Chromium without a window or a network, told what to do over a pipe in the
DevTools protocol: https://chromedevtools.github.io/devtools-protocol/."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

#: Far above what a page takes on a busy machine.
PATIENCE_S = 120

FLAGS = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
]


def chromium():
    """Its path, or None: a test is skipped then, and says so."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page. What the page says in its console, and what it asks of a
    network, is kept. `reaches`: an address that it may ask all the same."""

    def __init__(self, width=1280, height=900, reaches=None):
        but = f", EXCLUDE {reaches}" if reaches else ""
        self.profile = tempfile.mkdtemp(prefix="weft-browser-")
        their_in, self.to = os.pipe()
        self.of, their_out = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{their_in} 4>&{their_out}',
                "bash",
                chromium(),
                *FLAGS,
                f"--user-data-dir={self.profile}",
                f"--host-resolver-rules=MAP * ~NOTFOUND{but}",
                f"--window-size={width},{height}",
                "about:blank",
            ],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self.number = 0
        self.left = b""
        self.console = []
        self.requests = []
        self.events = []
        self.session = None
        target = next(
            t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"
        )
        self.session = self.ask("Target.attachToTarget", flatten=True, targetId=target["targetId"])[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        self.ask(
            "Network.emulateNetworkConditions",
            offline=not reaches,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.of)
        shutil.rmtree(self.profile, ignore_errors=True)

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.next_message(deadline, method)
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.take(answer)

    def next_message(self, deadline, what):
        while b"\0" not in self.left:
            ready, _, _ = select.select([self.of], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self.of, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError(f"chromium gave no answer to {what}")
            self.left += data
        data, self.left = self.left.split(b"\0", 1)
        return json.loads(data)

    def take(self, event):
        method, body = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = body["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(arg.get("value")) for arg in body["args"]))
        elif method == "Log.entryAdded":
            self.console.append(body["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(body["request"]["url"])
        self.events.append(method)

    def open(self, url):
        """Returns when the page has loaded."""
        self.events.clear()
        self.ask("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE_S
        while "Page.loadEventFired" not in self.events:
            self.take(self.next_message(deadline, "Page.navigate"))

    def run(self, script):
        """The script's value; a promise's when it is kept."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script):
        """Until it is true: the page is asked after each frame it draws."""
        kept = self.run(
            "new Promise((done) => { const ask = () => {"
            f" if ({script}) done(true);"
            f" else if (performance.now() > {PATIENCE_S * 1000}) done(false);"
            " else setTimeout(ask, 20); }; ask(); })"
        )
        if not kept:
            raise RuntimeError("never true: " + script)

    def size(self, width, height, mobile=False):
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def scheme(self, name):
        self.ask(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def picture(self, path, whole=True):
        import base64

        data = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
