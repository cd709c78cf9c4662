// The first screen: what came of the run, what failed, what it cost.
function tag(word, text = word) {
  return h("span", {class: "tag " + (word || "note")},
    h("span", {class: "dot", "aria-hidden": "true"}), text);
}

function bestOf(subgraph) {
  return subgraph.candidates.find((c) => c.id === subgraph.best) || null;
}

function speedup(words, s) {
  return h("div", {}, h("div", {class: "big"}, times(s && s.ratio), " ",
    h("small", {}, interval(s))), h("span", {class: "small soft"}, words));
}

function verdictWord() {
  const end = view.finished;
  if (!end) return live.on ? ["note", "Running"] : ["warning", "Not finished"];
  if (end.exit_code === 0) return ["won", "Verified"];
  if (end.exit_code === 4) return ["warning", "Verified, out of budget"];
  return ["bad", end.exit_code === 1 ? "Not verified" : "Failed"];
}

/// "1 generated kernel; PyTorch's: aten.mm.default × 1".
function otherModuleWords(other) {
  const externs = Object.entries(other.externs || {}).map(
    ([name, times]) => `${name} × ${times}`);
  const kernels = other.ours.length;
  return `${kernels} generated kernel${kernels === 1 ? "" : "s"}` +
    (externs.length ? "; PyTorch\u2019s: " + externs.join(", ") : "");
}

function ruleBlocks() {
  const result = view.result;
  if (!result || !result.verdict) return [];
  const checked = result.verdict.kernelbench;
  const other = result.kernelbench_module;
  const ours = [h("div", {class: "rule"}, h("h3", {}, "weft\u2019s rule: " +
    (result.verdict.correct ? "verified" : result.verdict.kind ||
      "not checked")),
    h("div", {class: "pair"}, speedup("over eager", result.timing.over_eager),
      speedup("over torch.compile", result.timing.over_compile)))];
  if (!checked && !other) return ours;
  const timing = other ? other.timing : result.timing;
  const outcome = other ? "within the tolerance, by another module"
    : checked.outcome === "within" ? "within the tolerance"
    : checked.outcome === "outside" ? "outside the tolerance" : checked.outcome;
  const counts = other || checked.outcome === "within";
  return ours.concat(h("div", {class: "rule"},
    h("h3", {}, "KernelBench\u2019s rule: " + outcome),
    counts ? h("div", {class: "pair"},
      speedup("over eager", timing.over_eager),
      speedup("over torch.compile", timing.over_compile))
      : h("p", {class: "soft small"}, checked.reason),
    other ? h("p", {class: "soft small"}, otherModuleWords(other)) : null));
}

function spentFacts() {
  const all = view.subgraphs.flatMap((s) => s.candidates);
  const correct = all.filter((c) => c.verdict && c.verdict.correct).length;
  const won = view.subgraphs.filter((s) => s.outcome === "won").length;
  const spent = view.spent;
  const fact = (value, words) => h("div", {}, h("b", {}, value),
                                   h("span", {}, words));
  return h("div", {class: "facts card"},
    fact(`${won} of ${view.subgraphs.length}`, "subgraphs won"),
    fact(`${count(correct)} of ${count(all.length)}`, "candidates correct"),
    fact(seconds((view.last_us - view.begun_us) / 1e6),
         view.finished ? "from begin to end" : "so far"),
    fact(spent.calls ? count(spent.calls) : "none",
         spent.calls ? "calls of language models" : "language model asked"),
    spent.calls ? fact(count(spent.input_tokens + spent.output_tokens),
                       "tokens, in and out") : null,
    spent.calls ? fact(dollars(spent.micro_usd), "paid for them") : null);
}

const PROBLEMS_AT_ONCE = 12;

function problemList() {
  if (!view.problems.length) {
    return h("div", {class: "card in soft"}, "Nothing failed.");
  }
  const list = h("ul", {class: "problems card"});
  const add = (problems) => list.append(...problems.map((p) => h("li", {},
    tag(p.level), h("span", {class: "what"}, p.subgraph
      ? to(["sg", p.subgraph], p.what) : p.what),
    h("span", {class: "why"}, p.reason))));
  add(view.problems.slice(0, PROBLEMS_AT_ONCE));
  const rest = view.problems.slice(PROBLEMS_AT_ONCE);
  if (!rest.length) return list;
  const more = h("button", {type: "button", click: () => {
    add(rest);
    more.remove();
  }}, `${count(rest.length)} more`);
  return h("div", {}, list, h("p", {}, more));
}

function section(id, title, tools, ...content) {
  return h("section", {id}, h("div", {class: "head"}, h("h2", {}, title),
    h("div", {class: "end"}, tools)), content);
}

function subgraphTable() {
  const time = (s, side) => {
    const best = bestOf(s);
    return best && best.timing && best.timing[side]
      ? best.timing[side].median_us || null : null;
  };
  const over = (s, side) => {
    const best = bestOf(s);
    return best && ratioOf(best, side);
  };
  const ours = new Set(view.result ? view.result.subgraphs.filter((s) =>
    s.ours).map((s) => s.id) : []);
  return table({
    id: "subgraphs", rows: view.subgraphs,
    chips: (s) => s.outcome || "not judged",
    link: (s) => ["row", s.id],
    columns: [
      {name: "Subgraph", value: (s) => s.type + " " + s.id,
       cell: (s) => [to(["sg", s.id], s.type || s.id),
                     h("div", {class: "soft small mono"}, s.id)]},
      {name: "Outcome", value: (s) => s.outcome || "",
       cell: (s) => [tag(s.outcome, s.outcome || "not judged"),
                     ours.has(s.id) ? h("div", {class: "small soft"},
                                        "in ModelNew") : null]},
      {name: "Times in model", number: true, value: (s) => s.count},
      {name: "Right", number: true,
       value: (s) => s.candidates.filter((c) => c.verdict &&
         c.verdict.correct).length,
       cell: (s) => `${s.candidates.filter((c) => c.verdict &&
         c.verdict.correct).length} of ${s.candidates.length}`},
      {name: "Time", number: true, value: (s) => time(s, "candidate"),
       cell: (s) => microseconds(time(s, "candidate"))},
      {name: "Eager", number: true, value: (s) => time(s, "eager"),
       cell: (s) => microseconds(time(s, "eager"))},
      {name: "Over eager", number: true, bestFirst: true,
       value: (s) => over(s, "over_eager"),
       cell: (s) => times(over(s, "over_eager"))},
      {name: "Over compile", number: true, bestFirst: true,
       value: (s) => over(s, "over_compile"),
       cell: (s) => times(over(s, "over_compile"))},
      {name: "Why", value: (s) => s.reason,
       cell: (s) => h("span", {class: "reason", title: s.reason}, s.reason)},
    ],
  });
}

function overviewHead() {
  const [kind, word] = verdictWord();
  const rules = ruleBlocks();
  const environment = view.environment || {};
  const machine = environment.machine || {};
  const device = machine.gpus && machine.gpus.length
    ? machine.gpus.map((g) => g.name).join(", ") : machine.name;
  return h("section", {id: "overview"},
    h("div", {class: "verdict card"},
      h("div", {}, h("div", {class: "word " + kind},
        h("span", {class: "dot", "aria-hidden": "true"}), word),
        h("h1", {class: "name"}, view.problem || "A run without a beginning"),
        h("p", {class: "soft"}, [view.target && `target ${view.target}`,
          device, environment.weft && `weft ${environment.weft}`,
          new Date(view.begun_us / 1000).toLocaleString("en-GB")]
          .filter(Boolean).join(" \u00b7 ")),
        view.finished ? h("p", {}, view.finished.summary) : null),
      h("div", {class: "rules"}, rules.length ? rules
        : h("p", {class: "soft"}, "No module was judged" +
            (view.finished ? "." : " yet.")))),
    spentFacts());
}

function environmentSection() {
  const e = view.environment;
  if (!e) return null;
  const rows = [];
  const put = (name, value) => {
    if (value === null || value === undefined || value === "") return;
    rows.push(h("dt", {}, name), h("dd", {},
      typeof value === "object" ? JSON.stringify(value) : value));
  };
  put("Processor", `${e.machine.name}, ${plural(e.machine.cores, "core")}`);
  for (const g of e.machine.gpus || []) {
    put("GPU", `${g.name}, ${g.arch}, ${bytes(g.memory_bytes)}, ${g.uuid || ""}`);
  }
  if (e.probe) {
    put("PyTorch", e.probe.torch);
    put("A copy moves", e.probe.copy_gbps > 0
      ? `${fixed(e.probe.copy_gbps, 1)} GB/s on the processor` : null);
    for (const [name, value] of Object.entries(e.probe.gpu || {})) {
      put("GPU " + name, fixed(value, 1));
    }
  }
  put("weft", `${e.weft}${e.decisions ? ", decisions " + e.decisions : ""}`);
  put("Sandbox", (e.machine.protections || []).join(", "));
  put("Lacks", (e.machine.unprotected || []).join(", "));
  put("Journal", `${plural(view.events, "event")}, ` +
    plural(view.stale, "stale reply", "stale replies"));
  return section("environment", "Environment", null,
    h("div", {class: "card"}, copyLine(e.command),
      view.run_folder ? copyLine(`weft replay ${shellWord(view.run_folder)}`) : null),
    h("div", {class: "card in top"}, h("dl", {}, rows)),
    h("div", {class: "card top"}, h("details", {},
      h("summary", {}, "All options"), h("pre", {class: "source wrap pad"},
        JSON.stringify(e.options, null, 2))),
      lazy("The problem", view.problem_text),
      fileDetails()));
}

function fileDetails() {
  const file = view.files.find((f) => f.path === "composed/model_new.py");
  return file ? lazy("ModelNew: " + file.path, file.text) : null;
}

/// A text that is read when it is opened.
function lazy(title, hash, show = sourceView) {
  const inside = h("div", {});
  const details = h("details", {}, h("summary", {}, title,
    h("span", {class: "end"}, copyButton(() => texts.get(hash)))), inside);
  details.addEventListener("toggle", () => {
    if (details.open && !inside.firstChild) texts.into(inside, hash, show);
  });
  return details;
}

function leftOutLine() {
  const left = view.left_out || {};
  const parts = [
    left.texts && `${plural(left.texts, "text")} (${bytes(left.text_bytes)})`,
    left.candidates && plural(left.candidates, "candidate"),
    left.calls && plural(left.calls, "call"),
    view.timeline.left_out && plural(view.timeline.left_out, "span"),
    view.graph && view.graph.left_out && plural(view.graph.left_out,
      "box of the graph", "boxes of the graph"),
    left.unknown_events && plural(left.unknown_events,
      "event that this weft does not know", "events that this weft does not know"),
  ].filter(Boolean);
  return h("p", {class: "soft small"}, parts.length
    ? "Left out of this page, and in the journal: " + parts.join(", ") + "."
    : "Nothing is left out of this page.");
}

/// What the last check of a whole module found.
function moduleVerdict() {
  const checks = view.composed.filter((c) => c.type === "CheckReply");
  return checks.length ? checks[checks.length - 1].reply.verdict : null;
}

function overviewPage() {
  const graph = modelGraph();
  return [
    overviewHead(),
    section("problems", "What failed, and what to know", null, problemList()),
    mismatchSection("module", moduleVerdict()),
    section("graph", "The model", [legend(), graph.tools],
      h("div", {class: "card"}, graph.frame || graph)),
    section("subgraphs", "Subgraphs", null, subgraphTable()),
    section("roofline", "Roofline", legend(), h("div", {class: "card in"},
      roofline(), h("p", {class: "soft small"}, "The best kernel of each " +
        "subgraph. Operations are counted for products, and estimated for " +
        "the rest as one for each element that an operator reads or writes; " +
        "bytes are what must move at least; the slope is a copy\u2019s speed " +
        "on this machine."))),
    section("timeline", "Timeline", null, timelineChart(null)),
    view.calls.length ? section("calls", "Calls of language models", null,
                                callTable(view.calls)) : null,
    environmentSection(),
    leftOutLine(),
  ];
}
