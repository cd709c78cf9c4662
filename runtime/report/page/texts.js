// Texts by their hash: inflated from the page's packs, or asked of the server
// that shows a run that goes on.
const texts = {
  packs: new Map(),
  known: new Map(),

  async pack(number) {
    if (!this.packs.has(number)) {
      const coded = document.getElementById(`pack-${number}`).textContent;
      const raw = Uint8Array.from(atob(coded), (c) => c.charCodeAt(0));
      const stream = new Blob([raw]).stream()
        .pipeThrough(new DecompressionStream("deflate"));
      this.packs.set(number, new Response(stream).arrayBuffer());
    }
    return this.packs.get(number);
  },

  /// Promises the text; null: it was left out of this page.
  async get(hash) {
    if (!hash) return "";
    if (this.known.has(hash)) return this.known.get(hash);
    const where = (view.texts || {})[hash];
    let text = null;
    if (where) {
      const [pack, offset, size] = where;
      const all = await this.pack(pack);
      text = new TextDecoder().decode(new Uint8Array(all, offset, size));
    } else if (live.on) {
      const reply = await fetch("text/" + hash + location.search);
      if (reply.ok) text = await reply.text();
    }
    if (text !== null) this.known.set(hash, text);
    return text;
  },

  /// `element` gets what `show(text)` makes, when the text is there.
  into(element, hash, show) {
    this.get(hash).then((text) => {
      element.replaceChildren(text === null
        ? h("p", {class: "pad soft"}, "Left out, for the page's size: the " +
            "journal has it as blob ", h("code", {}, hash), ".")
        : show(text));
    }, (problem) => {
      element.replaceChildren(h("p", {class: "pad bad"},
        "This text could not be read: " + problem.message));
    });
    return element;
  },
};
