"""Journals that the simulator wrote are looked into as real ones are
(test_debugging.py): stepped through, asked for states, forked, compared, shown.
They have what a real run seldom has: lost and doubled answers, crashes, places
that come and go."""

import json
import os
import shutil
import tempfile
import unittest

from weft_case import WeftCase, events_of

#: What a seed comes to changes with the simulator: of these, the first two that
#: are neither short nor long, and were given an answer too late, are taken.
SEEDS = range(25, 125)
EVENTS = range(150, 350)


def setUpModule():
    """Two runs for all tests: none changes them."""
    place = tempfile.mkdtemp(prefix="weft-simulated-")
    unittest.addModuleCleanup(shutil.rmtree, place, ignore_errors=True)
    case = WeftCase()
    case.folder = place
    for seed in map(str, SEEDS):
        out = os.path.join(place, seed)
        done = case.weft("simulate", "--random-seeds", seed, "--out", out)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        events = events_of(out)
        was_late = any(event["dst"] == "stale" for event in events)
        if len(events) in EVENTS and was_late:
            SimulatedRuns.runs[out] = events
        if len(SimulatedRuns.runs) == 2:
            return
    raise AssertionError(f"no two of the seeds {SEEDS} are such runs")


class SimulatedRuns(WeftCase):
    runs = {}  # {run directory: its events}

    def answers(self, run, *lines):
        """What `weft replay --step --json` says to these commands."""
        done = self.weft("replay", run, "--step", "--json", told="\n".join(lines) + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def told(self, *words):
        done = self.weft(*words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_they_replay(self):
        for run in self.runs:
            self.assert_replays(run)

    def test_steps_lead_over_every_event_and_back(self):
        for run, events in self.runs.items():
            last = len(events)
            got = self.answers(run, *["next"] * last, *["back"] * (last - 1))
            self.assertEqual(
                [event["seq"] for event in got], [*range(1, last + 1), *range(last - 1, 0, -1)]
            )
            self.assertEqual(got[:last], events)

    def test_breaks_stop_at_each_that_fits_and_no_other(self):
        for run, events in self.runs.items():
            builds = [event["seq"] for event in events if event["type"] == "BuildReply"]
            got = self.answers(run, "break type BuildReply", *["continue"] * len(builds))
            self.assertEqual([event["seq"] for event in got[1:]], builds)

    def test_every_event_s_causes_lead_back_to_the_first(self):
        for run, events in self.runs.items():
            chains = self.answers(run, *(f"why {event['seq']}" for event in events))
            for event, chain in zip(events, chains):
                self.assertEqual(chain[0], event)
                self.assertEqual(
                    [one["cause"] for one in chain], [one["seq"] for one in chain[1:]] + [0]
                )

    def test_each_tenth_event_has_the_states_of_its_roles(self):
        for run, events in self.runs.items():
            for seq in range(10, len(events) + 1, 10):
                moment = self.told("replay", run, "--at", str(seq))
                states = self.told("replay", run, "--at", str(seq), "--state", "all")
                self.assertEqual([state["role"] for state in states], moment["roles"])
                told = {state["role"]: state["state"] for state in states}
                self.assertEqual(
                    told["extractor"]["run"]["problem_name"], events[0]["body"]["problem_name"]
                )
            # A role alone, forward and back, knows what it does among all.
            *_, last = states
            role = last["role"]
            alone = self.answers(run, f"to {seq}", f"state {role}", "b 5", "n 5", f"state {role}")
            self.assertEqual(alone[1], alone[4])
            self.assertEqual(alone[1]["state"], last["state"])

    def test_a_fork_at_each_tenth_event_replays(self):
        for run, events in self.runs.items():
            for seq in range(10, len(events) + 1, 10):
                out = self.path(f"fork-{os.path.basename(run)}-{seq}")
                done = self.weft("fork", run, "--at", str(seq), "--out", out, "--only-make")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assert_replays(out)
                self.assertEqual(events_of(out), events[:seq])

    def test_another_answer_stands_in_a_fork_and_diff_finds_it(self):
        for run, events in self.runs.items():
            answer = next(
                event
                for event in events
                if event["type"] == "CheckReply"
                and event["dst"].startswith("worker/")
                and event["body"]["verdict"]["correct"]
            )
            changed = self.write(
                "answer.json",
                json.dumps({"verdict": {"correct": False, "kind": "wrong", "reason": "said so"}}),
            )
            out = self.path("fork-" + os.path.basename(run))
            done = self.weft(
                "fork",
                run,
                "--at",
                str(answer["seq"]),
                "--reply",
                changed,
                "--out",
                out,
                "--only-make",
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_replays(out)
            last = events_of(out)[-1]
            self.assertEqual(last["body"]["verdict"]["reason"], "said so")
            self.assertEqual(last["body"]["effect"], answer["body"]["effect"])
            origin = self.weft("show", out).stdout
            self.assertIn(f"at event {answer['seq']}", origin)
            parted = self.weft("diff", run, out)
            self.assertEqual(parted.returncode, 1, parted.stderr)

    def test_they_are_shown_and_exported(self):
        for run, _ in self.runs.items():
            page = self.path("page.html")
            done = self.weft("show", run, "--html", page)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.getsize(page))
            for form in ("trace", "otlp", "csv", "pairs"):
                done = self.weft("export", form, run)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_one_seed_is_kept_and_nothing_overwritten(self):
        run = next(iter(self.runs))
        self.assert_ends(
            self.weft("simulate", "--random-seeds", "3", "--out", run), 2, "holds a run already"
        )
        self.assert_ends(
            self.weft("simulate", "--random-seeds", "0..3", "--out", self.path("out")),
            2,
            "name one seed",
        )
        self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    unittest.main()
