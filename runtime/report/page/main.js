// Which page is shown, by the address's fragment; the theme; a run that goes on.
let view = null;

const live = {
  on: false,
  waits_ms: 1000,
  async ask() {
    try {
      const reply = await fetch("view.json" + location.search,
                                {cache: "no-store"});
      if (!reply.ok) throw new Error(`the server says ${reply.status}`);
      const next = await reply.json();
      const changed = !view || next.events !== view.events ||
        (next.finished === null) !== (view.finished === null);
      view = next;
      if (changed) render(true);
      liveWords(view.finished ? "" : "live");
    } catch (problem) {
      liveWords("no answer: " + problem.message);
    }
    if (!view || !view.finished) setTimeout(() => live.ask(), live.waits_ms);
  },
};

function liveWords(words) {
  let element = document.getElementById("live");
  if (!element) {
    element = h("span", {id: "live", class: "live", role: "status"});
    document.getElementById("bar-name").after(element);
  }
  element.textContent = words;
}

const SECTIONS = [["overview", "Overview"], ["graph", "Model"],
  ["subgraphs", "Subgraphs"], ["roofline", "Roofline"],
  ["timeline", "Timeline"], ["calls", "Calls"],
  ["environment", "Environment"]];

let onOverview = false;

function parts() {
  return location.hash.slice(1).split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
}

function nav(at) {
  document.getElementById("nav").replaceChildren(...SECTIONS.filter(([id]) =>
    id !== "calls" || view.calls.length).map(([id, words]) => {
      const link = h("a", {href: "#" + id}, words);
      if (id === at) link.setAttribute("aria-current", "true");
      return link;
    }));
}

/// `again`: the same page, of a run that went on.
function render(again = false) {
  tip.hide();
  const [page, first, second] = parts();
  const main = document.getElementById("main");
  const y = scrollY;
  document.getElementById("bar-name").textContent = view.problem || "";
  document.title = `${view.problem || "run"} \u2013 weft`;
  nav(page === "sg" ? "subgraphs" : page === "call" ? "calls"
    : page || "overview");
  if (page === "sg" || page === "call") {
    onOverview = false;
    const content = page === "sg" ? subgraphPage(first, second)
      : callPage(Number(first));
    main.replaceChildren(...content.flat(Infinity).filter(Boolean));
    scrollTo(0, again ? y : 0);
    return;
  }
  if (!onOverview || again) {
    main.replaceChildren(...overviewPage().filter(Boolean));
    onOverview = true;
  }
  if (again) {
    scrollTo(0, y);
    return;
  }
  const target = document.getElementById(location.hash.slice(1));
  for (const row of main.querySelectorAll("tr.here")) {
    row.classList.remove("here");
  }
  if (!target) return;
  if (target.tagName === "TR") target.classList.add("here");
  target.scrollIntoView();
}

const theme = {
  order: ["system", "light", "dark"],
  chosen: "system",
  dark: matchMedia("(prefers-color-scheme: dark)"),
  apply() {
    const dark = this.chosen === "dark" ||
      (this.chosen === "system" && this.dark.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.getElementById("theme").textContent = this.chosen === "system"
      ? "Theme" : this.chosen === "dark" ? "Dark" : "Light";
    for (const canvas of document.querySelectorAll("canvas")) {
      if (canvas.redraw) canvas.redraw();
    }
  },
  next() {
    const at = this.order.indexOf(this.chosen);
    this.chosen = this.order[(at + 1) % this.order.length];
    try {
      localStorage.setItem("weft-theme", this.chosen);
    } catch { /* A page without a store forgets it. */ }
    this.apply();
  },
  begin() {
    try {
      const kept = localStorage.getItem("weft-theme");
      if (this.order.includes(kept)) this.chosen = kept;
    } catch { /* The system's, then. */ }
    this.dark.addEventListener("change", () => this.apply());
    document.getElementById("theme").addEventListener("click",
                                                      () => this.next());
    addEventListener("beforeprint", () => {
      document.documentElement.dataset.theme = "light";
    });
    addEventListener("afterprint", () => this.apply());
    this.apply();
  },
};

theme.begin();
view = JSON.parse(document.getElementById("data").textContent);
addEventListener("hashchange", () => { if (view) render(); });
if (view) {
  render();
} else {
  live.on = true;
  live.ask();
}
