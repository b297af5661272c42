"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const count = data.row.length, key = "nearworth:review:" + data.key;
  const hasImages = Boolean(data.imageShape || data.pictures);

  // Decisions: position of a row -> "right", "wrong" or "skip", in the order they were made. They stay in this browser.
  let decisions = new Map();
  const keep = () => { try { localStorage.setItem(key, JSON.stringify([...decisions])); } catch (error) { $("storage").hidden = false; } };
  try { decisions = new Map(JSON.parse(localStorage.getItem(key) || "[]")); } catch (error) { decisions = new Map(); }
  keep();
  const firstOpen = (from) => { for (let s = 0; s < count; s++) { const i = (from + s) % count; if (!decisions.has(i)) return i; } return null; };
  let at = firstOpen(0) ?? 0;

  const make = (tag, text, attributes) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    return element;
  };
  const label = (code) => data.labels[code];
  const percent = (share) => (share < 0.001 ? "<0.1%" : share > 0.999 ? ">99.9%" : (100 * share).toFixed(share < 0.1 || share > 0.99 ? 1 : 0) + "%");
  const cellWith = (child) => { const cell = make("td"); if (child) cell.append(child); return cell; };

  function picture(row) {
    if (data.pictures) return data.pictures[row] ? make("img", null, { src: data.pictures[row], alt: "image of row " + row }) : null;
    const encoded = data.images && data.images[row];
    if (!encoded) return null;
    const [height, width, channels] = [data.imageShape[0], data.imageShape[1], data.imageShape[2] || 1];
    const bytes = atob(encoded), canvas = make("canvas", null, { width, height, role: "img", "aria-label": "image of row " + row });
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    for (let p = 0; p < width * height; p++) {
      for (let c = 0; c < 3; c++) image.data[4 * p + c] = bytes.charCodeAt(p * channels + (channels >= 3 ? c : 0));
      image.data[4 * p + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  function listing(pairs) {
    const list = make("dl", null, { class: "facts" });
    for (const [name, value] of pairs) list.append(make("dt", name), make("dd", value));
    return list;
  }

  function evidence(i) {
    const table = make("table"), head = make("tr"), body = make("tbody"), top = make("thead");
    if (hasImages) head.append(make("th", "Image", { scope: "col" }));
    head.append(make("th", "Label", { scope: "col" }), make("th", "Row", { scope: "col", class: "n" }), make("th", "Distance", { scope: "col", class: "n" }));
    for (const [row, code, distance] of data.near[i]) {
      const line = make("tr");
      if (hasImages) line.append(cellWith(picture(row)));
      line.append(make("td", label(code), { class: code === data.given[i] ? "text" : "text other" }), make("td", row, { class: "n" }), make("td", distance, { class: "n" }));
      body.append(line);
    }
    top.append(head); table.append(top, body);
    const says = [["suggested", label(data.suggested[i])], ["label right", percent(data.quality[i])]];
    return [make("h4", "What the audit says"), make("p", data.why[i]), listing(says), make("h4", "Nearest rows"), table];
  }

  function draw() {
    const i = at, box = $("detail"), pressed = box.contains(document.activeElement) ? document.activeElement.dataset.kind : null;
    const parts = [make("h3", "Row " + data.row[i] + (data.id ? " – " + data.id[i] : ""))];
    const image = picture(data.row[i]);
    if (image) { const holder = make("div", null, { class: "image" }); holder.append(image); parts.push(holder); }
    if (data.cells[i]) parts.push(listing(data.cellNames.map((name, c) => [name, data.cells[i][c]])));
    const given = make("p", data.target + ": ", { class: "change" });
    given.append(make("strong", label(data.given[i])));
    const holder = make("div", null, { class: "decide", role: "group", "aria-label": "Decision" });
    for (const [kind, words] of [["right", "Right (r)"], ["wrong", "Wrong (w)"], ["skip", "Skip (s)"]]) {
      const button = make("button", words, { type: "button", "data-kind": kind, "aria-pressed": String(decisions.get(i) === kind) });
      button.addEventListener("click", () => decide(kind));
      holder.append(button);
    }
    parts.push(given, holder);
    if (!data.blind || decisions.has(i)) parts.push(...evidence(i));
    box.replaceChildren(...parts);
    if (pressed) box.querySelector('[data-kind="' + pressed + '"]').focus({ preventScroll: true });
    const of = (kind) => [...decisions.values()].filter((d) => d === kind).length;
    $("progress").textContent = decisions.size + " of " + count + " judged: " + of("wrong") + " wrong, " + of("right") + " right, " + of("skip") + " skipped"
      + (decisions.size === count ? ". All done: export the decisions." : "");
    $("done").value = decisions.size;
    $("page").textContent = (i + 1) + " of " + count;
    $("previous").disabled = i === 0;
    $("next").disabled = i === count - 1;
    $("open").disabled = decisions.size === count;
    $("csv").disabled = $("clear").disabled = !decisions.size;
  }

  const go = (i) => { if (i !== null && i >= 0 && i < count) { at = i; draw(); } };
  function decide(kind) {
    const first = !decisions.has(at);
    decisions.delete(at); decisions.set(at, kind);
    keep();
    if (first && !data.blind) go(firstOpen(at) ?? at); else draw();
  }
  function undo() {
    const last = [...decisions.keys()].pop();
    if (last === undefined) return;
    decisions.delete(last); keep(); go(last);
  }

  // Text that a spreadsheet would run gets a quote in front, as in every CSV of nearworth; numbers are left alone.
  const inert = (cell) => (/^'*[=+\-@\t\r\n\0\uFF1D\uFF0B\uFF0D\uFF20]/.test(cell) && !/^[+-]((\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?%?|[iI]nf(inity)?)?$/.test(cell) ? "'" + cell : cell);
  const quoted = (cell) => { const safe = inert(String(cell)); return /[",\r\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe; };
  function exportCsv() {
    const names = ["row", ...(data.id ? ["id"] : []), "target", "given", "decision", "asked", "seed", "of_rows"];
    const lines = [...decisions].sort((a, b) => data.row[a[0]] - data.row[b[0]]).map(([i, decision]) =>
      [data.row[i], ...(data.id ? [data.id[i]] : []), data.target, label(data.given[i]), decision, count, data.seed, data.ofRows]);
    const link = make("a", null, { href: URL.createObjectURL(new Blob([[names, ...lines].map((line) => line.map(quoted).join(",")).join("\n") + "\n"], { type: "text/csv" })), download: "decisions.csv" });
    document.body.append(link); link.click(); link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  $("csv").addEventListener("click", exportCsv);
  $("clear").addEventListener("click", () => { if (confirm("Forget all decisions on this page?")) { decisions = new Map(); keep(); go(0); } });
  $("previous").addEventListener("click", () => go(at - 1));
  $("next").addEventListener("click", () => go(at + 1));
  $("open").addEventListener("click", () => go(firstOpen(at)));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea") || !$("shortcuts").checked) return;
    const actions = { r: () => decide("right"), w: () => decide("wrong"), s: () => decide("skip"), u: undo, j: () => go(at + 1), k: () => go(at - 1) };
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
  draw();
  document.documentElement.dataset.ready = Math.round(performance.now());
})();
