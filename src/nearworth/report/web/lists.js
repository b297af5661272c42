  // ---- the list on the left: filters, count, meter, and only those items drawn that can be seen ----
  const EMPTY_FILTER = { words: "", given: "", best: "", state: "" };
  const lists = data.review ? { review: { name: "Review", rows: data.row } } : {
    labels: { name: isNumber ? "Targets" : "Labels", rows: data.row },
    ...(unlabelled.size ? { unlabelled: { name: "Unlabelled", rows: data.unlabelled.row } } : {}),
    sample: { name: "Sample", rows: data.sample },
  };
  // Further findings: the rows beside each row, and what is said about it. A row that is found twice is listed once.
  const found = Object.entries({ duplicates: "Duplicates", outliers: "Outliers", leakage: "Leakage" }).filter(([id]) => data.findings && data.findings[id]);
  for (const [id, name] of found) {
    const { rows, near, ...about } = data.findings[id], at = new Map();
    rows.forEach((row, k) => { if (!at.has(row)) at.set(row, k); });
    lists[id] = { name, rows: [...at.keys()], near: (row) => near[at.get(row)], about: (row, key) => about[key][at.get(row)] };
  }
  for (const list of Object.values(lists)) Object.assign(list, { chosen: 0, sort: "sure", filter: { ...EMPTY_FILTER } });
  let tab = data.review ? "review" : "labels", pinned = null, layout = hasImages && !data.review ? "grid" : "list", shown = [];
  const list = () => lists[tab];
  const chosenRow = () => shown[list().chosen];
  const suggested = (row) => (tab === "labels" || tab === "unlabelled" ? suggestionOf(row) : null);
  const veiled = (row) => tab === "sample" || (data.blind && isOpen(tab, row)); // what the audit says of it is not shown
  const certainty = (row) => data.unlabelled.certainty[unlabelled.get(row)];
  const isFiltered = () => Object.values(list().filter).some(Boolean);
  const text = new Intl.Collator(undefined, { numeric: true });

  function passes(row, filter, words) {
    const decision = decisions[row];
    if (filter.state === "open" && !isOpen(tab, row)) return false;
    if (filter.state && filter.state !== "open" && (!decision || decision.what !== filter.state)) return false;
    if (filter.given && !isNumber && labelOf(row) !== data.labels[filter.given]) return false;
    if (filter.given && isNumber && (Number(labelOf(row)) > Number(suggestionOf(row))) !== (filter.given === "high")) return false;
    if (filter.best && suggested(row) !== data.labels[filter.best]) return false;
    return !words || searchable(row).includes(words) || (notes[row] || "").toLowerCase().includes(words);
  }

  // Lists what passes the filters; stays at the row given, else as near as possible to where it was.
  function refilter(stayAt) {
    const { filter, rows, sort } = list(), words = filter.words.trim().toLowerCase();
    const row = stayAt === undefined ? chosenRow() : stayAt;
    shown = rows.filter((each) => passes(each, filter, words));
    if (sort === "row") shown.sort((a, b) => a - b);
    if (sort === "given") shown.sort((a, b) => text.compare(labelOf(a), labelOf(b)));
    const at = shown.indexOf(row);
    list().chosen = at >= 0 ? at : Math.max(0, Math.min(list().chosen, shown.length - 1));
    drawList(true);
    drawCount();
  }

  function clearFilters() {
    list().filter = { ...EMPTY_FILTER };
    drawFilters();
    refilter();
    drawDetail();
  }

  function filterBy(name, value) {
    if (name === "sort") list().sort = value; else list().filter[name] = value;
    list().chosen = 0;
    refilter(null);
    drawDetail();
    $("clear").hidden = !isFiltered();
  }

  function choice(name, label, options) {
    const box = el("select", { "aria-label": label, onchange: () => { filterBy(name, box.value); mark(); } }, options.map(([value, words]) => el("option", { value, text: words })));
    const mark = () => box.classList.toggle("on", name !== "sort" && box.value !== "");
    box.value = name === "sort" ? list().sort : list().filter[name];
    mark();
    return box;
  }

  function labelOptions(of) {
    const counts = new Map();
    for (const row of list().rows) { const label = of(row); if (label !== null) counts.set(label, (counts.get(label) || 0) + 1); }
    return [...counts].sort((a, b) => text.compare(a[0], b[0])).map(([label, count]) => [String(data.labels.indexOf(label)), show(label) + " (" + n(count) + ")"]);
  }

  function drawFilters() {
    const search = el("input", {
      type: "search", id: "search", "aria-label": "Search", "aria-keyshortcuts": "/", autocomplete: "off",
      placeholder: kind === "text" ? "Search words, labels, notes" : "Search rows, labels, notes", oninput: () => filterBy("words", search.value),
    });
    search.value = list().filter.words;
    const clear = button("Clear filters", clearFilters, { class: "small quiet", id: "clear" });
    clear.hidden = !isFiltered();
    const hasNumbers = isNumber && tab === "labels";
    $("filters").replaceChildren(...[
      search,
      choice("sort", "Order", [["sure", tab === "sample" ? "Order by lot" : tab === "duplicates" ? "By group" : "Surest first"], ["row", "By row"], ["given", "By " + noun]]),
      hasNumbers && choice("given", "High or low", [["", "High or low"], ["high", "Looks too high"], ["low", "Looks too low"]]),
      !isNumber && tab !== "unlabelled" && choice("given", "Given label", [["", "Any label"], ...labelOptions(labelOf)]),
      !isNumber && tab !== "sample" && choice("best", "Suggested label", [["", "Any suggestion"], ...labelOptions(suggestionOf)]),
      choice("state", "Decision", [["", "Any decision"], ["open", "Open"], ...Object.entries(WORD).map(([what, word]) => [what, word])]),
      clear,
    ].filter(Boolean));
  }

  function drawCount() {
    const rows = list().rows, tally = Object.fromEntries(Object.keys(WORD).map((what) => [what, 0]));
    for (const row of rows) if (!isOpen(tab, row)) tally[decisions[row].what]++;
    const decided = Object.values(tally).reduce((a, b) => a + b, 0), open = shown.filter((row) => isOpen(tab, row)).length;
    const said = Object.entries(tally).map(([what, count]) => n(count) + " " + WORD[what].toLowerCase()).join(", ");
    $("count").textContent = isFiltered() ? n(shown.length) + " of " + n(rows.length) + " listed" : n(decided) + " of " + n(rows.length) + (data.review ? " judged: " + said : " decided");
    $("meter").replaceChildren(...Object.entries(tally).map(([what, count]) => {
      const bar = el("i", { class: what });
      bar.style.width = (100 * count) / Math.max(1, rows.length) + "%";
      return bar;
    }));
    $("meter").setAttribute("aria-label", said);
    $("bulk").textContent = open === 1 ? "Decide the 1 listed" : "Decide all " + n(open) + " listed";
    $("bulk").disabled = !open;
    $("bulk").hidden = tab === "sample" || data.review || !rows.length;
    $("layout").hidden = !hasImages || data.review;
    const icon = layout === "grid" ? "M1 2h14v2.4H1zM1 6.8h14v2.4H1zM1 11.6h14V14H1z" : "M1 1h6v6H1zM9 1h6v6H9zM1 9h6v6H1zM9 9h6v6H9z";
    $("layout").replaceChildren(svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, svg("path", { class: "fill", d: icon })));
    const all = Object.keys(decisions).length;
    $("export").textContent = all ? "Export " + n(all) : "Export";
    $("export").classList.toggle("ready", all > 0);
    $("undo").disabled = !done.length;
    for (const badge of $("tabs").querySelectorAll("[data-open]")) {
      badge.textContent = n(lists[badge.dataset.open].rows.filter((row) => isOpen(badge.dataset.open, row)).length);
    }
    drawSummary();
  }

  // ---- items ----
  const HEIGHT = { images: 66, text: 86, table: 64, bare: 46 };
  const drawn = new Map();

  function geometry() {
    if (layout === "grid") {
      const width = $("list").clientWidth - 24, columns = Math.max(3, Math.floor(width / 88)), side = Math.floor(width / columns);
      return { columns, side, height: side + 24, pad: 10 };
    }
    return { columns: 1, height: HEIGHT[kind], pad: 0 };
  }

  function drawList(fresh) {
    if (data.review) return; // one row at a time
    const host = $("list"), inner = $("inner"), g = geometry();
    host.setAttribute("role", shown.length ? "listbox" : "region");  // a list box without options is a fault to a screen reader
    if (fresh) { drawn.clear(); inner.replaceChildren(); }
    if (!shown.length) { inner.style.height = "auto"; inner.replaceChildren(nothingListed()); host.removeAttribute("aria-activedescendant"); return; }
    inner.style.height = Math.ceil(shown.length / g.columns) * g.height + 2 * g.pad + "px";
    const first = Math.max(0, Math.floor((host.scrollTop - g.pad) / g.height) - 3) * g.columns;
    const last = Math.min(shown.length, (Math.ceil((host.scrollTop + host.clientHeight) / g.height) + 3) * g.columns);
    for (const [i, node] of drawn) if (i < first || i >= last) { node.remove(); drawn.delete(i); }
    for (let i = first; i < last; i++) if (!drawn.has(i)) { const node = drawItem(i, g); drawn.set(i, node); inner.append(node); }
    for (const [i, node] of drawn) node.setAttribute("aria-selected", String(i === list().chosen));
    host.setAttribute("aria-activedescendant", "item-" + list().chosen);
  }

  function change(row) {
    const decision = decisions[row], best = decision && decision.what === "change" ? decision.label : suggested(row);
    const own = unlabelled.has(row) ? "no " + noun : show(labelOf(row));
    if (best === null || (decision && ["keep", "delete"].includes(decision.what))) return [el("b", { text: own })];
    return [el("span", { class: "old", text: own }), el("span", { class: "arrow", text: "→" }), el("span", { class: "new", text: show(best) })];
  }

  function drawItem(i, g) {
    const row = shown[i], decision = isOpen(tab, row) ? null : decisions[row];
    const stamp = decision && el("span", { class: "stamp " + decision.what, text: WORD[decision.what] });
    const common = { role: "option", id: "item-" + i, "aria-selected": String(i === list().chosen), "aria-setsize": shown.length, "aria-posinset": i + 1, "data-i": i };
    const asked = !decision && tab === "labels" && wasWrong(row) && el("span", { class: "stamp asked", text: g.side ? "wrong" : "judged wrong" });
    const classes = decision ? " done" : "";
    let node;
    if (g.side) {
      const caption = change(row), words = [nameOf(row) + ":", ...caption.map((part) => part.textContent), decision ? WORD[decision.what] : asked && "judged wrong in the review"];
      node = el("div", { ...common, class: "item tile" + classes, "aria-label": words.filter(Boolean).join(" ") }, picture(row), el("div", { class: "cap" }, caption), stamp || asked);
      node.style.width = g.side - 4 + "px";
      node.style.height = g.height - 4 + "px";
      node.style.left = 12 + (i % g.columns) * g.side + "px";
    } else {
      const right = tab === "labels" ? (wasWrong(row) ? asked || nameOf(row) : sure(wrong(row))) : tab === "unlabelled" && certainty(row) ? sure(certainty(row)) : nameOf(row);
      node = el("div", { ...common, class: "item line" + classes }, hasImages && picture(row), el("div", { class: "body" },
        el("div", { class: "meta" }, el("span", { class: "labels" }, change(row)), stamp, notes[row] && el("span", { title: "has a note", text: "✎" }), el("span", { class: "right" }, right)),
        el("span", { class: "clamp", text: hasImages ? nameOf(row) : gist(row) })));
      node.style.height = g.height + "px";
    }
    node.style.top = g.pad + Math.floor(i / g.columns) * g.height + "px";
    return node;
  }

  function nothingListed() {
    const rows = list().rows;
    if (!rows.length) {
      const why = $("nothing").content.textContent; // no list keeps what was asked for, though some labels look wrong
      return why ? el("div", { class: "empty" }, el("b", { text: "No row is listed." }), why)
        : el("div", { class: "empty" }, el("b", { text: "No " + noun + " looks wrong." }), "That is good news, not a proof: see About for what the search can miss.");
    }
    return el("div", { class: "empty" }, el("b", { text: "Nothing matches." }), plural(rows.length, "row is", "rows are") + " hidden by the filters.", el("br"), button("Clear filters", clearFilters));
  }

  function choose(i) {
    if (i < 0 || i >= shown.length) return;
    list().chosen = i;
    pinned = null;
    reveal();
    drawDetail();
  }
  const move = (by) => choose(Math.max(0, Math.min(shown.length - 1, list().chosen + by)));

  function reveal() {
    const host = $("list"), g = geometry(), top = g.pad + Math.floor(list().chosen / g.columns) * g.height;
    if (top < host.scrollTop) host.scrollTop = Math.max(0, top - g.height);
    else if (top + g.height > host.scrollTop + host.clientHeight) host.scrollTop = top + 2 * g.height - host.clientHeight;
    drawList();
  }

  // The next open row after the chosen one, from the top again at the end; -1 if none is left.
  function nextOpen() {
    for (let k = 1; k <= shown.length; k++) {
      const i = (list().chosen + k) % shown.length;
      if (isOpen(tab, shown[i])) return i;
    }
    return -1;
  }

