// One candidate: what was found of it, its times, its source.
const STATE_COLOURS = new Map([["correct", "won"], ["failed", "failed"],
  ["stopped", "stopped"], ["proposed", "proposed"], ["verifying", "note"]]);

/// What it is coloured by. All that a check says but "correct" is a fault, or
/// right and does not discriminate.
function candidateState(c) {
  return STATE_COLOURS.get(c.state) ||
    (c.verdict && c.verdict.correct ? "won" : "wrong");
}

function reasonOf(c) {
  return c.failure || (c.verdict && c.verdict.reason) || "";
}

/// Of a refined kernel it only says again which round, of which parent.
function variantOf(c) {
  return c.round > 0 && c.variant.startsWith("round ") ? "" : c.variant;
}

/// "y[3, 4] is 2, expected 5": the first element that is wrong.
function firstMismatch(c) {
  const [first, ...more] = (c.verdict && c.verdict.mismatches) || [];
  if (!first) return "";
  return `${first.output}[${(first.index || []).join(", ")}] is ${first.got}, ` +
    `expected ${first.expected}` +
    (more.length ? `, and ${more.length} more` : "");
}

function medianOf(c) {
  return c.timing && c.timing.candidate
    ? c.timing.candidate.median_us || null : null;
}

function ratioOf(c, side) {
  return c.timing && c.timing[side] ? c.timing[side].ratio || null : null;
}

function candidateTable(s) {
  return table({
    id: "candidates-" + s.id, rows: s.candidates,
    chips: (c) => c.state, link: (c) => ["sg", s.id, c.id],
    columns: [
      {name: "Candidate", value: (c) => c.id,
       cell: (c) => [to(["sg", s.id, c.id], c.id),
         c.id === s.best ? h("span", {class: "small soft"}, " best") : null]},
      {name: "Verdict", value: (c) => c.state,
       cell: (c) => tag(candidateState(c), c.state)},
      {name: "Variant", value: variantOf},
      {name: "Target", value: (c) => c.target},
      {name: "From", value: (c) => c.origin + " " + c.parent,
       cell: (c) => [c.origin, c.parent ? h("div", {class: "small soft"},
         `round ${c.round}, of ${c.parent}`) : null]},
      {name: "Time", number: true, value: medianOf,
       cell: (c) => microseconds(medianOf(c))},
      {name: "Over eager", number: true, bestFirst: true,
       value: (c) => ratioOf(c, "over_eager"),
       cell: (c) => times(ratioOf(c, "over_eager"))},
      {name: "Error", number: true,
       value: (c) => c.verdict && c.verdict.cases ? c.verdict.max_error : null,
       cell: (c) => c.verdict && c.verdict.cases ? error(c.verdict.max_error)
         : "\u2013"},
      {name: "Why", value: reasonOf, cell: (c) => [h("span",
        {class: "reason", title: reasonOf(c)}, reasonOf(c)),
        h("div", {class: "small soft"}, firstMismatch(c))]},
    ],
  });
}

/// Beyond that, the table alone shows all.
const TREE_MAX = 400;

function candidateTree(s) {
  const children = new Map();
  const known = new Set(s.candidates.map((c) => c.id));
  for (const c of s.candidates) {
    const parent = known.has(c.parent) && c.parent !== c.id ? c.parent : "";
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(c);
  }
  let left = TREE_MAX;
  const seen = new Set();
  const branch = (parent) => {
    const list = (children.get(parent) || []).filter((c) =>
      !seen.has(c.id) && left-- > 0);
    if (!list.length) return null;
    return h("ul", {class: parent === "" ? "tree card" : null}, list.map((c) => {
      seen.add(c.id);
      return h("li", {}, tag(candidateState(c), ""), " ",
        to(["sg", s.id, c.id], c.id), " ",
        h("span", {class: "soft small"}, [c.origin, variantOf(c), c.state,
          medianOf(c) ? microseconds(medianOf(c)) : ""].filter(Boolean)
          .join(" \u00b7 ")), branch(c.id));
    }));
  };
  const tree = branch("");
  return h("div", {}, tree, left < 0 ? h("p", {class: "soft small"},
    `The first ${TREE_MAX}; the table has all.`) : null);
}

function verdictFacts(c) {
  const v = c.verdict || {};
  const controls = Object.entries(v.controls || {});
  const known = new Set(["correct", "kind", "reason", "cases", "max_error",
    "framework_error", "tolerance", "controls", "precision",
    "framework_precision", "kernelbench", "mismatches"]);
  const facts = [
    ["Asked to try", c.method],
    ["Verdict", tag(candidateState(c), c.state)],
    ["Why", reasonOf(c)],
    ["Cases", v.cases ? count(v.cases) : null],
    ["Error", v.cases ? `${error(v.max_error)}; PyTorch\u2019s own ` +
      `${error(v.framework_error)}; allowed ${error(v.tolerance)}` : null],
    ["Precision", v.precision ? `${v.precision}; PyTorch\u2019s ` +
      `${v.framework_precision}` : null],
    ["Controls", controls.length ? controls.map(([name, ok]) =>
      `${name}: ${ok ? "rejected" : "NOT rejected"}`).join("\n") : null],
    ["At", c.location === undefined ? null : c.location || "head"],
  ];
  // What a later weft says of a candidate, it says itself.
  for (const [name, value] of Object.entries(v)) {
    if (known.has(name) || value === "" || value === null) continue;
    facts.push([name, typeof value === "object"
      ? JSON.stringify(value, null, 1) : value]);
  }
  return h("dl", {}, facts.filter(([, value]) => value !== null &&
    value !== undefined && value !== "").map(([name, value]) =>
    [h("dt", {}, name), h("dd", {}, value)]));
}

/// The elements of a wrong result that are not what is expected.
function mismatchSection(id, verdict) {
  const rows = (verdict && verdict.mismatches) || [];
  if (!rows.length) return null;
  const number = (name, field) => ({name, number: true,
    value: (m) => Number(m[field]), cell: (m) => m[field] || "\u2013"});
  return section("mismatches", "First mismatches", null, table({
    id: "mismatches-" + id, rows, search: false, columns: [
      {name: "Output", value: (m) => m.output},
      {name: "Index", value: (m) => `[${(m.index || []).join(", ")}]`},
      number("Expected", "expected"), number("Got", "got"),
      number("Error", "error")],
  }));
}

/// What the kernels' code shows: a row a kernel, a column a figure.
function builtSection(c) {
  const built = Object.entries((c.timing && c.timing.built) || {});
  if (!built.length) return null;
  const names = [...new Set(built.flatMap(([, one]) => Object.keys(one)))];
  return section("built", "Built code", null, table({
    id: "built-" + c.id, rows: built, search: false, columns: [
      {name: "Kernel", value: ([kernel]) => kernel},
      ...names.map((name) => ({name: name.replaceAll("_", " "), number: true,
        value: ([, one]) => Object.hasOwn(one, name) ? one[name] : null,
        cell: ([, one]) => Object.hasOwn(one, name) ? count(one[name])
          : "\u2013"})),
    ],
  }));
}

function timeRows(c) {
  if (!c.timing) return [];
  const side = (label, kind, t) => t && t.runs ? [{label, kind,
    median: t.median_us, low: t.p10_us, high: t.p90_us}] : [];
  return [...side(c.id, candidateState(c), c.timing.candidate),
    ...side("eager", "base", c.timing.eager),
    ...side("torch.compile", "base", c.timing.compile),
    ...side("max-autotune", "base", c.timing.compile_autotune)];
}

function floorOf(c) {
  if (!c || !c.timing) return 0;
  if (c.timing.floor_us > 0) return c.timing.floor_us;
  const {gbps} = roofs();
  return gbps > 0 ? c.timing.bytes_floor / gbps / 1e3 : 0;
}

function sourceCard(s, c) {
  const shown = h("div", {});
  const parent = s.candidates.find((x) => x.id === c.parent);
  const draw = async (diff) => {
    if (!diff) {
      texts.into(shown, c.source, sourceView);
      return;
    }
    const [before, after] = await Promise.all([texts.get(parent.source),
                                               texts.get(c.source)]);
    shown.replaceChildren(before === null || after === null
      ? h("p", {class: "pad soft"}, "One of the two is left out of this page.")
      : diffView(before, after));
  };
  const button = parent ? h("button", {type: "button", "aria-pressed": "false",
    click: () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      draw(on);
    }}, "Changes to " + parent.id) : null;
  draw(false);
  return section("source", "Source", [button,
    copyButton(() => texts.get(c.source), "Copy source")],
    h("div", {class: "card"}, shown));
}

/// How it came to be, as far as that was kept.
function originCard(c) {
  const known = [
    c.call === null || c.call === undefined ? null : h("div",
      {class: "copyline"}, to(["call", c.call],
        `Prompt and reply: call ${c.call + 1}`)),
    c.log ? lazy("What the build said", c.log, prose) : null,
  ].filter(Boolean);
  return known.length ? h("div", {class: "card top"}, known) : null;
}

function candidatePage(s, c) {
  return [
    h("p", {}, to(["subgraphs"], "Subgraphs"), " / ",
      to(["sg", s.id], s.type || s.id), " / ", c.id),
    h("section", {}, h("h1", {class: "name"}, c.id),
      h("p", {class: "soft"}, [variantOf(c), c.target, c.origin,
        c.parent && `round ${c.round}, refines ${c.parent}`].filter(Boolean)
        .join(" \u00b7 ")),
      h("div", {class: "two top"},
        h("div", {class: "card in"}, verdictFacts(c)),
        h("div", {class: "card in"}, intervalPlot(timeRows(c), floorOf(c)),
          floorOf(c) ? h("p", {class: "soft small"},
            `Dashed: moving the bytes takes ${microseconds(floorOf(c))}.`)
            : null))),
    mismatchSection(c.id, c.verdict),
    builtSection(c),
    originCard(c),
    sourceCard(s, c),
  ];
}
