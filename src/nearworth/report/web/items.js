// ---- the items of the list: only those that can be seen are in the document ----

// By kind of content: room for the labels and below them a thumbnail, lines of text, or nothing.
const LINE_HEIGHT_PX = { images: 66, text: 86, table: 64, bare: 46 };
const MIN_TILE_WIDTH_PX = 88;
const MIN_TILE_COLUMNS = 3;
const TILE_GAP_PX = 4;
const CAPTION_HEIGHT_PX = 24;
const GRID_MARGIN_PX = 12; // at the left and at the right
const GRID_PAD_PX = 10; // above and below
const SPARE_LINES = 3; // of items drawn beyond each end of what can be seen
const drawnItems = new Map(); // place in `shown` -> its element

// How items are laid out, in pixels. `side` is the width of a tile, and only a grid has it.
function geometry() {
  if (layout !== "grid") return { columns: 1, height: LINE_HEIGHT_PX[kind], pad: 0 };
  const width = $("list").clientWidth - 2 * GRID_MARGIN_PX;
  const columns = Math.max(MIN_TILE_COLUMNS, Math.floor(width / MIN_TILE_WIDTH_PX));
  const side = Math.floor(width / columns);
  return { columns, side, height: side + CAPTION_HEIGHT_PX, pad: GRID_PAD_PX };
}

// Draws the items that can be seen, all of them anew if `fresh`.
function drawList(fresh) {
  if (data.review) return; // a review shows one row at a time
  const host = $("list");
  const inner = $("inner");
  const grid = geometry();
  // A list box without options is a fault to a screen reader.
  host.setAttribute("role", shown.length ? "listbox" : "region");
  if (fresh) {
    drawnItems.clear();
    inner.replaceChildren();
  }
  if (!shown.length) {
    inner.style.height = "auto";
    inner.replaceChildren(nothingListed());
    host.removeAttribute("aria-activedescendant");
    return;
  }

  const nLines = Math.ceil(shown.length / grid.columns);
  inner.style.height = nLines * grid.height + 2 * grid.pad + "px";
  drawVisible(host, inner, grid);
  for (const [place, node] of drawnItems) {
    node.setAttribute("aria-selected", String(place === currentList().chosen));
  }
  host.setAttribute("aria-activedescendant", "item-" + currentList().chosen);
}

// Lists have thousands of rows: an item is made when it comes into sight and removed when it
// leaves, so that the document stays small.
function drawVisible(host, inner, grid) {
  const { columns, height, pad } = grid;
  const firstLine = Math.floor((host.scrollTop - pad) / height) - SPARE_LINES;
  const endLine = Math.ceil((host.scrollTop + host.clientHeight) / height) + SPARE_LINES;
  const first = Math.max(0, firstLine) * columns;
  const end = Math.min(shown.length, endLine * columns);
  for (const [place, node] of drawnItems) {
    if (place >= first && place < end) continue;
    node.remove();
    drawnItems.delete(place);
  }
  for (let place = first; place < end; place++) {
    if (drawnItems.has(place)) continue;
    const node = drawItem(place, grid);
    drawnItems.set(place, node);
    inner.append(node);
  }
}

function drawItem(place, grid) {
  const row = shown[place];
  const item = {
    row,
    place,
    decision: isOpen(tab, row) ? null : decisions[row],
    attributes: {
      role: "option",
      id: "item-" + place,
      "aria-selected": String(place === currentList().chosen),
      "aria-setsize": shown.length,
      "aria-posinset": place + 1,
      "data-i": place,
    },
  };
  const node = grid.side ? drawTile(item, grid) : drawLine(item, grid);
  const line = Math.floor(place / grid.columns);
  node.style.top = grid.pad + line * grid.height + "px";
  return node;
}

function drawTile({ row, place, decision, attributes }, { columns, side, height }) {
  const caption = labelChange(row);
  const mark = stamp(row, decision, "wrong");
  const state = decision ? WORD[decision.what] : mark && "judged wrong in the review";
  const words = [nameOf(row) + ":", ...caption.map((node) => node.textContent), state];
  const node = el(
    "div",
    {
      ...attributes,
      class: "item tile" + (decision ? " done" : ""),
      "aria-label": words.filter(Boolean).join(" "),
    },
    picture(row),
    el("div", { class: "cap" }, caption),
    mark,
  );
  node.style.width = side - TILE_GAP_PX + "px";
  node.style.height = height - TILE_GAP_PX + "px";
  node.style.left = GRID_MARGIN_PX + (place % columns) * side + "px";
  return node;
}

function drawLine({ row, decision, attributes }, { height }) {
  const mark = stamp(row, decision, "judged wrong");
  const labels = el("span", { class: "labels" }, labelChange(row));
  const note = notes[row] && el("span", { title: "has a note", text: "✎" });
  const right = el("span", { class: "right" }, rightOfLine(row, decision, mark));
  const node = el(
    "div",
    { ...attributes, class: "item line" + (decision ? " done" : "") },
    hasImages && picture(row),
    el(
      "div",
      { class: "body" },
      el("div", { class: "meta" }, labels, decision && mark, note, right),
      el("span", { class: "clamp", text: hasImages ? nameOf(row) : gist(row) }),
    ),
  );
  node.style.height = height + "px";
  return node;
}

// The label of a row, and the new label if one is suggested or chosen.
function labelChange(row) {
  const decision = decisions[row];
  const isChanged = decision && decision.what === "change";
  const newLabel = isChanged ? decision.label : suggested(row);
  const staysAsItIs = decision && ["keep", "delete"].includes(decision.what);
  const oldText = ownLabel(row);
  if (newLabel === null || staysAsItIs) return [el("b", { text: oldText })];
  return [
    el("span", { class: "old", text: oldText }),
    el("span", { class: "arrow", text: "→" }),
    el("span", { class: "new", text: labelText(newLabel) }),
  ];
}

// What was decided, or that a review found the label wrong; null if neither.
function stamp(row, decision, wrongText) {
  if (decision) {
    return el("span", { class: "stamp " + decision.what, text: WORD[decision.what] });
  }
  if (tab !== "labels" || !isReviewedWrong(row)) return null;
  return el("span", { class: "stamp asked", text: wrongText });
}

// How sure the audit is, in lists that have a probability; else the name of the row.
function rightOfLine(row, decision, mark) {
  if (tab === "labels") {
    if (!isReviewedWrong(row)) return shortPercent(pWrong(row));
    return decision ? nameOf(row) : mark;
  }
  if (tab === "unlabelled" && certaintyOf(row)) return shortPercent(certaintyOf(row));
  return nameOf(row);
}

function nothingListed() {
  const empty = (title, ...more) => el("div", { class: "empty" }, el("b", { text: title }), more);
  const rows = currentList().rows;
  if (rows.length) {
    const hidden = plural(rows.length, "row is", "rows are") + " hidden by the filters.";
    return empty("Nothing matches.", hidden, el("br"), button("Clear filters", clearFilters));
  }
  // Some labels may look wrong though no list stays within the false discovery rate asked for.
  // The page then brings the reason along.
  const reason = $("nothing").content.textContent;
  if (reason) return empty("No row is listed.", reason);
  const goodNews = "That is good news, not a proof: see About for what the search can miss.";
  return empty("No " + noun + " looks wrong.", goodNews);
}
