// How elements are made. Everything that a journal says reaches the page as
// text of a text node or as an attribute of the few that are named here.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/// h("a", {href: "#x", click: go}, "text", [more]).
function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/// A link within the page; what it is made of may hold anything.
function to(parts, ...children) {
  const href = "#" + parts.map(encodeURIComponent).join("/");
  return h("a", {href}, ...children);
}

function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", {readonly: true});
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return Promise.resolve();
}

/// `text` is a string, or a function that promises one.
function copyButton(text, label = "Copy") {
  const button = h("button", {type: "button"}, label);
  button.addEventListener("click", async () => {
    try {
      await copyText(typeof text === "function" ? await text() : text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "No access to the clipboard";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

/// A word of a shell's command, whatever is in it: it will be pasted.
function shellWord(text) {
  return /^[-\w.\/,:=+@]+$/.test(text) ? text
    : "'" + text.replaceAll("'", "'\\''") + "'";
}

function copyLine(text) {
  return h("div", {class: "copyline"}, h("code", {}, text), copyButton(text));
}

const tip = {
  show(event, text) {
    const element = document.getElementById("tip");
    element.textContent = text;
    element.hidden = false;
    const right = Math.max(8, innerWidth - element.offsetWidth - 8);
    element.style.left = Math.min(event.clientX + 12, right) + "px";
    element.style.top = Math.min(event.clientY + 14,
      innerHeight - element.offsetHeight - 8) + "px";
  },
  hide() { document.getElementById("tip").hidden = true; },
};
