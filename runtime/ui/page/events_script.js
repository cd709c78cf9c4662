// A run at any of its events. Everything that the journal says is shown as
// text; nothing of it becomes markup.
"use strict";

const again_ms = 1000;
const at = (id) => document.getElementById(id);
const wanted = { seq: 0, role: new URLSearchParams(location.hash.slice(1)).get("role") || "" };
let last = 0;
let is_asking = false;

async function ask(address) {
  const reply = await fetch(address);
  if (!reply.ok) throw new Error((await reply.text()).trim());
  return reply.json();
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "link";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

function line_of(event) {
  return `${event.seq} ${event.src} → ${event.dst} ${event.type}`;
}

function list(id, events) {
  at(id).replaceChildren(...events.map((event) => {
    const item = document.createElement("li");
    item.append(button(line_of(event), () => go(event.seq)));
    return item;
  }));
}

function rows(id, values) {
  at(id).replaceChildren(...values.map((cells) => {
    const row = document.createElement("tr");
    for (const value of cells) {
      const cell = document.createElement("td");
      if (value instanceof Node) cell.append(value);
      else cell.textContent = String(value);
      if (typeof value === "number") cell.className = "number";
      row.append(cell);
    }
    return row;
  }));
}

function share(used, of) {
  const made = document.createElement("meter");
  made.max = Math.max(of, 1);
  made.value = used;
  return made;
}

function show_broker(moment) {
  const broker = moment.broker || { pools: [], leases: [], queues: [] };
  const location = (name) => name || "head";
  rows("pools", broker.pools.map((pool) => [pool.resource, location(pool.location), pool.used,
    pool.capacity, share(pool.used, pool.capacity)]));
  rows("leases", broker.leases.map((lease) => [
    button(lease.holder, () => look_at(lease.holder)), lease.resource, location(lease.location),
    lease.units]));
  rows("queues", broker.queues.map((waiting) => [
    button(waiting.holder, () => look_at(waiting.holder)), waiting.resource, waiting.group,
    waiting.units, Math.round((moment.event.at_us - waiting.since_us) / 1e5) / 10]));
}

function show_moment(moment) {
  const { event } = moment;
  at("event").textContent =
    `${line_of(event)}, ${new Date(event.at_us / 1000).toLocaleString()}`;
  at("body").textContent = JSON.stringify(moment.body, null, 2);
  list("causes", moment.causes.slice(1));
  list("said", moment.said);
  list("unanswered", moment.unanswered);
  at("roles").replaceChildren(...moment.roles.map((role) => {
    const item = document.createElement("li");
    item.append(button(role, () => look_at(role)));
    return item;
  }));
  show_broker(moment);
}

async function show_state(seq) {
  at("role").textContent = wanted.role;
  at("state").textContent = "";
  if (!wanted.role) return;
  try {
    const query = new URLSearchParams({ role: wanted.role, at: seq });
    const found = await ask(`state.json?${query}`);
    if (seq !== wanted.seq) return;
    at("state").textContent = JSON.stringify(found.state, null, 2);
  } catch (problem) {
    at("state").textContent = problem.message;
  }
}

function keep_address() {
  const hash = new URLSearchParams({ at: wanted.seq });
  if (wanted.role) hash.set("role", wanted.role);
  history.replaceState(null, "", `#${hash}`);
}

// One request at a time: who drags the scrubber sees where it stands when the
// answer comes, not each event on the way.
async function go(seq) {
  wanted.seq = Math.min(Math.max(1, seq), Math.max(last, 1));
  at("at").value = at("number").value = wanted.seq;
  keep_address();
  if (is_asking) return;
  is_asking = true;
  let shown = 0;
  while (shown !== wanted.seq) {
    shown = wanted.seq;
    try {
      show_moment(await ask(`moment.json?at=${shown}`));
      at("note").textContent = "";
      await show_state(shown);
    } catch (problem) {
      at("note").textContent = problem.message;
    }
  }
  is_asking = false;
}

function look_at(role) {
  wanted.role = role;
  keep_address();
  show_state(wanted.seq);
}

async function watch() {
  let finished = false;
  try {
    const about = await ask("about.json");
    at("title").textContent = `${about.problem || about.folder}: ` +
      (about.finished ? about.summary : "not finished");
    const grew = about.events !== last;
    finished = about.finished && !grew;
    last = about.events;
    at("last").textContent = last;
    at("at").max = at("number").max = last;
    if (wanted.seq === 0) {
      const begin = Number(new URLSearchParams(location.hash.slice(1)).get("at"));
      await go(begin || last);
    } else if (grew && at("follow").checked) {
      await go(last);
    }
  } catch (problem) {
    at("note").textContent = `weft ui does not answer: ${problem.message}`;
  }
  if (!finished) setTimeout(watch, again_ms);
}

at("at").addEventListener("input", (event) => go(Number(event.target.value)));
at("number").addEventListener("change", (event) => go(Number(event.target.value)));
at("back").addEventListener("click", () => go(wanted.seq - 1));
at("next").addEventListener("click", () => go(wanted.seq + 1));
at("scrubber").addEventListener("submit", (event) => event.preventDefault());
watch();
