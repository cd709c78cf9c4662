// The page of one subgraph.
function subgraphById(id) {
  return view.subgraphs.find((s) => s.id === id) || null;
}

function nothingThere(what) {
  return [h("p", {class: "pad"}, `This run has no ${what}. `,
            to(["overview"], "To the overview"))];
}

function subgraphPlot(s) {
  const rows = s.candidates.flatMap((c) => timeRows(c).slice(0, 1));
  const best = bestOf(s);
  if (best) rows.push(...timeRows(best).slice(1));
  return intervalPlot(rows, floorOf(best));
}

function reproducers(s) {
  if (!view.run_folder) return null;
  const folder = shellWord(view.run_folder);
  const id = shellWord(s.id);
  const test = shellWord(`${view.run_folder}/kernels/${s.id}/test_kernel.py`);
  return h("div", {class: "card"},
    copyLine(`weft show ${folder} --subgraph ${id}`),
    copyLine(`weft show ${folder} --subgraph ${id} --events`),
    copyLine(`python ${test}`));
}

function subgraphPage(id, seed) {
  const s = subgraphById(id);
  if (!s) return nothingThere("subgraph " + id);
  if (seed) {
    const c = s.candidates.find((x) => x.id === seed);
    return c ? candidatePage(s, c) : nothingThere("candidate " + seed);
  }
  const calls = view.calls.filter((c) => c.subgraph === id);
  const lasted = s.ended_us && s.begun_us ? seconds((s.ended_us - s.begun_us) /
    1e6) : null;
  const facts = [["Takes", (s.inputs || []).join(", ")],
    ["Gives", (s.results || []).join(", ")],
    ["In the model", plural(s.count, "time")],
    ["Must move", s.bytes ? bytes(s.bytes) : null],
    ["Operations", s.operations ? count(Math.round(s.operations)) : null],
    ["Took", lasted], ["Why", s.reason]];
  return [
    h("p", {}, to(["subgraphs"], "Subgraphs"), " / ", s.id),
    h("section", {}, h("div", {class: "head"},
      h("h1", {class: "name"}, s.type || s.id), tag(s.outcome,
        s.outcome || "not judged")),
      h("div", {class: "two"},
        h("div", {class: "card in"}, h("dl", {}, facts.filter(([, v]) => v)
          .map(([n, v]) => [h("dt", {}, n), h("dd", {}, v)]))),
        h("div", {class: "card in"}, subgraphPlot(s)))),
    section("candidates", "Candidates", null, candidateTable(s)),
    s.candidates.some((c) => c.parent) ? section("tree", "What came of what",
      null, candidateTree(s)) : null,
    calls.length ? section("", "Calls of language models", null,
                           callTable(calls)) : null,
    section("", "Timeline", null, timelineChart(id)),
    s.signature ? section("", "Signature", copyButton(s.signature),
      h("div", {class: "card"}, sourceView(s.signature, false, true))) : null,
    view.run_folder ? section("", "Look again", null, reproducers(s)) : null,
  ];
}
