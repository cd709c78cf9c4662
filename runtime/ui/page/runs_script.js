// The list of runs, asked for again while the page is looked at.
"use strict";

const again_ms = 2000;

function cell(row, text, kind) {
  const made = document.createElement("td");
  made.textContent = text;
  if (kind) made.className = kind;
  row.append(made);
  return made;
}

function link(parent, text, address) {
  const made = document.createElement("a");
  made.textContent = text;
  made.href = address;
  parent.append(made, " ");
}

function row_of(run) {
  const row = document.createElement("tr");
  const problem = cell(row, "");
  link(problem, run.problem || run.folder.split("/").pop(), `/run/${run.id}/`);
  if (run.error) {
    cell(row, run.error, "bad").colSpan = 4;
  } else {
    const state = run.finished ? run.summary : "not finished";
    cell(row, state, run.finished ? (run.exit_code === 0 ? "good" : "bad") : "");
    const done = Object.values(run.outcomes).reduce((sum, n) => sum + n, 0);
    cell(row, `${done} of ${run.subgraphs}`, "number");
    cell(row, String(run.events), "number");
    cell(row, new Date(run.last_us / 1000).toLocaleString());
  }
  cell(row, run.folder, "faint");
  link(cell(row, ""), "events", `/run/${run.id}/events`);
  return row;
}

async function show() {
  const note = document.getElementById("note");
  try {
    const reply = await fetch("/runs.json");
    if (!reply.ok) throw new Error(await reply.text());
    const { runs, more } = await reply.json();
    document.getElementById("runs").replaceChildren(...runs.map(row_of));
    note.textContent = runs.length === 0 ? "There is no run here." :
      `${runs.length} runs` + (more > 0 ? `, and ${more} older ones` : "");
  } catch (problem) {
    note.textContent = `weft ui does not answer: ${problem.message}`;
  }
  setTimeout(show, again_ms);
}

show();
