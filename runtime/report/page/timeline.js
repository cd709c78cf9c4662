// The run's timeline: one row for each location and kind of work, more where pieces of work
// overlap. Drawn on a canvas: a run has ten thousands of spans.
const SPAN = {kind: 0, location: 1, start: 2, length: 3, subgraph: 4, label: 5,
              failure: 6};
const KINDS = ["capture", "library", "llm", "build", "check", "time", "probe",
               "files", "wait"];
const KIND_COLOURS = {capture: "#7a6ff0", library: "#8d9099", llm: "#d0568f",
  build: "#3a86d8", check: "#2f9e77", time: "#d9902f", probe: "#8d9099",
  files: "#8d9099", wait: "#c9c6bd"};
const LANES_MAX = 24;
const ROW = {height: 15, gap: 3, head: 26, left: 132};

/// Rows of spans that do not overlap; beyond LANES_MAX they share the last.
function lanesOf(spans) {
  const groups = new Map();
  for (const span of spans) {
    const key = span[SPAN.location] * 100 + KINDS.indexOf(span[SPAN.kind]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(span);
  }
  const rows = [];
  for (const key of [...groups.keys()].sort((a, b) => a - b)) {
    const ends = [];
    const lanes = [];
    for (const span of groups.get(key)) {
      let lane = ends.findIndex((end) => end <= span[SPAN.start]);
      if (lane < 0) lane = Math.min(ends.length, LANES_MAX - 1);
      ends[lane] = span[SPAN.start] + span[SPAN.length];
      (lanes[lane] ||= []).push(span);
    }
    lanes.forEach((list, at) => rows.push({spans: list, first: at === 0}));
  }
  return rows;
}

function spanWords(span) {
  const location = view.timeline.locations[span[SPAN.location]];
  const failure = span[SPAN.failure];
  return `${span[SPAN.kind]}  ${microseconds(span[SPAN.length])}\n` +
    `${span[SPAN.subgraph]} ${span[SPAN.label]}\n` +
    `at ${seconds(span[SPAN.start] / 1e6)} on ${location}` +
    (failure === "open" ? "\nno answer yet" : failure ? `\n${failure}` : "");
}

function timelineChart(only) {
  const spans = only ? view.timeline.spans.filter((s) =>
    s[SPAN.subgraph] === only) : view.timeline.spans;
  if (!spans.length) return h("p", {class: "pad soft"}, "Nothing yet.");
  const rows = lanesOf(spans);
  const start = only ? spans[0][SPAN.start] : 0;
  let end = start + 1;
  for (const s of spans) end = Math.max(end, s[SPAN.start] + s[SPAN.length]);
  const shown = {from: start, to: end};
  const height = rows.length * (ROW.height + ROW.gap) + ROW.head + 6;
  const canvas = h("canvas", {role: "img", "aria-label": "Timeline"});
  canvas.style.height = height + "px";
  let left = ROW.left;
  const x = (us) => left + (us - shown.from) / (shown.to - shown.from) *
    (canvas.clientWidth - left - 12);

  function draw() {
    const width = canvas.clientWidth;
    if (!width) return;
    left = width < 560 ? 74 : ROW.left;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const soft = style.getPropertyValue("--soft");
    pen.font = "11px " + getComputedStyle(document.body).fontFamily;
    pen.fillStyle = soft;
    pen.strokeStyle = style.getPropertyValue("--line");
    const ticks = width < 560 ? 3 : 5;
    for (let i = 0; i <= ticks; ++i) {
      const at = shown.from + (shown.to - shown.from) * i / ticks;
      pen.textAlign = i === ticks ? "right" : i ? "center" : "left";
      pen.fillText(seconds(at / 1e6), x(at), 14);
      pen.beginPath();
      pen.moveTo(x(at), ROW.head - 6);
      pen.lineTo(x(at), height);
      pen.stroke();
    }
    pen.textAlign = "left";
    rows.forEach((row, at) => {
      const y = ROW.head + at * (ROW.height + ROW.gap);
      pen.globalAlpha = 1;
      if (row.first) {
        const location = view.timeline.locations[row.spans[0][SPAN.location]];
        pen.fillStyle = soft;
        const words = row.spans[0][SPAN.kind] +
          (view.timeline.locations.length > 1 ? "  " + location : "");
        pen.fillText(short(words, width < 560 ? 11 : 21), 8, y + 11);
      }
      for (const span of row.spans) {
        const a = Math.max(left, x(span[SPAN.start]));
        const b = Math.min(width - 12, x(span[SPAN.start] + span[SPAN.length]));
        if (b < left || a > width - 12) continue;
        pen.fillStyle = KIND_COLOURS[span[SPAN.kind]] || soft;
        pen.globalAlpha = span[SPAN.failure] ? .45 : .9;
        pen.fillRect(a, y, Math.max(1, b - a - .5), ROW.height);
      }
    });
    pen.globalAlpha = 1;
  }

  function spanAt(event) {
    const box = canvas.getBoundingClientRect();
    const row = rows[Math.floor((event.clientY - box.top - ROW.head) /
                                (ROW.height + ROW.gap))];
    if (!row) return null;
    const px = event.clientX - box.left;
    return row.spans.find((s) => px >= x(s[SPAN.start]) - 2 &&
      px <= x(s[SPAN.start] + s[SPAN.length]) + 2) || null;
  }

  function zoomBy(factor, middle) {
    const length = Math.max(1000, (shown.to - shown.from) * factor);
    const share = (middle - shown.from) / (shown.to - shown.from);
    shown.from = Math.max(start, middle - length * share);
    shown.to = Math.min(end, shown.from + length);
    draw();
  }

  canvas.addEventListener("mousemove", (event) => {
    const span = spanAt(event);
    if (span) tip.show(event, spanWords(span));
    else tip.hide();
  });
  canvas.addEventListener("mouseleave", () => tip.hide());
  canvas.addEventListener("click", (event) => {
    const span = spanAt(event);
    if (!span || !span[SPAN.subgraph]) return;
    tip.hide();
    location.hash = "sg/" + encodeURIComponent(span[SPAN.subgraph]);
  });
  new ResizeObserver(draw).observe(canvas);
  canvas.redraw = draw;
  const button = (label, words, act) => h("button", {type: "button",
    title: words, click: act}, label);
  const middle = () => (shown.from + shown.to) / 2;
  const move = (share) => {
    const by = (shown.to - shown.from) * share;
    const room = by < 0 ? Math.max(by, start - shown.from)
      : Math.min(by, end - shown.to);
    shown.from += room;
    shown.to += room;
    draw();
  };
  return h("div", {},
    h("div", {class: "tools"},
      button("\u2212", "Longer", () => zoomBy(2, middle())),
      button("+", "Closer", () => zoomBy(.5, middle())),
      button("\u2190", "Earlier", () => move(-.4)),
      button("\u2192", "Later", () => move(.4)),
      button("All", "The whole run", () => {
        shown.from = start;
        shown.to = end;
        draw();
      }),
      h("span", {class: "legend"}, KINDS.filter((kind) =>
        spans.some((s) => s[SPAN.kind] === kind)).map((kind) => {
          const dot = h("span", {class: "dot"});
          dot.style.color = KIND_COLOURS[kind];
          return h("span", {class: "tag small"}, dot, kind);
        }))),
    h("div", {class: "card"}, canvas));
}
