#!/usr/bin/env python3
"""Stands in for the weft program, for tests of what calls it: `fake_weft.py run
PROBLEM --out RUN` gives at once a module whose kernels are the problem's own
operators. FAKE_WEFT says what it does instead. `eval` is the real program's,
unless this is the program, or FAKE_WEFT_EVAL says what comes of it."""

import json
import os
import sys
import threading
import time

HOW = {
    "right": "return super().forward(*args)",
    "wrong": "return tuple(one * 1.5 if one.is_floating_point() else one "
    "for one in super().forward(*args))",
    "raises": "raise RuntimeError('a kernel fell over')",
    "rarely": "results = super().forward(*args)\n"
    "        far = any(float(one.abs().max()) > 50 for one in args)\n"
    "        return tuple(one * 1.5 for one in results) if far else "
    "results",
    "declines": "return self.forward_reference(*args)",
    "later": "type(self).calls += 1\n        if type(self).calls > 1:\n"
    "            raise RuntimeError('the second call fell over')\n"
    "        return super().forward(*args)",
}


def attached(words):
    """The command within `attached --nice N --remove FOLDER COMMAND …`, of which this
    process ends as the real one does when standard input is closed."""
    if words[0] != "attached":
        return words

    def watch():
        while os.read(0, 4096):
            pass
        os._exit(130)

    threading.Thread(target=watch, daemon=True).start()
    words = words[1:]
    while words[0].startswith("--"):
        words = words[2:]
    return words


def evaluate(words):
    """Plays FAKE_WEFT_EVAL; a path there is the program that is asked."""
    how = os.environ.get("FAKE_WEFT_EVAL", "accepted")
    real = os.environ["WEFT_BIN"]
    if os.path.samefile(real, __file__):
        real = how if os.path.isabs(how) else ""
    if real:
        os.execv(real, [real, *sys.argv[1:]])
    asked = os.environ["FAKE_WEFT_RUNS"] + ".eval"
    with open(words[1], encoding="utf-8") as file:
        last = file.read().strip().splitlines()[-1].strip()
    with open(asked, "a", encoding="utf-8") as file:
        file.write(f"{os.path.basename(words[1])} {last}\n")
    with open(asked, encoding="utf-8") as file:
        is_first = len(file.readlines()) == 1
    if how == "hangs" or how == "hangs once" and is_first:
        time.sleep(600)
    if how == "fails":
        sys.exit("weft: the judge fell over")
    is_right = how in ("accepted", "hangs once") or (how == "near once" and not is_first)
    kind = {"near": "wrong", "near once": "wrong"}.get(how, how)
    print(
        json.dumps(
            {
                "accepted": is_right,
                "verdict": {
                    "kind": "correct" if is_right else kind,
                    "reason": "" if is_right else "by a third",
                    "beyond": {"near": 1.5, "near once": 1.5, "wrong": 1000.0}.get(how, 0),
                },
            }
        )
    )
    return 0 if is_right else 1


def main(words):
    words = attached(words)
    if words[0] == "eval":
        return evaluate(words)
    how = os.environ.get("FAKE_WEFT", "right")
    problem, run = words[1], words[words.index("--out") + 1]
    with open(os.environ["FAKE_WEFT_RUNS"], "a", encoding="utf-8") as file:
        file.write(" ".join(words) + "\n")
    if how == "hangs":
        time.sleep(600)
    while how.startswith("waits") and not os.path.exists(os.environ["FAKE_WEFT_RUNS"] + ".go"):
        time.sleep(0.05)
    if how == "one batch" and "--dynamic-dim" in words:
        print("weft: not for any batch", file=sys.stderr)
        sys.exit(2)
    if how in ("fails", "waits and fails"):
        sys.exit("weft: this run fails")
    os.makedirs(os.path.join(run, "composed"))
    with open(problem, encoding="utf-8") as file:
        text = file.read()
    body = HOW.get(how, HOW["right"])
    with open(os.path.join(run, "composed", "model_new.py"), "w", encoding="utf-8") as file:
        file.write(
            f"{text}\n\nclass ModelNew(Model):\n    calls = 0\n\n"
            f"    def forward(self, *args):\n        {body}\n"
        )
    with open(os.path.join(run, "report.md"), "w", encoding="utf-8") as file:
        file.write("a report\n")
    with open(os.path.join(run, "result.json"), "w", encoding="utf-8") as file:
        steers = "\n\x1b[31m\u202eready" * how.endswith("hostile words")
        json.dump(
            {
                "summary": f"played: {how}{steers}",
                "timed": True,
                "timing": {"over_compile": {"ratio": 0.5 if how == "slow" else 2.0}},
                "why_no_kernel": f"no generated kernel is faster here{steers}"
                if how.startswith("nothing")
                else "",
                "subgraphs": [
                    {"reason": "the budget is over" if how in ("short", "nothing yet") else ""}
                ],
            },
            file,
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
