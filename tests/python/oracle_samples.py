"""Graphs and kernels written by hand for test_oracle.py."""

import os
import subprocess

ROWS, COLUMNS = 24, 640
SHAPE = (ROWS, COLUMNS)


def tensor(shape, dtype="float32"):
    stride, step = [], 1
    for n in reversed(shape):
        stride.insert(0, step)
        step *= n
    return {"dtype": dtype, "shape": list(shape), "stride": stride}


def node(name, kind, target, args=(), values=None, is_tuple=False):
    return {
        "name": name,
        "kind": kind,
        "target": target,
        "args": list(args),
        "kwargs": {},
        "values": values if isinstance(values, list) else [values],
        "is_tuple": is_tuple,
        "source": "",
        "elements": [],
    }


def ref(name):
    return {"node": name}


def graph(nodes, outputs):
    return {
        "version": 1,
        "nodes": nodes,
        "outputs": outputs,
        "output_template": "{0}",
        "mutations": [],
    }


def given(*shapes, dtype="float32"):
    return [
        node(f"x{i}", "input", f"x{i}", values=tensor(shape, dtype))
        for i, shape in enumerate(shapes)
    ]


GRAPHS = {
    "add_mul": graph(
        given(SHAPE, SHAPE)
        + [
            node("a", "call", "aten.add.Tensor", [ref("x0"), ref("x1")], tensor(SHAPE)),
            node("m", "call", "aten.mul.Tensor", [ref("a"), 2.0], tensor(SHAPE)),
        ],
        ["m"],
    ),
    "row_sum": graph(
        given(SHAPE)
        + [node("s", "call", "aten.sum.dim_IntList", [ref("x0"), [1]], tensor((ROWS,)))],
        ["s"],
    ),
    "total": graph(
        given(SHAPE)
        + [
            node("s", "call", "aten.sum.default", [ref("x0")], tensor(())),
        ],
        ["s"],
    ),
    "softmax": graph(
        given(SHAPE)
        + [node("s", "call", "aten._softmax.default", [ref("x0"), -1, False], tensor(SHAPE))],
        ["s"],
    ),
    "norm_clamp": graph(
        given(SHAPE, (COLUMNS,), (COLUMNS,))
        + [
            node(
                "n",
                "call",
                "aten.native_group_norm.default",
                [ref("x0"), ref("x1"), ref("x2"), ROWS, COLUMNS, 1, 16, 1e-5],
                [tensor(SHAPE), tensor((ROWS, 16)), tensor((ROWS, 16))],
                True,
            ),
            node("g", "call", "getitem", [ref("n"), 0], tensor(SHAPE)),
            node("h", "call", "aten.hardtanh.default", [ref("g"), -2.0, 2.0], tensor(SHAPE)),
        ],
        ["h"],
    ),
    "argmax": graph(
        given(SHAPE)
        + [node("i", "call", "aten.argmax.default", [ref("x0"), 1], tensor((ROWS,), "int64"))],
        ["i"],
    ),
    "ones": graph(  # softmax over one element: input-independent
        given((64, 1))
        + [node("s", "call", "aten._softmax.default", [ref("x0"), -1, False], tensor((64, 1)))],
        ["s"],
    ),
    "batch_norm": graph(
        given((8, 4, 9), (4,), (4,))
        + [
            node(
                "n",
                "call",
                "aten.native_batch_norm.default",
                [ref("x0"), ref("x1"), ref("x2"), None, None, True, 0.1, 1e-5],
                [tensor((8, 4, 9)), tensor((4,)), tensor((4,))],
                is_tuple=True,
            ),
            node("y", "call", "getitem", [ref("n"), 0], tensor((8, 4, 9))),
            node("mean", "call", "getitem", [ref("n"), 1], tensor((4,))),
        ],
        ["y", "mean"],
    ),
}

_HEAD = f"""
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum {{ R = {ROWS}, C = {COLUMNS}, N = R * C }};
static void honest(const float* a, const float* b, float* o) {{
  for (long i = 0; i < N; i++) o[i] = (a[i] + b[i]) * 2.0f;
}}
static void sleep_us(long us) {{ usleep(us); }}
"""
_ADD = 'extern "C" void kernel_function(const float* a, const float* b, float* o)'
_ROW = 'extern "C" void kernel_function(const float* a, float* o)'

#: name -> C++ text. All but the first group are for add_mul.
KERNELS = {
    "row_sum_backwards": _ROW
    + """{ for (int r = 0; r < R; r++) { float t[4] = {0, 0, 0, 0};
      for (int c = C - 1; c >= 0; c--) t[c % 4] += a[r * C + c];
      o[r] = (t[0] + t[2]) + (t[1] + t[3]); } }""",
    "total": _ROW
    + """{ float t[8] = {0}; for (int i = 0; i < N; i++) t[i % 8] += a[i];
      *o = ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7])); }""",
    "softmax": _ROW
    + """{ for (int r = 0; r < R; r++) { const float* x = a + r * C;
      float* y = o + r * C; float m = x[0], s = 0;
      for (int c = 1; c < C; c++) m = x[c] > m || isnan(x[c]) ? x[c] : m;
      for (int c = 0; c < C; c++) s += y[c] = expf(x[c] - m);
      for (int c = 0; c < C; c++) y[c] /= s; } }""",
    "softmax_unshifted": _ROW
    + """{ for (int r = 0; r < R; r++) { const float* x = a + r * C;
      float* y = o + r * C; float s = 0;
      for (int c = 0; c < C; c++) s += y[c] = expf(x[c]);
      for (int c = 0; c < C; c++) y[c] /= s; } }""",
    "argmax": """extern "C" void kernel_function(const float* a, long* o)
      { for (int r = 0; r < R; r++) { long best = 0;
        for (int c = 1; c < C; c++) { float x = a[r * C + c], y = a[r * C + best];
          if (x > y || (isnan(x) && !isnan(y))) best = c; } o[r] = best; } }""",
    "argmax_off_by_one": """extern "C" void kernel_function(const float* a, long* o)
      { for (int r = 0; r < R; r++) { long best = 0;
        for (int c = 1; c < C; c++) if (a[r * C + c] > a[r * C + best]) best = c;
        o[r] = (best + 1) % C; } }""",
    "all_ones": _ROW + "{ for (int i = 0; i < 64; i++) o[i] = a[i] - a[i] == 0 ? 1.0f : NAN; }",
    "batch_norm": """extern "C" void kernel_function(const float* x, const float* w,
        const float* b, float* y, float* mean)
      { for (int c = 0; c < 4; c++) { double s = 0, q = 0;
        for (int n = 0; n < 8; n++) for (int i = 0; i < 9; i++)
          s += x[n * 36 + c * 9 + i];
        double m = s / 72;
        for (int n = 0; n < 8; n++) for (int i = 0; i < 9; i++) {
          double d = x[n * 36 + c * 9 + i] - m; q += d * d; }
        double k = 1 / sqrt(q / 72 + 1e-5); mean[c] = m;
        for (int n = 0; n < 8; n++) for (int i = 0; i < 9; i++) {
          long j = n * 36 + c * 9 + i; y[j] = (x[j] - m) * k * w[c] + b[c]; } } }""",
    "honest": _ADD + "{ honest(a, b, o); }",
    "slow": _ADD + "{ sleep_us(200); honest(a, b, o); }",
    "no_op": _ADD + "{}",
    "zeros": _ADD + "{ memset(o, 0, sizeof(float) * N); }",
    "replay": _ADD
    + """{ static const float* seen; static float kept[N];
      if (seen == a) { memcpy(o, kept, sizeof kept); return; }
      honest(a, b, o); seen = a; memcpy(kept, o, sizeof kept); }""",
    "stale_sample": _ADD
    + """{ static float seen[4], kept[N]; float now[4];
      for (int i = 0; i < 4; i++) now[i] = a[i * (N / 4)];
      if (memcmp(now, seen, sizeof now) == 0) { memcpy(o, kept, sizeof kept); return; }
      honest(a, b, o); memcpy(seen, now, sizeof now); memcpy(kept, o, sizeof kept); }""",
    "stale_pointer": _ADD
    + """{ static const float *pa, *pb; static float* po;
      if (!po) { pa = a; pb = b; po = o; } honest(pa, pb, po); }""",
    "writes_input": _ADD + "{ honest(a, b, o); ((float*)a)[N / 2] += 1; }",
    "writes_beyond": _ADD + "{ honest(a, b, o); o[N + 3] = 1; }",
    "half_done": _ADD + "{ for (long i = 0; i < N / 2; i++) o[i] = (a[i] + b[i]) * 2; }",
    "bf16": _ADD
    + """{ honest(a, b, o); for (long i = 0; i < N; i++) { unsigned u;
      memcpy(&u, o + i, 4); if (isfinite(o[i])) u = (u + 0x8000) & 0xFFFF0000u;
      memcpy(o + i, &u, 4); } }""",
    "tf32": _ADD
    + """{ honest(a, b, o); for (long i = 0; i < N; i++) { unsigned u;
      memcpy(&u, o + i, 4); if (isfinite(o[i])) u = (u + 0x1000) & 0xFFFFE000u;
      memcpy(o + i, &u, 4); } }""",
    "flushes_nan": _ADD
    + """{ honest(a, b, o);
      for (long i = 0; i < N; i++) if (isnan(o[i])) o[i] = 0; }""",
    "exits": _ADD + "{ honest(a, b, o); _exit(0); }",
    "segfaults": _ADD + "{ *(volatile int*)8 = 1; }",
    "sleeps": _ADD + "{ honest(a, b, o); for (;;) sleep_us(1000000); }",
    "eats_memory": _ADD
    + """{ for (;;) { char* p = (char*)malloc(1 << 24); if (!p) abort();
      memset(p, 1, 1 << 24); } }""",
    "forges": _ADD
    + """{ const char* lie = "{\\"call\\": 1, \\"ok\\": true, \\"ns\\": 1}\\n"
      "{\\"call\\": 2, \\"ok\\": true, \\"ns\\": 1}\\n"
      "Z{\\"ended\\": \\"ended\\"}\\n";
      for (int fd = 0; fd < 256; fd++) (void)!write(fd, lie, strlen(lie)); }""",
    "forges_and_exits": _ADD
    + """{ const char* lie = "{\\"id\\": 1, \\"ok\\": true, \\"verdict\\": "
      "{\\"correct\\": true}}\\n";
      for (int fd = 0; fd < 256; fd++) (void)!write(fd, lie, strlen(lie));
      _exit(0); }""",
    "kills_parent": _ADD + "{ honest(a, b, o); kill(getppid(), SIGKILL); pause(); }",
    "right_at_first": _ADD + "{ static int calls; if (++calls <= 10) honest(a, b, o); }",
    "fills_later": """struct Job { const float *a, *b; float* o; };
      static void* later(void* p) { Job* j = (Job*)p; sleep_us(20000);
        honest(j->a, j->b, j->o); return 0; }
      """
    + _ADD
    + """{ Job* j = (Job*)malloc(sizeof(Job)); j->a = a; j->b = b; j->o = o;
      pthread_t t; pthread_create(&t, 0, later, j); }""",
    "leaves_daemon": _ADD
    + """{ honest(a, b, o); if (fork() == 0) { setsid(); signal(SIGTERM, SIG_IGN);
      FILE* f = fopen(getenv("WEFT_TEST_PID_FILE"), "a");
      fprintf(f, "%d\\n", getpid()); fclose(f);
      for (;;) sleep_us(1000000); } sleep_us(100000); }""",
}


def build(folder):
    """{name: path of the library}, compiled two at a time."""
    made, running = {}, []
    for name, text in KERNELS.items():
        source = os.path.join(folder, name + ".cpp")
        made[name] = os.path.join(folder, name + ".so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(_HEAD + text)
        command = ["g++", "-O1", "-w", "-fPIC", "-shared", source, "-o", made[name]]
        running.append(subprocess.Popen(command + ["-lpthread"]))
        if len(running) == 2:
            wait_for(running)
    wait_for(running)
    return made


def wait_for(running):
    while running:
        if running.pop().wait() != 0:
            raise RuntimeError("a test's kernel does not compile")
