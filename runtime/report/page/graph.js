// The model as boxes in layers: a box stands below all that it needs. The order
// within a layer is improved by the mean place of a box's neighbours (Sugiyama
// and others, 1981).
const BOX = {width: 176, height: 42, across: 22, down: 34};
const SWEEPS = 6;

/// Layers, with places for edges that pass through; each item {box} or {}.
function layered(boxes, edges) {
  const layer = new Array(boxes.length).fill(0);
  // Edges go forward: boxes stand in execution order.
  for (const [from, to] of edges) {
    layer[to] = Math.max(layer[to], layer[from] + 1);
  }
  const layers = [];
  const items = boxes.map((box, at) => {
    const item = {box, layer: layer[at], up: [], down: []};
    (layers[layer[at]] ||= []).push(item);
    return item;
  });
  const chains = [];
  const spare = 20 * boxes.length + 200;
  let passing = 0;
  for (const [from, to] of edges) {
    let last = items[from];
    const chain = [last];
    const far = layer[to] - layer[from] > 1 && passing < spare;
    for (let at = layer[from] + 1; far && at < layer[to]; ++at) {
      const item = {box: null, layer: at, up: [last], down: []};
      last.down.push(item);
      layers[at].push(item);
      chain.push(item);
      last = item;
      ++passing;
    }
    last.down.push(items[to]);
    items[to].up.push(last);
    chain.push(items[to]);
    chains.push(chain);
  }
  return {layers, chains};
}

function mean(list, otherwise) {
  return list.length ? list.reduce((sum, item) => sum + item.x, 0) / list.length
    : otherwise;
}

function widthOf(item) {
  return item.box ? BOX.width : 14;
}

/// Places a layer's items near where they would be, without overlaps.
function settle(items, wished) {
  let right = -Infinity;
  items.forEach((item, at) => {
    item.x = Math.max(wished[at], right + widthOf(item) / 2);
    right = item.x + widthOf(item) / 2 + BOX.across;
  });
  const shift = items.reduce((sum, item, at) => sum + wished[at] - item.x, 0) /
    items.length;
  for (const item of items) item.x += shift;
}

function place(layers) {
  for (const items of layers) settle(items, items.map(() => 0));
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const down = sweep % 2 === 0;
    for (const items of down ? layers : [...layers].reverse()) {
      for (const item of items) {
        item.wish = mean(down ? item.up : item.down, item.x);
      }
      items.sort((a, b) => a.wish - b.wish);
      settle(items, items.map((item) => item.wish));
    }
  }
}

function short(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "\u2026" : text;
}

function boxElement(item) {
  const {box} = item;
  const subgraph = box.subgraph && subgraphById(box.subgraph);
  const outcome = subgraph ? subgraph.outcome || "note" : "";
  const group = svg("g", {class: `box ${box.kind} ${outcome}`,
    transform: `translate(${item.x - BOX.width / 2} ${item.y})`},
    svg("rect", {width: BOX.width, height: BOX.height, rx: 7}),
    svg("text", {x: 10, y: 18}, short(box.label, 25)),
    svg("text", {x: 10, y: 33, class: "soft"}, short(box.type || "", 26)),
    svg("title", {}, `${box.label}\n${box.type || ""}` + (subgraph
      ? `\n${subgraph.id}: ${subgraph.outcome || "not judged yet"}` : "")));
  if (!subgraph) return group;
  return svg("a", {href: "#sg/" + encodeURIComponent(subgraph.id),
    "aria-label": `${box.label}, ${outcome}`}, group);
}

function edgePath(chain) {
  const points = chain.map((item, at) => [item.x,
    at === 0 ? item.y + BOX.height : item.box ? item.y : item.y +
      BOX.height / 2]);
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let at = 1; at < points.length; ++at) {
    const [x0, y0] = points[at - 1];
    const [x1, y1] = points[at];
    const bend = (y1 - y0) / 2;
    path += `C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`;
  }
  return svg("path", {class: "edge", d: path});
}

const zoom = {scale: 1};

function modelGraph() {
  const graph = view.graph;
  if (!graph || !graph.nodes.length) {
    return h("p", {class: "pad soft"}, "The model is not captured yet.");
  }
  const {layers, chains} = layered(graph.nodes, graph.edges);
  place(layers);
  const all = layers.flat();
  all.forEach((item) => {
    item.y = item.layer * (BOX.height + BOX.down);
  });
  const left = Math.min(...all.map((i) => i.x - widthOf(i) / 2)) - 8;
  const right = Math.max(...all.map((i) => i.x + widthOf(i) / 2)) + 8;
  const height = layers.length * (BOX.height + BOX.down) - BOX.down + 16;
  const width = right - left;
  const drawing = svg("svg", {viewBox: `${left} -8 ${width} ${height}`,
    role: "img", "aria-label": "The model's graph"},
    chains.map(edgePath), all.filter((i) => i.box).map(boxElement));
  const frame = h("div", {class: "graph", tabindex: 0}, drawing);
  const size = () => {
    drawing.setAttribute("width", width * zoom.scale);
    drawing.setAttribute("height", height * zoom.scale);
    drawing.style.margin = "0 auto";
  };
  const button = (label, words, change) => h("button", {type: "button",
    title: words, click: () => {
      zoom.scale = Math.min(3, Math.max(.08, change()));
      size();
    }}, label);
  size();
  return {
    frame,
    tools: [button("\u2212", "Smaller", () => zoom.scale / 1.3),
      button("+", "Larger", () => zoom.scale * 1.3),
      button("Fit", "All of its width", () =>
        Math.min(1, (frame.clientWidth - 24) / width))],
  };
}
