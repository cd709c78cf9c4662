// A table that sorts, filters, and shows its rows a hundred at a time.
const tableStates = new Map();
const ROWS_AT_ONCE = 100;

function compare(a, b) {
  const none = (x) => x === null || x === undefined || x === "" ||
    Number.isNaN(x);
  if (none(a) || none(b)) return none(a) - none(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", {numeric: true});
}

/// columns: [{name, value(row), cell(row)?, number?}]; chips: value(row) whose
/// values can be chosen; `id` keeps how it is sorted and filtered.
function table({id, columns, rows, chips, link, search = true}) {
  const state = tableStates.get(id) ||
    {sort: -1, down: false, text: "", chip: null, shown: ROWS_AT_ONCE};
  tableStates.set(id, state);
  const body = h("tbody", {});
  const more = h("div", {class: "more"});
  const heads = columns.map((column, at) => h("th", {
    scope: "col", class: column.number ? "num" : null,
  }, h("button", {type: "button", click: () => {
    state.down = state.sort === at ? !state.down : Boolean(column.number &&
      column.bestFirst);
    state.sort = at;
    draw();
  }}, column.name)));

  function chosen() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const list = rows.filter((row) => {
      if (state.chip !== null && chips(row) !== state.chip) return false;
      if (!words.length) return true;
      const text = columns.map((c) => c.value(row)).join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (state.sort < 0) return list;
    const value = columns[state.sort].value;
    const way = state.down ? -1 : 1;
    // What has no value stays last, whichever way.
    return list.map((row) => [value(row), row]).sort(([a], [b]) => {
      const order = compare(a, b);
      return compare(a, null) === 0 || compare(b, null) === 0
        ? order : way * order;
    }).map(([, row]) => row);
  }

  function draw() {
    const list = chosen();
    heads.forEach((head, at) => {
      if (at === state.sort) {
        head.setAttribute("aria-sort",
                          state.down ? "descending" : "ascending");
      } else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...list.slice(0, state.shown).map((row) => h("tr", {
      id: link ? link(row).map(encodeURIComponent).join("/") : null,
    }, columns.map((c) => h("td", {class: c.number ? "num" : null},
                            (c.cell || c.value)(row))))));
    more.replaceChildren();
    if (list.length > state.shown) {
      more.append(`${count(state.shown)} of ${count(list.length)} rows. `,
        h("button", {type: "button", click: () => {
          state.shown += 5 * ROWS_AT_ONCE;
          draw();
        }}, "Show more"));
    } else if (!list.length) more.append("No row fits.");
  }

  const tools = h("div", {class: "tools"});
  if (search && rows.length > 3) {
    const input = h("input", {type: "search", placeholder: "Filter",
      "aria-label": "Filter the rows"});
    input.value = state.text;
    input.addEventListener("input", () => {
      state.text = input.value;
      draw();
    });
    tools.append(input);
  }
  if (chips && rows.length > 3) {
    const counts = new Map();
    for (const row of rows) {
      counts.set(chips(row), (counts.get(chips(row)) || 0) + 1);
    }
    const buttons = [...counts].map(([value, n]) => {
      const button = h("button", {type: "button", click: () => {
        state.chip = state.chip === value ? null : value;
        press();
        draw();
      }}, `${value} ${count(n)}`);
      return [value, button];
    });
    const press = () => buttons.forEach(([value, button]) =>
      button.setAttribute("aria-pressed", String(state.chip === value)));
    press();
    if (buttons.length > 1) tools.append(...buttons.map(([, b]) => b));
  }
  draw();
  return h("div", {}, tools.childElementCount ? tools : null,
    h("div", {class: "card"}, h("div", {class: "scroll"},
      h("table", {}, h("thead", {}, h("tr", {}, heads)), body)), more));
}
