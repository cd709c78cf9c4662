// Source text with its words coloured, and two texts line by line.
const KEYWORDS = new Set(("and as assert async await auto bool break case " +
  "catch char class const constexpr continue def default del do double elif " +
  "else enum except extern False finally float for from global if import in " +
  "inline int is lambda long namespace None nonlocal not or pass raise return " +
  "short signed sizeof static static_cast struct switch template this throw " +
  "True try typedef typename union unsigned using void volatile while with " +
  "yield __device__ __global__ __shared__ __restrict__ __launch_bounds__")
  .split(" "));

const WORDS = new RegExp([
  /(?<c>#(?!\s*(?:include|define|if|endif|pragma|else|undef)).*|\/\/.*|\/\*.*?\*\/)/,
  /(?<s>"""|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')/,
  /(?<n>\b(?:0x[\da-fA-F]+|\d+\.?\d*(?:e[+-]?\d+)?)[fFuUlL]*\b)/,
  /(?<w>[A-Za-z_]\w*)/,
].map((part) => part.source).join("|"), "g");

/// Longer lines are shown as they are.
const COLOURED_MAX = 2000;

function coloured(line) {
  const out = [];
  if (line.length > COLOURED_MAX) return [line];
  let at = 0;
  for (const match of line.matchAll(WORDS)) {
    const {c, s, n, w} = match.groups;
    const kind = c ? "c" : s ? "s" : n ? "n" : KEYWORDS.has(w) ? "k" : null;
    if (!kind) continue;
    out.push(line.slice(at, match.index));
    out.push(h("span", {class: kind}, match[0]));
    at = match.index + match[0].length;
  }
  out.push(line.slice(at));
  return out;
}

/// More lines are shown when asked for.
const LINES_MAX = 3000;

function lineRow(number, text, kind, colour) {
  return h("div", {class: "ln" + (kind ? " " + kind : "")},
    h("span", {class: "no"}, number),
    h("span", {class: "code"}, colour ? coloured(text) : text));
}

function sourceView(text, colour = true, wrap = false) {
  const lines = text.replace(/\n$/, "").split("\n");
  const block = h("div", {class: "source" + (wrap ? " wrap" : ""),
                          tabindex: 0});
  let shown = 0;
  const more = () => {
    const upto = Math.min(lines.length, shown + LINES_MAX);
    const rows = [];
    for (; shown < upto; ++shown) {
      rows.push(lineRow(shown + 1, lines[shown], "", colour));
    }
    block.append(...rows);
    if (shown < lines.length) {
      const button = h("button", {type: "button", click: () => {
        button.remove();
        more();
      }}, `${count(lines.length - shown)} more lines`);
      block.append(button);
    }
  };
  more();
  return block;
}

/// Cells of the table that finds the longest common lines.
const DIFF_CELLS_MAX = 4e6;

/// [[kind, text]] with kind "", "add" or "del"; null: too long to compare.
function difference(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) ++head;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head &&
         a[a.length - 1 - tail] === b[b.length - 1 - tail]) ++tail;
  const n = a.length - head - tail;
  const m = b.length - head - tail;
  if ((n + 1) * (m + 1) > DIFF_CELLS_MAX) return null;
  const width = m + 1;
  const table = new Uint32Array((n + 1) * width);
  for (let i = n - 1; i >= 0; --i) {
    for (let j = m - 1; j >= 0; --j) {
      table[i * width + j] = a[head + i] === b[head + j]
        ? table[(i + 1) * width + j + 1] + 1
        : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  const out = a.slice(0, head).map((line) => ["", line]);
  let i = 0;
  let j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[head + i] === b[head + j]) {
      out.push(["", a[head + i]]);
      ++i;
      ++j;
    } else if (i < n && (j === m ||
        table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      out.push(["del", a[head + i++]]);
    } else {
      out.push(["add", b[head + j++]]);
    }
  }
  return out.concat(a.slice(a.length - tail).map((line) => ["", line]));
}

/// Lines that stayed are shown this far around those that did not.
const CONTEXT_LINES = 4;

function diffView(before, after) {
  const lines = difference(before, after);
  if (!lines) {
    return h("p", {class: "pad soft"}, "Too long to be compared here.");
  }
  const near = new Uint8Array(lines.length);
  lines.forEach(([kind], at) => {
    if (!kind) return;
    near.fill(1, Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1);
  });
  const block = h("div", {class: "source", tabindex: 0});
  let number = 0;
  let skipped = 0;
  const said = () => {
    if (skipped) {
      block.append(h("div", {class: "skip"},
        `\u2026 ${plural(skipped, "line")} alike`));
    }
    skipped = 0;
  };
  lines.forEach(([kind, text], at) => {
    if (kind !== "del") ++number;
    if (!near[at]) {
      ++skipped;
      return;
    }
    said();
    const sign = kind === "add" ? "+ " : kind === "del" ? "\u2212 " : "  ";
    block.append(lineRow(kind === "del" ? "" : number, sign + text, kind,
                         true));
  });
  said();
  return block;
}
