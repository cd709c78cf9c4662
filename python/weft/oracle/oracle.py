"""The oracle: one JSON request a line on standard input, one JSON reply a line on standard
output, until the input ends. Standard error has a line for each request, with its times.

Trusted: it holds references, inputs and expectations. Candidates run in the slot's zygote,
under the sandbox prefix it was started with (--sandbox), which must show SCRATCH/work
writable and SCRATCH/staged read-only. SCRATCH is emptied at the start. A device that is not
there ends the oracle with code 2.

A request has `id` (a number), `verb`, and:

    check          subgraph: path of its graph (docs/reference/graph.md); candidate;
                   random_seed; limits
    time           the same, and baselines: of "eager", "compile", "compile-autotune";
                   budget_ms
    check_model    problem: path; composed: path of model_new.py; mode: "as-is" (default),
                   "eval", "train"; random_seed; limits; rules: of "weft" (default) and
                   "kernelbench"; baselines: "compile" also judges torch.compile's module
                   by KernelBench's rule
    time_model     the same, baselines, budget_ms
    eval           problem; candidate: path of a file with ModelNew or kernel_function;
                   baselines (empty: no timing); budget_ms; precision; mode; interprets:
                   Triton's interpreter stands in for a GPU; random_seed; limits
    prepare_model  problem, mode, random_seed, baselines: makes Model and baselines ready
                   for a later time_model, while other requests run
    probe          gpu: false if the device is known; rates: true adds the processor's
                   read_gbps and fp32_gflops

`candidate` is {"kind": "cpu", "library": path of the built .so}, or with kind "triton" or
"cuda" the path of a kernel package (docs/reference/gpu-package.md). `limits` is {"wall_ms",
"memory_bytes"} for one call of the candidate. A request's precision goes before
--precision.

A reply has `id`, `ok`, and `verdict`, `timing` (docs/reference/worker-protocol.md),
`evaluation` (what `weft eval --json` prints) or `machine`: {"torch", "python", "threads",
"copy_gbps"} and on a device "gpu"; or `error`: {"code", "message"} with code wrong_input,
missing or failed. `waited_ms` is the time it waited for others on the same device.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.oracle.warden_client import OutsideFolders
    from weft.timing.bench import Bench

#: As the candidate and the baseline shall see it.
ENVIRONMENT = dict(os.environ)
# The oracle's own threads must sleep, not spin, while others are timed. Read
# once, when torch loads its OpenMP. (A spin count that is given goes first.)
os.environ["OMP_WAIT_POLICY"] = "passive"
os.environ["GOMP_SPINCOUNT"] = "0"
# What is given back to a device for the other processes must go whole: no small
# tensor may lie in what a large one left. (Expandable segments would do it, too,
# but take twenty times as long to come and go.)
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512")

from weft.candidate.slot import Slot  # noqa: E402
from weft.candidate.zygote_process import Starter, start_zygote  # noqa: E402
from weft.device import garbage, process, shared_memory  # noqa: E402
from weft.judge.job_folders import JobFolders  # noqa: E402
from weft.problem import precision  # noqa: E402
from weft.oracle import command_line, warden_client  # noqa: E402
from weft.oracle.worker_pool import Places  # noqa: E402
from weft.oracle.serving import lines_of, note, serve  # noqa: E402


if __name__ == "__main__":
    # Now: loading torch takes seconds, and weft may be killed meanwhile.
    process.die_with_parent()
    OPTIONS = command_line.parse(None)
    START: Starter = start_zygote
    FOLDERS: JobFolders | warden_client.OutsideFolders
    if OPTIONS.boxed:
        OUTSIDE = warden_client.connect()
        shared_memory.make_with(OUTSIDE.make_memory)
        START, FOLDERS = OUTSIDE.start_zygote, warden_client.OutsideFolders(OUTSIDE)
    else:
        FOLDERS = JobFolders(OPTIONS.scratch)
    PLACES = Places(
        Slot(
            OPTIONS.sandbox,
            OPTIONS.threads,
            ENVIRONMENT,
            OPTIONS.precision,
            OPTIONS.device,
            FOLDERS.renew_work,
            START,
        )
    )
    PLACES.launch(OPTIONS.with_baseline)

with garbage.deferred_collection():
    import torch

    from weft.capture import capture
    from weft.device import gpu_facts, gpu_lock, trace_spans
    from weft.expect import expected
    from weft.judge import kernelbench_tolerance, verify_model, whole_model
    from weft.oracle import candidate_verbs, eval_verdict, reply_errors
    from weft.oracle.host_rates import copy_gbps, processor_rates
    from weft.timing import time_model, timing
    from weft.device.arena import BufferSet
    from weft.device.arena_keeper import ArenaKeeper
    from weft.device.device import HOST, LARGE_BYTES, Device
    from weft.device.cuda_driver import NoDriver
    from weft.problem.problem import is_out_of_memory, load_problem
    from weft.expect.reference import Reference, load_graph


#: Its own results and temporaries of up to so much take memory that was freed: to get
#: their pages anew was 22 of the 106 seconds that processors worked for the demo.
MAPPED_BYTES = 256 << 20, 32 << 20
#: How often it is looked whether others wait for what is kept.
IDLE_POLL_S = 0.05
#: So long without a request, and what is put off keeps none waiting.
QUIET_S = 0.2
#: Of the host's memory that is left, for what is drawn ahead.
DRAWN_SHARE = 1 / 4
#: So long a device's memory is waited for, beyond the room that was given, and
#: so long not again where that was in vain.
SHORT_WAIT_S = 10.0
VAIN_S = 120.0
#: Who waited longer for a device shares it with others that are at work.
BUSY_S = 0.2


class NoRoom(Exception):
    """A device's memory is others' now."""


class Oracle:
    """Answers requests; owns the slot of the candidate and of the baseline."""

    def __init__(
        self,
        scratch: str,
        prefix: Sequence[str],
        threads: int,
        device: str = "cpu",
        exactness: str = "framework",
        places: Places | None = None,
        folders: JobFolders | OutsideFolders | None = None,
    ) -> None:
        self.folders = folders or JobFolders(scratch)
        self.places = places or Places(
            Slot(prefix, threads, ENVIRONMENT, exactness, device, self.folders.renew_work)
        )
        self.slot = self.places.candidate
        self.device = Device(device)
        self.exactness = exactness
        precision.apply(exactness)
        self.lock = self.device.lock = gpu_lock.lock_of(self.device.driver)
        #: What `rest` gives up: the lock that a reply was made under.
        self.holding = contextlib.ExitStack()
        #: Parts of the device's memory: a large request's, and as long after
        #: it as nobody else waits for them …
        self.room = contextlib.ExitStack()
        #: … by the bytes of what it is about, here by that one's file.
        self.bytes: dict[str, int] = {}
        #: Not, where that once was too much.
        self.may_keep = True
        #: The first draw by KernelBench's rule, of the request at hand.
        self.drawn: kernelbench_tolerance.Drawn | None = None
        #: When memory may be sought again.
        self.in_vain_until = 0.0
        #: A `prepare_model` whose process has only begun.
        self.later: dict[str, Any] | None = None
        self.busy_at = 0.0  # when it was done with the last request
        self.threads = threads
        self.keeper = ArenaKeeper(self.device)
        self.known = expected.Library(self.device.expected_bytes_max(), self.device)
        self.timer = timing.Timer(self.slot, self.places.baseline, self.device)
        self.model_timer = self.timer
        if self.places.model_baseline is not self.places.baseline:
            self.model_timer = timing.Timer(self.slot, self.places.model_baseline, self.device)
        self.whole_key: tuple[bytes, int, str, str] | None = None
        self._whole: whole_model.WholeModel | None = None
        #: After some errors a process cannot use its device any more: it ends,
        #: and whoever needs an oracle starts another.
        self.is_lost = False
        self.verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "check": partial(candidate_verbs.check, self),
            "time": partial(candidate_verbs.time, self),
            "check_model": partial(candidate_verbs.check_model, self),
            "time_model": partial(candidate_verbs.time_model, self),
            "prepare_model": self.prepare_model,
            "eval": partial(eval_verdict.evaluate, self),
            "probe": self.probe,
        }

    def answer(self, request: dict[str, Any], at_once: bool = False) -> dict[str, Any]:
        """The reply to one request; never raises for a bad one. Whoever has
        passed it on lets the oracle `rest`. at_once: it fails if it would have
        to wait for room."""
        if request.get("verb") == "time_model":
            self.later = None  # it prepares for itself
        self.catch_up()
        self.rest()
        reply = {"id": request.get("id"), "ok": True}
        try:
            verb = self.verbs.get(request.get("verb", ""))
            if verb is None:
                raise ValueError(f"unknown verb {request.get('verb')!r}")
            self.lock.waited_s = 0.0
            parts = self.parts_for(request)
            if parts > self.lock.room_held:
                self.make_room()
                self.draw_ahead(request)
                self.room.enter_context(self.lock.room(0 if at_once else parts))
                if at_once and not self.lock.extend_room(parts):
                    raise NoRoom("others have the room that it needs")
            if not at_once:
                self.seek_memory()
            self.holding.enter_context(self.lock.shared())
            reply.update(self.attempt(verb, request, at_once))
            if self.lock.waited_s:
                reply["waited_ms"] = self.lock.waited_s * 1000
        except Exception as error:
            reply["ok"] = False
            reply["error"] = reply_errors.explain(error)
            self.is_lost = not self.device.works()
        finally:
            self.drawn = None  # gigabytes, where no rule judged by them
        return reply

    def seek_memory(self) -> None:
        """Where others left little: all that is kept goes, theirs too. Not
        again for a while where that was in vain: who fills the device may be
        no oracle."""
        if time.monotonic() < self.in_vain_until or not self.device.is_short():
            return
        self.give_up_cases()
        self.lock.seek(lambda: not self.device.is_short(), SHORT_WAIT_S)
        if self.device.is_short():
            self.in_vain_until = time.monotonic() + VAIN_S

    def parts_for(self, request: dict[str, Any]) -> int:
        """Of the device's memory, for what the request is about."""
        copies = gpu_lock.ROOM_COPIES
        if not self.device.is_cuda:
            return 0
        if "problem" in request:
            path = request["problem"]
            if path not in self.bytes:  # for sure, once the model was built
                self.bytes[path] = 2 * capture.input_bytes(path)
        elif "subgraph" in request:
            path = request["subgraph"]
            if path not in self.bytes:
                reference = Reference(load_graph(path), self.device.torch)
                self.bytes[path] = BufferSet.bytes_needed(reference.inputs, reference.outputs)
            if self.known.like(path, request.get("random_seed", 0)) is not None:
                copies = gpu_lock.ROOM_COPIES_NEAR
        else:
            return 0
        return self.device.parts_for(self.bytes[path], copies)

    def draw_ahead(self, request: dict[str, Any]) -> None:
        """What takes the processor seconds, and the device no time, where room
        is waited for anyway."""
        if candidate_verbs.NEAR_EAGER_RULE not in request.get("rules", ()):
            return
        size = self.bytes.get(request["problem"], 0)
        if size > HOST.free_bytes() * DRAWN_SHARE:
            return  # many may draw at once
        mode = request.get("mode", "as-is")
        with trace_spans.lap("draw"):
            self.drawn = kernelbench_tolerance.draw(load_problem(request["problem"], mode))

    def attempt(
        self,
        verb: Callable[[dict[str, Any]], dict[str, Any]],
        request: dict[str, Any],
        at_once: bool,
    ) -> dict[str, Any]:
        """The verb; once more with all that is kept given up, and the device's
        memory for itself, if that ran out: here, or for a candidate."""
        try:
            reply = verb(request)
            if not (self.device.is_cuda and reply_errors.lacked_memory(reply)):
                return reply
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            # Its frames, which hold tensors, go with it.
        self.give_up()
        self.may_keep = False
        if at_once:
            raise NoRoom("the device's memory ran out")
        # Room is never waited for within the lock.
        self.holding.close()
        self.room.close()
        self.room.enter_context(self.lock.room(gpu_lock.ROOM_PARTS))
        self.lock.seek(self.device.is_half_free, SHORT_WAIT_S)
        self.holding.enter_context(self.lock.shared())
        self.device.may_be_short = True
        try:
            return verb(request)
        finally:
            self.device.may_be_short = False

    def give_up_cases(self) -> None:
        """What small subgraphs' verdicts are held against: it fills a device
        where many runs keep theirs."""
        with self.lock.shared():
            self.slot.forget_arena()
            self.keeper.close()
            self.known.forget()

    def give_up(self) -> None:
        """Everything that could be made again."""
        self.timer.forget()
        self.model_timer.forget()
        self.whole_key, self._whole = None, None
        self.give_up_cases()
        process.give_back_freed_memory()

    def rest(self) -> None:
        """After a reply, which does not wait for it: the job is over, others
        may have the device, and large things go if they need the memory."""
        with self.holding:
            self.slot.settle()
            if self.keeps():
                return
            if self.may_give_up() and self.lock.is_room_sought():
                self.give_up_cases()
            if self.device.is_cuda and not self.is_lost:
                self.give_back()
        self.room.close()

    def keeps(self) -> bool:
        """Whether large things stay for the next request: while nobody waits
        for room, and there is some for that request beside them."""
        most = max(self.bytes.values(), default=0)
        parts = self.device.parts_for(most, gpu_lock.ROOM_COPIES_KEPT)
        return (
            self.may_keep
            and not self.is_lost
            and self.lock.room_held > 0
            and parts < gpu_lock.ROOM_PARTS
            and self.lock.extend_room(parts)
        )

    def idle(self) -> float | None:
        """While no request comes; in how many seconds again, or None."""
        self.catch_up(time.monotonic() > self.busy_at + QUIET_S)
        if self.lock.room_held and self.lock.is_room_sought():
            self.make_room()
        elif self.may_give_up() and self.lock.is_room_sought():
            self.give_up_cases()
        is_needed = self.later is not None or self.lock.room_held > 0 or self.may_give_up()
        return IDLE_POLL_S if is_needed else None

    def may_give_up(self) -> bool:
        """Whether there is something that others could miss."""
        return self.device.is_cuda and self.known.bytes > LARGE_BYTES

    def catch_up(self, is_quiet: bool = False) -> None:
        """Does what was put off, if that need not wait any more. A small model
        is compiled beside the requests that follow; of a large one nothing but
        the compiler's cache is left then, and it would keep them waiting."""
        if self.later is None or self.model_timer.is_starting:
            return
        if self.parts_for(self.later) and not is_quiet:
            return
        request, self.later = self.later, None
        start = time.perf_counter()
        # What goes wrong will again, where it is asked for; and a request that
        # comes meanwhile has a time limit.
        reply = self.answer(request, at_once=True)
        self.rest()
        note("prepare_model, later,", reply, time.perf_counter() - start, self.device)

    def make_room(self) -> None:
        """No large thing is kept any more."""
        if self.lock.room_held == 0:
            return
        with self.lock.shared():
            self.give_back()
        self.room.close()

    def give_back(self) -> None:
        """Others may sit on the same device, and need the memory more."""
        if self.keeper.is_large:
            self.slot.forget_arena()
            self.keeper.close()
        self.known.rest()
        self.timer.forget_large()
        self.model_timer.forget_large()
        if self._whole is not None and self._whole.is_large:
            self.whole_key, self._whole = None, None
        self.device.give_back_much()

    def ready_to_stage(self) -> None:
        """Has every process of the last candidate gone, and its files with it. A
        sandbox that must start does so before there are files: it gets a folder
        of its own."""
        self.slot.settle()
        self.slot.launch()
        self.folders.begin()

    def keep_build(self, is_right: bool) -> None:
        """For the request that times it."""
        if is_right:
            self.slot.settle()  # a process of it that lives could change the build
            self.folders.keep_build()

    def stage_model(
        self, path: str, whole: whole_model.WholeModel, function_of: bytes | None = None
    ) -> dict[str, Any]:
        """verify_model.stage_model's job, in fresh folders."""
        with open(path, "rb") as file:
            content = file.read()
        self.ready_to_stage()
        return verify_model.stage_model(content, whole, self.folders, function_of)

    def model_bench(
        self, whole: whole_model.WholeModel, request: dict[str, Any]
    ) -> tuple[Callable[[], Bench], tuple[Any, ...]]:
        """(what makes the model's bench, its key)."""
        path = os.path.abspath(request["problem"])
        assert self.whole_key is not None  # whole() has set it
        return lambda: time_model.ModelBench(whole, path), ("model", *self.whole_key)

    def prepare_model(self, request: dict[str, Any]) -> dict[str, Any]:
        """What `time_model` will need: above all torch.compile, which goes on
        beside the requests that follow. What is too large to keep is in its
        disk cache, and is left alone where others wait for the memory. While
        the process for it begins, other requests come first."""
        if self.model_timer.is_starting:
            self.later = request
            return {}
        whole = self.whole(request)
        if whole.is_large and self.lock.waited_s > BUSY_S:
            return {}
        self.model_timer.prepare(*self.model_bench(whole, request), request)
        return {}

    def whole(self, request: dict[str, Any]) -> whole_model.WholeModel:
        """The problem's Model, kept for the request that times it next."""
        with open(request["problem"], "rb") as file:
            exactness = request.get("precision", self.exactness)
            key = (
                file.read(),
                request.get("random_seed", 0),
                exactness,
                request.get("mode", "as-is"),
            )
        if self.whole_key != key:
            # Two large models at once are one too many. A key without its model
            # would stand for no model.
            self.whole_key, self._whole = None, None
            precision.apply(exactness)
            made = whole_model.WholeModel(request["problem"], *key[1:3], self.device, key[3])
            self.whole_key, self._whole = key, made
            self.bytes[request["problem"]] = (
                max(made.bytes_floor, LARGE_BYTES + 1) if made.is_large else 0
            )
            if made.is_large:
                self.device.give_back()  # others take part in what follows
            else:
                self.room.close()
        assert self._whole is not None
        return self._whole

    def probe(self, request: dict[str, Any]) -> dict[str, Any]:
        machine = {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "threads": self.threads,
            "copy_gbps": copy_gbps(),
        }
        if request.get("rates"):
            machine.update(processor_rates())
        if self.device.is_cuda and request.get("gpu", True):
            with self.lock.exclusive():
                machine["gpu"] = gpu_facts.probe(self.device)
        return {"machine": machine}

    def close(self) -> None:
        self.slot.kill()
        self.timer.close()
        self.model_timer.close()
        self.room.close()
        self.lock.close()
        self.folders.close()


def main(options: argparse.Namespace, places: Places, folders: JobFolders | OutsideFolders) -> None:
    # A model that prints must not write into the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    process.keep_freed_memory(*MAPPED_BYTES)
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    try:
        oracle = Oracle(
            options.scratch,
            options.sandbox,
            options.threads,
            options.device,
            options.precision,
            places,
            folders,
        )
    except (ValueError, NoDriver) as error:
        print(f"weft.oracle.oracle: {error}", file=sys.stderr)
        sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        serve(oracle, lines_of(0, oracle.idle), replies)
    finally:
        oracle.close()


if __name__ == "__main__":
    main(OPTIONS, PLACES, FOLDERS)
