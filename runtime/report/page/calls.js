// Calls of language models: a table of them, and the page of one.
function callNumber(call) {
  return view.calls.indexOf(call);
}

function tokensOf(call) {
  const u = call.reply && call.reply.usage;
  return u ? u.input + u.cached + u.cache_written + u.output + u.reasoning
    : null;
}

function callTable(calls) {
  return table({
    id: "calls-" + (calls.length === view.calls.length ? "" :
      calls[0].subgraph), rows: calls,
    chips: (c) => !c.reply ? "open" : c.reply.failure || "answered",
    link: (c) => ["call-row", callNumber(c)],
    columns: [
      {name: "Call", value: (c) => callNumber(c) + 1, number: true,
       cell: (c) => to(["call", callNumber(c)], callNumber(c) + 1)},
      {name: "For", value: (c) => c.purpose,
       cell: (c) => to(["call", callNumber(c)], c.purpose || "\u2013")},
      {name: "Model", value: (c) => (c.reply && c.reply.model) || c.provider},
      {name: "At", number: true, value: (c) => c.at_us,
       cell: (c) => seconds((c.at_us - view.begun_us) / 1e6)},
      {name: "Took", number: true,
       value: (c) => c.reply ? c.reply.latency_ms : null,
       cell: (c) => c.reply ? seconds(c.reply.latency_ms / 1e3) : "\u2013"},
      {name: "Tokens", number: true, value: tokensOf,
       cell: (c) => tokensOf(c) === null ? "\u2013" : count(tokensOf(c))},
      {name: "Cost", number: true,
       value: (c) => c.reply ? c.reply.micro_usd : null,
       cell: (c) => c.reply ? dollars(c.reply.micro_usd) : "\u2013"},
      {name: "End", value: (c) => c.reply ? c.reply.failure ||
        c.reply.choices.map((x) => x.finish_reason).join(", ") : "",
       cell: (c) => !c.reply ? tag("note", "no answer yet")
         : c.reply.failure ? tag("error", c.reply.failure)
         : c.reply.choices.map((x) => x.finish_reason).join(", ")},
    ],
  });
}

function candidatesOfCall(number) {
  return view.subgraphs.flatMap((s) => s.candidates.filter((c) =>
    c.call === number).map((c) => [s, c]));
}

function prose(text) {
  return sourceView(text, false, true);
}

function textCard(title, hash) {
  return h("div", {class: "card top"}, h("div", {class: "copyline"},
    h("b", {}, title),
    copyButton(() => texts.get(hash))),
    texts.into(h("div", {}), hash, prose));
}

function callPage(number) {
  const call = view.calls[number];
  if (!call) return nothingThere("call " + number);
  const reply = call.reply;
  const usage = reply && reply.usage;
  const facts = [["For", call.purpose], ["Provider", call.provider],
    ["Model", reply && reply.model], ["Request", reply && reply.request_id],
    ["Took", reply && seconds(reply.latency_ms / 1e3) +
      (reply.first_token_ms ? `, first word after ${seconds(
        reply.first_token_ms / 1e3)}` : "")],
    ["Tokens", usage && `${count(usage.input)} in, ${count(usage.cached)} ` +
      `cached, ${count(usage.output)} out, ${count(usage.reasoning)} reasoning`],
    ["Cost", reply && dollars(reply.micro_usd) +
      (reply.from_cache ? ", an earlier run\u2019s answer" : "")],
    ["Failure", reply && reply.failure && `${reply.failure}: ${reply.message}`],
    ["Gave", candidatesOfCall(number).map(([s, c]) =>
      [to(["sg", s.id, c.id], c.id), " "])]];
  return [
    h("p", {}, to(["calls"], "All calls"), " / ", call.subgraph
      ? to(["sg", call.subgraph], call.subgraph) : "the run"),
    h("section", {}, h("h1", {class: "name"}, call.purpose || "A call"),
      h("div", {class: "card in top"}, h("dl", {}, facts.filter(([, v]) =>
        v && v.length).map(([n, v]) => [h("dt", {}, n), h("dd", {}, v)])))),
    section("", "Reply", null, !reply
      ? h("p", {class: "soft"}, "No answer yet.")
      : reply.choices.length ? reply.choices.map((c) => textCard(
        c.finish_reason, c.text)) : h("p", {class: "soft"}, "None.")),
    section("", "Prompt", null, call.parts.map((p) =>
      textCard(p.role, p.text))),
  ];
}
