// Drawings of measured times: intervals, and the roofline.
const OUTCOMES = ["won", "not_faster", "proven", "wrong", "failed"];

function logTicks(low, high) {
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high));
    ++e) {
    for (const step of high / low > 50 ? [1] : [1, 2, 5]) {
      const at = step * 10 ** e;
      if (at >= low && at <= high) ticks.push(at);
    }
  }
  return ticks;
}

function logScale(low, high, from, to) {
  const a = Math.log10(low);
  const b = Math.log10(high);
  return (x) => from + (Math.log10(x) - a) / (b - a || 1) * (to - from);
}

/// Those of the ticks that stand so far from the one before, so that words
/// beside them have room.
function spaced(ticks, scale, least) {
  let last = -Infinity;
  return ticks.filter((tick) => {
    if (Math.abs(scale(tick) - last) < least) return false;
    last = scale(tick);
    return true;
  });
}

const DRAWN_WIDTH = {least: 300, most: 640};

/// A drawing as wide as its place: one that is only scaled down has words too
/// small to read on a telephone. `draw(width)` makes it.
function fitted(draw) {
  const box = h("div", {class: "fitted"}, draw(DRAWN_WIDTH.most));
  let drawn = DRAWN_WIDTH.most;
  new ResizeObserver(() => {
    if (!box.clientWidth) return;
    const width = Math.round(Math.min(DRAWN_WIDTH.most, Math.max(
      DRAWN_WIDTH.least, box.clientWidth)));
    if (width === drawn) return;
    drawn = width;
    box.replaceChildren(draw(width));
  }).observe(box);
  return box;
}

const PLOT_ROWS_MAX = 30;

/// rows: [{label, kind, median, low, high}], in microseconds; floor: a time
/// that nothing can be faster than, or 0.
function intervalPlot(rows, floor) {
  const all = rows.filter((r) => r.median > 0);
  if (!all.length) return h("p", {class: "pad soft"}, "Nothing was timed.");
  all.sort((a, b) => a.median - b.median);
  const shown = all.slice(0, PLOT_ROWS_MAX);
  for (const row of all.slice(PLOT_ROWS_MAX)) {
    if (row.kind === "base") shown.push(row);
  }
  const values = shown.flatMap((r) => [r.low || r.median, r.high || r.median]);
  if (floor > 0) values.push(floor);
  const range = [Math.min(...values) / 1.15, Math.max(...values) * 1.15];
  const left_out = all.length - shown.length;
  return h("div", {}, fitted((width) => intervals(shown, floor, range, width)),
    left_out > 0 ? h("p", {class: "soft small"},
      `${plural(left_out, "slower one")} not drawn`) : null);
}

function intervals(shown, floor, [low, high], width) {
  const left = width < 480 ? 112 : 150;
  const letters = width < 480 ? 15 : 22;
  const x = logScale(low, high, left, width - 84);
  const height = shown.length * 24 + 34;
  const drawing = svg("svg", {viewBox: `0 0 ${width} ${height}`,
    width: "100%", role: "img", "aria-label": "Times with their intervals"});
  for (const tick of spaced(logTicks(low, high), x, 52)) {
    drawing.append(svg("g", {class: "axis"},
      svg("line", {class: "grid", x1: x(tick), x2: x(tick), y1: 4,
                   y2: height - 26}),
      svg("text", {x: x(tick), y: height - 10, "text-anchor": "middle"},
          microseconds(tick))));
  }
  if (floor > 0) {
    drawing.append(svg("g", {class: "proven"},
      svg("line", {x1: x(floor), x2: x(floor), y1: 2, y2: height - 26,
        stroke: "currentcolor", "stroke-width": 1.5, "stroke-dasharray": "5 4"},
        svg("title", {}, `floor ${microseconds(floor)}`))));
  }
  shown.forEach((row, at) => {
    const y = at * 24 + 16;
    drawing.append(svg("g", {class: row.kind === "base" ? "extern" : row.kind},
      svg("text", {x: left - 12, y: y + 4, "text-anchor": "end"},
          short(row.label, letters)),
      svg("line", {x1: x(row.low || row.median), x2: x(row.high || row.median),
        y1: y, y2: y, stroke: "currentcolor", "stroke-width": 3,
        "stroke-linecap": "round", "stroke-opacity": .45}),
      svg("circle", {cx: x(row.median), cy: y, r: 4.5, fill: "currentcolor"}),
      svg("text", {x: width - 4, y: y + 4, "text-anchor": "end"},
          microseconds(row.median)),
      svg("title", {}, `${row.label}: ${microseconds(row.median)}, ` +
        `p10\u2013p90 ${microseconds(row.low)} to ${microseconds(row.high)}`)));
  });
  return drawing;
}

function roofs() {
  const probe = (view.environment || {}).probe || {};
  const gpu = probe.gpu || {};
  const out = {gbps: gpu.copy_gbps || probe.copy_gbps || 0, flops: []};
  for (const [name, words] of [["fp32_tflops", "float32"],
    ["tf32_tflops", "TF32"], ["half_tflops", "half"]]) {
    if (gpu[name] > 0) out.flops.push([words, gpu[name] * 1e12]);
  }
  return out;
}

function rooflinePoints() {
  return view.subgraphs.flatMap((s) => {
    const best = bestOf(s);
    const us = best && best.timing ? best.timing.candidate.median_us : 0;
    const moved = (best && best.timing && best.timing.bytes_floor) || s.bytes;
    if (!(us > 0) || !(moved > 0) || !(s.operations > 0)) return [];
    return [{s, us, moved, x: s.operations / moved,
             y: s.operations / us * 1e6}];
  });
}

function roofline() {
  const points = rooflinePoints();
  if (!points.length) {
    return h("p", {class: "pad soft"}, "Nothing was timed that could stand " +
      "here.");
  }
  return fitted((width) => roofDrawing(points, width));
}

function roofDrawing(points, width) {
  const {gbps, flops} = roofs();
  const xs = points.map((p) => p.x);
  const xLow = Math.min(...xs) / 4;
  const xHigh = Math.max(...xs) * 4;
  const roof = (at) => gbps > 0 ? gbps * 1e9 * at : Infinity;
  const ys = points.map((p) => p.y).concat(gbps > 0
    ? [Math.min(roof(xHigh), ...flops.map(([, f]) => f)), roof(xLow)] : []);
  const yLow = Math.min(...ys) / 2;
  const yHigh = Math.max(...ys) * 2;
  const height = width < 480 ? 320 : 380;
  const x = logScale(xLow, xHigh, 64, width - 16);
  const y = logScale(yLow, yHigh, height - 44, 12);
  const drawing = svg("svg", {viewBox: `0 0 ${width} ${height}`,
    class: "roof", role: "img", "aria-label": "Roofline of the best kernels"});
  const clip = svg("clipPath", {id: "roof-clip"}, svg("rect", {x: 64, y: 12,
    width: width - 80, height: height - 56}));
  drawing.append(clip);
  const rate = (v) => v >= 1e12 ? `${v / 1e12}T` : v >= 1e9 ? `${v / 1e9}G`
    : v >= 1e6 ? `${v / 1e6}M` : count(v);
  for (const tick of spaced(logTicks(xLow, xHigh), x, 40)) {
    drawing.append(svg("g", {class: "axis"},
      svg("line", {class: "grid", x1: x(tick), x2: x(tick), y1: 12,
                   y2: height - 44}),
      svg("text", {x: x(tick), y: height - 28, "text-anchor": "middle"},
          Number(tick.toPrecision(2)))));
  }
  for (const tick of spaced(logTicks(yLow, yHigh), y, 20)) {
    drawing.append(svg("g", {class: "axis"},
      svg("line", {class: "grid", x1: 64, x2: width - 16, y1: y(tick),
                   y2: y(tick)}),
      svg("text", {x: 58, y: y(tick) + 4, "text-anchor": "end"},
          rate(Number(tick.toPrecision(2))))));
  }
  drawing.append(svg("text", {class: "soft", x: width / 2, y: height - 8,
    "text-anchor": "middle"}, "operations for each byte that must move"));
  const line = (x1, y1, x2, y2, words) => drawing.append(svg("line", {x1, y1,
    x2, y2, stroke: "currentcolor", "stroke-width": 1.75, class: "proven",
    "clip-path": "url(#roof-clip)"}, svg("title", {}, words)));
  if (gbps > 0) {
    line(x(xLow), y(roof(xLow)), x(xHigh), y(roof(xHigh)),
         `a copy here: ${fixed(gbps, 1)} GB/s`);
    // Right of the slope's middle and below: it rises away from the words.
    const end = Math.min(xHigh, yHigh / (gbps * 1e9));
    const middle = Math.sqrt(xLow * end);
    drawing.append(svg("text", {class: "soft", x: x(middle) + 10,
      y: y(roof(middle)) + 16},
      `a copy: ${fixed(gbps, gbps < 100 ? 1 : 0)} GB/s`));
  }
  for (const [words, f] of flops) {
    line(x(xLow), y(f), x(xHigh), y(f), `${words}: ${fixed(f / 1e12, 1)} TFLOP/s`);
  }
  for (const {s, us, moved, x: px, y: py} of points) {
    drawing.append(svg("a", {href: "#sg/" + encodeURIComponent(s.id),
      class: s.outcome || "note"},
      svg("circle", {cx: x(px), cy: y(py), r: 5.5, fill: "currentcolor",
        "fill-opacity": .8, stroke: "currentcolor"},
        svg("title", {}, `${s.type} (${s.id})\n${microseconds(us)}, ` +
          `${bytes(moved)}, ${fixed(moved / us / 1e3, 1)} GB/s`))));
  }
  return drawing;
}

function legend() {
  return h("div", {class: "legend"}, OUTCOMES.map((outcome) =>
    view.subgraphs.some((s) => s.outcome === outcome)
      ? tag(outcome) : null));
}
