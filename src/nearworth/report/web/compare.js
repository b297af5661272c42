// ---- the row beside a neighbor: images, texts with shared words marked, cells with differences
// marked ----

// Words that most texts share, so that marking them would show nothing.
const COMMON_WORDS = new Set(
  (
    "that this with have from your they been will would could please there when what which " +
    "than then were into does need " +
    "only after before since still about their them these those such some other more most " +
    "very just also because while where"
  ).split(" "),
);
const MIN_MARKED_LETTERS = 4;

// A text as its words and what stands between them.
const splitWords = (text) => text.match(/[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu) || [];

// A text in which the words that another text has as well are marked.
function marked(text, otherText) {
  const shared = new Set(splitWords(otherText).map((word) => word.toLowerCase()));
  const isMarked = (word) =>
    word.length >= MIN_MARKED_LETTERS &&
    /[\p{L}\p{N}]/u.test(word) &&
    shared.has(word.toLowerCase()) &&
    !COMMON_WORDS.has(word.toLowerCase());
  return splitWords(text).map((word) =>
    isMarked(word) ? el("mark", { class: "same", text: word }) : word,
  );
}

// Whether the label of a neighbor speaks "for" the suggested label of a row or "against" it, for
// the given one; "" if for neither.
function toneOf(row, neighbor) {
  if (isNumber || isVeiled(row)) return "";
  const label = labelOf(neighbor);
  if (label === suggestionOf(row)) return "for";
  return label === labelOf(row) ? "against" : "";
}

const SIGN = { for: "✓ ", against: "= ", "": "" };
const signedLabel = (row, neighbor) => SIGN[toneOf(row, neighbor)] + labelText(labelOf(neighbor));

const chip = (row, neighbor) =>
  el("span", { class: "chip " + toneOf(row, neighbor), text: signedLabel(row, neighbor) });

// The rows that a row is compared with, [{row, distance}]: its nearest, or its duplicates, which
// have no distance.
function comparedWith(row) {
  const { partnersOf } = currentList();
  if (!partnersOf) return neighborsOf(row);
  return partnersOf(row).map((neighbor) => ({ row: neighbor }));
}

// The row that stands beside a row: the nearest one with the suggested label, unless another one
// was chosen.
function partnerOf(row) {
  if (pinnedRow !== null) return pinnedRow;
  const neighbors = comparedWith(row);
  const suggestion = suggestionOf(row);
  const partner = neighbors.find(({ row: near }) => labelOf(near) === suggestion) || neighbors[0];
  return partner ? partner.row : null;
}

function pin(row) {
  pinnedRow = row;
  drawDetail(true);
}

// ---- two cards beside each other ----

function card({ title, labelChip, content, isSelf, tool }) {
  const heading = el("b", { text: title });
  return el(
    "section",
    { class: "side1" + (isSelf ? " self" : "") },
    el("header", {}, heading, labelChip, el("span", { class: "spread" }), tool),
    content,
  );
}

// The image and the text of a row; words that the partner's text shares are marked.
function cardContent(row, partner) {
  const text = textOf(row);
  const prose = partner === null ? text : marked(text, textOf(partner));
  return [
    hasImages && picture(row),
    text && el("p", { class: "prose" }, prose),
    text.endsWith("…") && el("p", { class: "cut", text: "Cut here to keep this file small." }),
  ];
}

function drawPair(row, partner) {
  if (kind === "table" || kind === "bare") return null; // the table of cells has both
  const isAlone = partner === null;
  const own = card({
    title: isAlone ? nameOf(row) : "This row",
    labelChip: el("span", {
      class: "chip " + (tab === "labels" ? "against" : ""),
      text: ownLabel(row),
    }),
    content: cardContent(row, partner),
    isSelf: !isAlone,
  });
  if (isAlone) return el("div", { class: "pair one" }, own);
  const beside = card({
    title: nameOf(partner),
    labelChip: chip(row, partner),
    content: cardContent(partner, row),
    tool: openButton(partner),
  });
  return el("div", { class: "pair" }, own, beside);
}

// Opens the partner where it is itself in the list; nothing in a review, whose rows have an order.
function openButton(row) {
  if (data.review || !shown.includes(row)) return null;
  return button("Open", () => choose(shown.indexOf(row)), {
    class: "small quiet",
    "data-keep": "open",
    title: "This row is listed too",
  });
}

// ---- the table of cells ----

const NO_COMPARISON = -1; // the scale of texts that hardly two rows share

// ▲ ▼ where a number is more than a median deviation away, ≠ where a word is another one. The scale
// of a column is its median deviation; null for words.
function difference(column, own, neighbor) {
  const scale = data.scales[column];
  if (own === neighbor || own === "" || neighbor === "") return "";
  if (scale === NO_COMPARISON) return "";
  if (scale === null) return "≠ ";
  const gap = Number(neighbor) - Number(own);
  if (gap > scale) return "▲ ";
  return gap < -scale ? "▼ " : "";
}

// The rows that have a column beside a row: the partner first. Of texts and images the other
// neighbors are below, so that the partner is alone here.
function rowsBeside(row, partner) {
  if (partner === null) return [];
  if (kind !== "table") return [partner];
  const neighbors = comparedWith(row).map((neighbor) => neighbor.row);
  return [partner, ...neighbors.filter((neighbor) => neighbor !== partner)];
}

function cellTable(row, partner) {
  if (!plainCells.length) return null;
  const beside = rowsBeside(row, partner);
  const lines = plainCells.map((column) => cellLine(row, partner, beside, column));
  return el(
    "div",
    {
      class: "scrollx",
      tabindex: "0",
      role: "region",
      "aria-label": "This row beside its nearest rows",
    },
    el(
      "table",
      { class: "cmp" },
      cellTableHead(row, partner, beside),
      el("tbody", {}, targetLine(row, partner, beside), lines),
    ),
  );
}

function cellTableHead(row, partner, beside) {
  const own = partner === null ? nameOf(row) : "This row";
  const heads = beside.map((neighbor, place) => {
    const isPartner = neighbor === partner;
    const pinButton = button(nameOf(neighbor), () => pin(neighbor), {
      "aria-pressed": String(isPartner),
      "data-keep": "near-" + place,
      title: "Put this row beside",
    });
    return el("th", { scope: "col", class: isPartner ? "pinned" : null }, pinButton);
  });
  const ownHead = el("th", { scope: "col", class: "self", text: own });
  return el("thead", {}, el("tr", {}, el("td"), ownHead, heads));
}

const pinnedClass = (neighbor, partner) => (neighbor === partner ? " pinned" : "");

function targetLine(row, partner, beside) {
  const own = hasLabel(row) ? labelText(labelOf(row)) : "–";
  const cells = beside.map((neighbor) =>
    el("td", {
      class: toneOf(row, neighbor) + pinnedClass(neighbor, partner),
      text: signedLabel(row, neighbor),
    }),
  );
  return el(
    "tr",
    { class: "target" },
    el("th", { scope: "row", text: data.target }),
    el("td", { class: "self", text: own }),
    cells,
  );
}

function cellLine(row, partner, beside, { name, column }) {
  const own = cellsOf(row)[column];
  const cells = beside.map((neighbor) => {
    const cell = cellsOf(neighbor)[column];
    const sign = difference(column, own, cell);
    return el("td", {
      class: (sign ? "far" : "") + pinnedClass(neighbor, partner),
      text: sign + (cell || "–"),
    });
  });
  return el(
    "tr",
    {},
    el("th", { scope: "row", text: name, title: name }),
    el("td", { class: "self", text: own || "–" }),
    cells,
  );
}

function cellNote(row) {
  if (!plainCells.length) return null;
  const hasSigns = comparedWith(row).length && !isVeiled(row);
  const signs = "▲ ▼ mark numbers far above or below this row, ≠ other words.";
  const omitted = plural(data.cellsOmitted, "more column is", "more columns are");
  const note = data.cellsOmitted ? " " + omitted + " not shown." : "";
  return el("p", { class: "lead", text: (hasSigns ? signs : "") + note });
}

// ---- all neighbors ----

// All neighbors, to choose the partner from; a table has them as columns already.
function drawNeighbors(row, partner) {
  const neighbors = comparedWith(row);
  if (kind === "table" || isVeiled(row) || !neighbors.length) return null;
  const title = tab === "duplicates" ? "Copies " : "Nearest rows ";
  const hint = el("small", { text: "choose one to put it beside this row" });
  const buttons = neighbors.map((neighbor, place) => neighborButton(row, partner, neighbor, place));
  return el(
    "div",
    { class: "section" },
    el("h3", {}, title, hint),
    el("div", { class: "near " + (hasImages ? "images" : "texts") }, buttons),
  );
}

function neighborButton(row, partner, { row: neighbor, distance }, place) {
  const name = nameOf(neighbor);
  const caption = kind === "bare" ? "" : name;
  return el(
    "button",
    {
      type: "button",
      "data-keep": "near-" + place,
      "aria-pressed": String(neighbor === partner),
      title: name + (distance === undefined ? "" : ", distance " + distance),
      "aria-label": name + ", labelled " + labelText(labelOf(neighbor)),
      onclick: () => pin(neighbor),
    },
    excerpt(neighbor),
    el("span", { class: "foot" }, chip(row, neighbor), !hasImages && el("span", { text: caption })),
  );
}
