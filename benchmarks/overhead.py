"""weft's own share of a run's wall time, from its journal.

    python benchmarks/overhead.py RUN [--wall SECONDS]

Own time is what is not spent while a capture, a build, a check or a timing is under way:
the wall time less the union of the intervals from each request to its reply. The journal
sees from the first event to the last; --wall gives the time of the whole process (start,
exit) instead, as the shell measured it.
"""

import argparse
import sqlite3
from pathlib import Path

WORK = ("port/capture", "port/build", "port/verify")


def read_events(run):
    file = Path(run) / "journal.db"
    database = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return database.execute(
            "SELECT seq, at_us, cause, src, dst FROM event ORDER BY seq"
        ).fetchall()
    finally:
        database.close()


def union_us(intervals):
    """The length of the union of (start, end) pairs."""
    total, reached = 0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def work_intervals(events):
    """From each request to a working port to its reply, by port."""
    asked, intervals = {}, {port: [] for port in WORK}
    for seq, at_us, cause, src, dst in events:
        if dst in WORK:
            asked[seq] = at_us
        elif src in WORK and cause in asked:
            intervals[src].append((asked.pop(cause), at_us))
    last_us = events[-1][1]
    for start in asked.values():  # still under way when the run ended
        intervals[WORK[-1]].append((start, last_us))
    return intervals


def own_share(run, wall_s=None):
    """(own seconds, wall seconds, seconds by port)."""
    events = read_events(run)
    intervals = work_intervals(events)
    busy_us = union_us(sum(intervals.values(), []))
    wall_us = wall_s * 1e6 if wall_s else events[-1][1] - events[0][1]
    by_port = {port: union_us(spans) / 1e6 for port, spans in intervals.items()}
    return (wall_us - busy_us) / 1e6, wall_us / 1e6, by_port


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--wall", type=float, metavar="SECONDS")
    flags = parser.parse_args()
    own, wall, by_port = own_share(flags.run, flags.wall)
    for port, busy in by_port.items():
        print(f"{port:13s} {busy:8.3f} s")
    print(f"weft's own    {own:8.3f} s of {wall:.3f} s: {own / wall:.2%}")


if __name__ == "__main__":
    main()
