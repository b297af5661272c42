"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const count = data.row.length;
  const PAGE = 50, MOST_PRINTED = 500;
  const hasImages = Boolean(data.imageShape || data.pictures);
  const key = "nearworth:" + data.key;
  const WORDS = { confirm: "kept", relabel: "changed", skip: "skipped", open: "open" };

  // Decisions: position of a suspect -> {decision, label}. They stay with this report in this browser.
  let decisions = {};
  try {
    decisions = JSON.parse(localStorage.getItem(key) || "{}");
    localStorage.setItem(key, JSON.stringify(decisions));
  } catch (error) {
    decisions = {};
    $("storage").hidden = false;
  }
  const keep = () => { try { localStorage.setItem(key, JSON.stringify(decisions)); } catch (error) { $("storage").hidden = false; } };

  const make = (tag, text, attributes) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    return element;
  };
  const label = (code) => data.labels[code];
  const percent = (share) => share < 0.001 ? "<0.1%" : share > 0.999 ? ">99.9%" : ((100 * share).toFixed(share < 0.1 || share > 0.99 ? 1 : 0) + "%");
  const status = (i) => (decisions[i] ? decisions[i].decision : "open");
  const final = (i) => (decisions[i] && decisions[i].decision === "relabel" ? decisions[i].label : label(data.given[i]));

  const columns = [
    { name: "Row", hint: "rows count from 0", number: true, of: (i) => data.row[i] },
    ...(data.id ? [{ name: data.idName || "id", of: (i) => data.id[i] }] : []),
    { name: "Given", of: (i) => label(data.given[i]) },
    { name: "Suggested", of: (i) => label(data.suggested[i]) },
    { name: "Quality", number: true, of: (i) => data.quality[i], show: (i) => percent(data.quality[i]) },
    { name: "Value", kind: "value", number: true, of: (i) => data.value[i], show: (i) => data.value[i].toPrecision(3) },
    { name: "Decision", of: (i) => WORDS[status(i)] },
  ];
  const haystack = data.row.map((row, i) =>
    [row, data.id ? data.id[i] : "", label(data.given[i]), label(data.suggested[i]), ...(data.cells[i] || [])].join("\n").toLowerCase());

  let order = [...Array(count).keys()];
  let sorting = { column: null, up: true };
  let page = 0;
  let printing = false;
  let chosen = count ? 0 : null;

  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const text = new Intl.Collator(undefined, { numeric: true });

  function refresh() {
    const words = $("search").value.trim().toLowerCase();
    const given = $("given").value, suggested = $("suggested").value, decision = $("decision").value;
    order = [];
    for (let i = 0; i < count; i++) {
      if (given !== "" && data.given[i] !== Number(given)) continue;
      if (suggested !== "" && data.suggested[i] !== Number(suggested)) continue;
      if (decision !== "" && status(i) !== decision) continue;
      if (words && !haystack[i].includes(words)) continue;
      order.push(i);
    }
    if (sorting.column !== null) {
      const { of, number } = columns[sorting.column], sign = sorting.up ? 1 : -1;
      order.sort((a, b) => sign * (number ? compare(of(a), of(b)) : text.compare(of(a), of(b))) || a - b);
    }
    page = Math.min(page, Math.max(0, Math.ceil(order.length / PAGE) - 1));
    draw();
  }

  function draw() {
    const body = $("body");
    const focused = body.contains(document.activeElement);
    const rows = (printing ? order.slice(0, MOST_PRINTED) : order.slice(page * PAGE, (page + 1) * PAGE)).map((i) => {
      const line = make("tr", null, { "data-i": i, ...(i === chosen ? { "aria-current": "true" } : {}) });
      if (hasImages) line.append(cellWith(picture(data.row[i])));
      columns.forEach((column, c) => {
        const shown = column.show ? column.show(i) : column.of(i);
        const last = c === columns.length - 1;
        const words = last && status(i) === "relabel" ? "changed to " + final(i) : shown;
        const kind = (column.number ? "n " : last ? "mark " + status(i) : "text ") + (column.kind || "");
        if (c) { line.append(make("td", words, { class: kind, title: String(words) })); return; }
        const cell = make("td", null, { class: kind });  // a button: rows can be reached and chosen without a mouse
        cell.append(make("button", words, { type: "button", "aria-label": "Row " + words + ", given " + label(data.given[i]) + ", suggested " + label(data.suggested[i]) }));
        line.append(cell);
      });
      return line;
    });
    body.replaceChildren(...rows);
    const current = focused && body.querySelector('tr[aria-current="true"] button');
    if (current) current.focus({ preventScroll: true });
    const pages = Math.max(1, Math.ceil(order.length / PAGE));
    $("page").textContent = order.length.toLocaleString() + " listed, page " + (page + 1) + " of " + pages;
    $("previous").disabled = page === 0;
    $("next").disabled = page >= pages - 1;
    [...$("heads").children].forEach((head) => {
      if (head.dataset.c === undefined) return;
      const mine = Number(head.dataset.c) === sorting.column;
      head.setAttribute("aria-sort", mine ? (sorting.up ? "ascending" : "descending") : "none");
      head.firstChild.textContent = columns[head.dataset.c].name + (mine ? (sorting.up ? " ▲" : " ▼") : "");
    });
    const done = Object.values(decisions);
    const of = (kind) => done.filter((d) => d.decision === kind).length;
    $("progress").textContent = done.length + " of " + count + " decided: " + of("confirm") + " kept, " + of("relabel") + " changed, " + of("skip") + " skipped"
      + (printing && order.length > MOST_PRINTED ? "; the first " + MOST_PRINTED + " of " + order.length.toLocaleString() + " listed are printed" : "");
    $("csv").disabled = $("json").disabled = $("clear").disabled = !done.length;
  }

  const cellWith = (child) => { const cell = make("td"); if (child) cell.append(child); return cell; };

  function picture(row) {
    if (data.pictures) return data.pictures[row] ? make("img", null, { src: data.pictures[row], alt: "image of row " + row, loading: "lazy" }) : null;
    const encoded = data.images && data.images[row];
    if (!encoded) return null;
    const [height, width, channels] = [data.imageShape[0], data.imageShape[1], data.imageShape[2] || 1];
    const bytes = atob(encoded);
    const canvas = make("canvas", null, { width, height, role: "img", "aria-label": "image of row " + row });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    for (let p = 0; p < width * height; p++) {
      for (let c = 0; c < 3; c++) image.data[4 * p + c] = bytes.charCodeAt(p * channels + (channels >= 3 ? c : 0));
      image.data[4 * p + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  function detail() {
    const box = $("detail");
    if (chosen === null) { box.replaceChildren(make("p", "No suspects: nothing to decide.")); return; }
    const i = chosen;
    const pressed = box.contains(document.activeElement) ? document.activeElement.dataset.kind : null;
    const parts = [make("h3", "Row " + data.row[i] + (data.id ? " – " + data.id[i] : ""))];
    const image = picture(data.row[i]);
    if (image) { const holder = make("div", null, { class: "image" }); holder.append(image); parts.push(holder); }
    const change = make("p", null, { class: "change" });
    change.append(make("del", label(data.given[i])), " → ", make("ins", label(data.suggested[i])));
    parts.push(change, make("p", data.why[i]), buttons(i), facts(i), make("h4", "Nearest rows"), neighbours(i));
    if (data.cells[i]) parts.push(make("h4", "This row"), listing(data.cellNames.map((name, c) => [name, data.cells[i][c]])));
    box.replaceChildren(...parts);
    if (pressed) box.querySelector('[data-kind="' + pressed + '"]').focus({ preventScroll: true });
    $("said").textContent = "Row " + data.row[i] + ": given " + label(data.given[i]) + ", suggested " + label(data.suggested[i]) + ", label right " + percent(data.quality[i]) + ", " + WORDS[status(i)];
    showPlace(i);
  }

  function buttons(i) {
    const holder = make("div", null, { class: "decide", role: "group", "aria-label": "Decision" });
    const add = (kind, words, action) => {
      const button = make("button", words, { type: "button", "aria-pressed": String(status(i) === kind), "data-kind": kind });
      button.addEventListener("click", action);
      holder.append(button);
    };
    add("confirm", "Keep " + label(data.given[i]) + " (c)", () => decide("confirm"));
    add("relabel", "Change to " + (status(i) === "relabel" ? final(i) : label(data.suggested[i])) + " (r)", () => decide("relabel"));
    add("skip", "Skip (s)", () => decide("skip"));
    if (data.nClasses) {
      const choice = make("select", null, { "aria-label": "Change to another label", id: "another" });
      choice.append(make("option", "other label …", { value: "" }));
      for (let c = 0; c < data.nClasses; c++) choice.append(make("option", label(c), { value: c }));
      choice.addEventListener("change", () => { if (choice.value !== "") decide("relabel", label(choice.value)); });
      holder.append(choice);
    } else {
      const entry = make("input", null, { type: "number", step: "any", "aria-label": "Change to another number", placeholder: "other number" });
      entry.addEventListener("change", () => { if (entry.value !== "") decide("relabel", entry.value); });
      holder.append(entry);
    }
    return holder;
  }

  const facts = (i) => listing([
    ["label right", percent(data.quality[i])],
    ["suggestion right", percent(data.confidence[i])],
    ["agreement", percent(data.agreement[i]), data.agreementIs],
    ["value", String(data.value[i])],
  ]);

  function listing(pairs) {
    const list = make("dl", null, { class: "facts" });
    for (const [name, value, hint] of pairs) list.append(make("dt", name, hint ? { title: hint } : {}), make("dd", value));
    return list;
  }

  function neighbours(i) {
    const table = make("table");
    const head = make("tr");
    if (hasImages) head.append(make("th", "Image", { scope: "col" }));
    head.append(make("th", "Label", { scope: "col" }), make("th", "Row", { scope: "col", class: "n" }), make("th", "Distance", { scope: "col", class: "n" }), make("td"));
    const most = Math.max(...data.near[i].map((n) => n[2]), 1e-300);
    const lines = data.near[i].map(([row, code, distance]) => {
      const line = make("tr");
      if (hasImages) line.append(cellWith(picture(row)));
      line.append(make("td", label(code), { class: code === data.given[i] ? "text" : "text other" }));
      line.append(make("td", row, { class: "n" }), make("td", distance, { class: "n" }));
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      bar.setAttribute("class", "bars"); bar.setAttribute("viewBox", "0 0 70 10"); bar.setAttribute("aria-hidden", "true");
      const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      rect.setAttribute("width", (70 * distance / most).toFixed(1)); rect.setAttribute("height", "10");
      bar.append(rect);
      line.append(cellWith(bar));
      return line;
    });
    const top = make("thead"), body = make("tbody");
    top.append(head); body.append(...lines); table.append(top, body);
    return table;
  }

  function showPlace(i) {
    const svg = document.querySelector("#map svg");
    if (!svg || !data.place) return;
    let ring = svg.querySelector(".here");
    if (!ring) {
      ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      ring.setAttribute("class", "here"); ring.setAttribute("r", "8");
      svg.append(ring);
    }
    ring.setAttribute("cx", data.place[i][0]); ring.setAttribute("cy", data.place[i][1]);
  }

  function choose(i) {
    chosen = i;
    const at = order.indexOf(i);
    if (at >= 0) page = Math.floor(at / PAGE);
    draw(); detail();
    const line = document.querySelector('#body tr[aria-current="true"]');
    if (line) line.scrollIntoView({ block: "nearest" });
  }

  function move(step) {
    if (!order.length) return;
    const at = order.indexOf(chosen);
    choose(order[Math.min(order.length - 1, Math.max(0, at < 0 ? 0 : at + step))]);
  }

  function decide(decision, to) {
    if (chosen === null) return;
    const i = chosen, at = order.indexOf(i);
    if (decision === null) delete decisions[i];
    else if (decision === "relabel") decisions[i] = { decision, label: to === undefined ? label(data.suggested[i]) : to };
    else decisions[i] = { decision };
    if (to !== undefined && to === label(data.given[i])) decisions[i] = { decision: "confirm" };
    keep();
    const following = at >= 0 && at + 1 < order.length ? order[at + 1] : null;
    refresh();
    if (decision !== null && to === undefined && following !== null) choose(following); else detail();
  }

  // Text that a spreadsheet would run gets a quote in front, as in every CSV of nearworth; numbers are left alone.
  const inert = (cell) => (/^'*[=+\-@\t\r\n\0\uFF1D\uFF0B\uFF0D\uFF20]/.test(cell) && !/^[+-]((\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?%?|[iI]nf(inity)?)?$/.test(cell) ? "'" + cell : cell);
  const quoted = (cell) => { const safe = inert(String(cell)); return /[",\r\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe; };
  const rows = () => Object.keys(decisions).map(Number).sort((a, b) => data.row[a] - data.row[b]).map((i) => ({
    row: data.row[i], ...(data.id ? { id: data.id[i] } : {}), target: data.target, given: label(data.given[i]),
    decision: status(i), label: final(i), ...(data.id ? { id_column: data.idName || "" } : {}), of_rows: data.ofRows,
  }));
  function save(name, kind, content) {
    const link = make("a", null, { href: URL.createObjectURL(new Blob([content], { type: kind })), download: name });
    document.body.append(link); link.click(); link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  function exportCsv() {
    const names = ["row", ...(data.id ? ["id"] : []), "target", "given", "decision", "label", ...(data.id ? ["id_column"] : []), "of_rows"];
    save("decisions.csv", "text/csv", [names, ...rows().map((r) => names.map((n) => r[n]))].map((r) => r.map(quoted).join(",")).join("\n") + "\n");
  }
  const exportJson = () => save("decisions.json", "application/json", JSON.stringify({ target: data.target, report: data.key, decisions: rows() }, null, 1) + "\n");

  function start() {
    if (hasImages) $("heads").append(make("th", "Image", { scope: "col" }));
    columns.forEach((column, c) => {
      const head = make("th", null, { scope: "col", "data-c": c, "data-name": column.name, class: (column.number ? "n " : "") + (column.kind || "") });
      const button = make("button", column.name, { type: "button", ...(column.hint ? { title: column.hint } : {}) });
      button.addEventListener("click", () => { sorting = { column: c, up: sorting.column === c ? !sorting.up : true }; page = 0; refresh(); });
      head.append(button);
      $("heads").append(head);
    });
    for (const [id, codes] of [["given", data.given], ["suggested", data.suggested]]) {
      if (!data.nClasses) { $(id).parentNode.hidden = true; continue; }
      const counts = new Map();
      codes.forEach((code) => counts.set(code, (counts.get(code) || 0) + 1));
      [...counts.keys()].sort((a, b) => text.compare(label(a), label(b))).forEach((code) =>
        $(id).append(make("option", label(code) + " (" + counts.get(code) + ")", { value: code })));
    }
    for (const id of ["search", "given", "suggested", "decision"]) $(id).addEventListener("input", () => { page = 0; refresh(); });
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    $("body").addEventListener("click", (event) => { const line = event.target.closest("tr"); if (line) choose(Number(line.dataset.i)); });
    $("previous").addEventListener("click", () => { page--; draw(); });
    $("next").addEventListener("click", () => { page++; draw(); });
    $("csv").addEventListener("click", exportCsv);
    $("json").addEventListener("click", exportJson);
    $("clear").addEventListener("click", () => { if (confirm("Forget all decisions on this page?")) { decisions = {}; keep(); refresh(); detail(); } });
    if ($("matrix")) $("matrix").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      $("given").value = data.labels.indexOf(button.dataset.given);
      $("suggested").value = data.labels.indexOf(button.dataset.suggested);
      page = 0; refresh();
      if (order.length) choose(order[0]);
      $("review").scrollIntoView();
    });
    const svg = document.querySelector("#map svg");
    if (svg && data.place) svg.addEventListener("click", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      let best = null, nearest = 400;
      data.place.forEach(([x, y], i) => { const d = (x - point.x) ** 2 + (y - point.y) ** 2; if (d < nearest) { nearest = d; best = i; } });
      if (best !== null) choose(best);
    });
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) {
        if (event.key === "Escape" && event.target.blur) event.target.blur();
        return;
      }
      const actions = { j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1), c: () => decide("confirm"), r: () => decide("relabel"), s: () => decide("skip"), u: () => decide(null), "/": () => $("search").focus() };
      const arrow = event.key.startsWith("Arrow") && !event.target.closest(".split");  // else the page scrolls
      if (actions[event.key] && !arrow && $("shortcuts").checked) { event.preventDefault(); actions[event.key](); }
    });
    for (const [event, all] of [["beforeprint", true], ["afterprint", false]]) addEventListener(event, () => { printing = all; draw(); });
    refresh(); detail();
    document.documentElement.dataset.ready = Math.round(performance.now());
  }
  start();
})();
