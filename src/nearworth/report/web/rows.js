// ---- rows: a record for each row on the page, found by its file row ----
// A file row counts the rows of the file from 0. It is what people see and what decisions are
// exported with. A shown row is a place in the lists of the data: the listed rows first, then the
// others. It is used in this part only. All other parts name a row by its file row, and ask here
// for what is known about it.
const records = new Map();
const nListed = data.row.length;
const unlabelledRows = data.unlabelled ? data.unlabelled.row : [];

function addShownRow(row, shownRow) {
  const isInList = shownRow < nListed;
  const source = isInList ? data : data.more;
  const index = isInList ? shownRow : shownRow - nListed;
  const given = source.given[index];
  records.set(row, {
    isListed: isInList,
    hasLabel: given !== null,
    label: given === null ? "" : data.labels[given],
    cells: data.cellNames.length ? source.cells[index] : [],
    id: data.id ? source.id[index] : "",
    place: data.place ? data.place[shownRow] : null, // none for rows without a label
    neighbors: [],
    typical: null,
  });
}

// What the audit found about a listed row.
function addAudit(row, index) {
  const record = records.get(row);
  record.pWrong = 1 - data.quality[index];
  record.typical = data.labels[data.suggested[index]];
  record.neighbors = data.near[index].map(([neighbor, , distance]) => ({
    row: neighbor,
    distance,
  }));
  record.range = data.ranges && data.ranges[index];
  record.conflict = (data.unlike && data.unlike[index]) || [];
}

// What its nearest rows suggest for a row without a label.
function addProposal(row, index) {
  const proposals = data.unlabelled;
  const record = records.get(row);
  record.typical = data.labels[proposals.suggested[index]];
  record.certainty = proposals.certainty[index];
  record.neighbors = proposals.near[index].map(([neighbor, distance]) => ({
    row: neighbor,
    distance,
  }));
}

[...data.row, ...data.more.row].forEach(addShownRow);
data.row.forEach(addAudit);
unlabelledRows.forEach(addProposal);

const nUnlabelled = data.ofRows - data.nRows; // in the file
const labelledRows = plural(data.nRows, "row") + (nUnlabelled ? " with a " + noun : "");

const isListed = (row) => records.get(row).isListed;
const hasLabel = (row) => records.get(row).hasLabel;
const labelOf = (row) => records.get(row).label;
const ownLabel = (row) => (hasLabel(row) ? labelText(labelOf(row)) : "no " + noun);
const cellsOf = (row) => records.get(row).cells;
const idOf = (row) => records.get(row).id;
const nameOf = (row) => idOf(row) || "Row " + n(row);
const placeOf = (row) => records.get(row).place; // on the map: [x, y]
const neighborsOf = (row) => records.get(row).neighbors; // [{row, distance}], nearest first
const pWrong = (row) => records.get(row).pWrong; // a probability, of listed rows
const rangeOf = (row) => records.get(row).range; // in which its target is likely: [low, high]
// An identical row with another label: [its row, its label, how many such rows], or [].
const conflictOf = (row) => records.get(row).conflict;
const certaintyOf = (row) => records.get(row).certainty; // of a proposal for a row without a label
// What is suggested, even if it is the given label.
const typicalOf = (row) => records.get(row).typical;

// What is suggested instead of the given label; null if nothing else is.
function suggestionOf(row) {
  const isGiven = hasLabel(row) && typicalOf(row) === labelOf(row);
  return isGiven ? null : typicalOf(row);
}

const reviewedWrong = new Set(data.wasWrong);
const isReviewedWrong = (row) => reviewedWrong.has(row); // a person decided so in a review

// ---- the content of a row ----

const hasImages = Boolean(data.imageShape || data.pictures);
const kind = kindOfContent();
const textOf = (row) => (data.text ? cellsOf(row)[0] : "");
// The cells that stand in tables: a text comes first in the data, and is shown on its own.
const plainCells = data.cellNames.map((name, column) => ({ name, column }));
if (data.text) plainCells.shift();

function kindOfContent() {
  if (hasImages) return "images";
  if (data.text) return "text";
  return data.cellNames.length ? "table" : "bare";
}

function picture(row) {
  const source = (data.pictures || data.images || {})[row];
  if (!source) return el("span", { class: "pic none", text: "no image" });
  const description = "Image of " + nameOf(row);
  if (!data.pictures) return pixelCanvas(source, description);
  return el("img", { class: "pic", src: source, alt: description, draggable: "false" });
}

// An image from the base64 code of its pixels: of one channel, or of three, red, green and blue.
function pixelCanvas(encoded, description) {
  const [height, width, nChannels = 1] = data.imageShape;
  const bytes = atob(encoded);
  const canvas = el("canvas", {
    class: "pic",
    width,
    height,
    role: "img",
    "aria-label": description,
  });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    for (let color = 0; color < 3; color++) {
      const channel = nChannels >= 3 ? color : 0;
      image.data[4 * pixel + color] = bytes.charCodeAt(pixel * nChannels + channel);
    }
    image.data[4 * pixel + 3] = 255; // opaque
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

const GIST_CELLS = 5;
const GIST_CHARACTERS = 400; // more than two lines of the widest list

function firstCells(row, count) {
  const cells = cellsOf(row);
  return plainCells
    .slice(0, count)
    .map(({ name, column }) => name + ": " + (cells[column] || "–"))
    .join(" · ");
}

// Two lines about a row: its text, or its first cells.
function gist(row) {
  const content = textOf(row) || firstCells(row, GIST_CELLS) || nameOf(row);
  return content.slice(0, GIST_CHARACTERS);
}

const excerpt = (row) =>
  hasImages ? picture(row) : el("span", { class: "clamp", text: gist(row) });

// What a search looks at, in lower case; made when a row is first searched.
const searchTexts = new Map();

function searchable(row) {
  if (!searchTexts.has(row)) {
    const label = labelOf(row);
    const suggestion = suggestionOf(row);
    const parts = [row, idOf(row), label, labelText(label), suggestion ?? "", ...cellsOf(row)];
    searchTexts.set(row, parts.join("\n").toLowerCase());
  }
  return searchTexts.get(row);
}
