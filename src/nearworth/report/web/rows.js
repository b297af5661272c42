// ---- rows: a record for each row on the page, found by its file row ---- A file row counts the
// rows of the file from 0. It is what people see and what decisions are exported with. A shown row
// is a place in the lists of the data: the listed rows first, then the others. It is used in this
// part only. All other parts name a row by its file row, and ask here for what is known about it.
const records = new Map();
const nListed = data.row.length;

function addShownRow(row, shownRow) {
  const isListed = shownRow < nListed;
  const lists = isListed ? data : data.more;
  const at = isListed ? shownRow : shownRow - nListed;
  const given = lists.given[at];
  records.set(row, {
    isListed,
    hasLabel: given !== null,
    label: given === null ? "" : data.labels[given],
    cells: data.cellNames.length ? lists.cells[at] : [],
    id: data.id ? lists.id[at] : "",
    place: data.place ? data.place[shownRow] : null, // none for rows without a label
    near: [],
    typical: null,
  });
}

// What the audit says of a listed row.
function addAudit(row, at) {
  const record = records.get(row);
  record.wrong = 1 - data.quality[at];
  record.typical = data.labels[data.suggested[at]];
  record.near = data.near[at].map(([near, , distance]) => ({ row: near, distance }));
  record.range = data.ranges && data.ranges[at];
  record.unlike = (data.unlike && data.unlike[at]) || [];
}

// What its nearest rows suggest for a row without a label.
function addProposal(row, at) {
  const record = records.get(row);
  record.typical = data.labels[data.unlabelled.suggested[at]];
  record.certainty = data.unlabelled.certainty[at];
  record.near = data.unlabelled.near[at].map(([near, distance]) => ({ row: near, distance }));
}

const unlabelledRows = data.unlabelled ? data.unlabelled.row : [];
[...data.row, ...data.more.row].forEach(addShownRow);
data.row.forEach(addAudit);
unlabelledRows.forEach(addProposal);
const nUnlabelled = data.ofRows - data.nRows; // in the file
const labelledRows = plural(data.nRows, "row") + (nUnlabelled ? " with a " + noun : "");

const isListed = (row) => records.get(row).isListed;
const hasLabel = (row) => records.get(row).hasLabel;
const labelOf = (row) => records.get(row).label;
const ownLabel = (row) => (hasLabel(row) ? show(labelOf(row)) : "no " + noun);
const cellsOf = (row) => records.get(row).cells;
const idOf = (row) => records.get(row).id;
const nameOf = (row) => idOf(row) || "Row " + n(row);
const placeOf = (row) => records.get(row).place;
const nearOf = (row) => records.get(row).near;
const wrong = (row) => records.get(row).wrong; // a probability, of listed rows
const rangeOf = (row) => records.get(row).range;
const unlikeOf = (row) => records.get(row).unlike;
const certainty = (row) => records.get(row).certainty;
// what is suggested, though it be the given label
const typicalOf = (row) => records.get(row).typical;
const suggestionOf = (row) =>
  typicalOf(row) === labelOf(row) && hasLabel(row) ? null : typicalOf(row);
const wasWrongRows = new Set(data.wasWrong);
const wasWrong = (row) => wasWrongRows.has(row); // a person judged it so

const hasImages = Boolean(data.imageShape || data.pictures);
const kind = hasImages ? "images" : data.text ? "text" : data.cellNames.length ? "table" : "bare";
const textOf = (row) => (data.text ? cellsOf(row)[0] : "");
const plainCells = data.cellNames.map((name, j) => ({ name, j })).slice(data.text ? 1 : 0);

function picture(row) {
  if (data.pictures) {
    return data.pictures[row]
      ? el("img", {
          class: "pic",
          src: data.pictures[row],
          alt: "Image of " + nameOf(row),
          draggable: "false",
        })
      : el("span", { class: "pic none", text: "no image" });
  }
  const encoded = data.images && data.images[row];
  if (!encoded) return el("span", { class: "pic none", text: "no image" });
  const [height, width, channels = 1] = data.imageShape;
  const bytes = atob(encoded),
    canvas = el("canvas", {
      class: "pic",
      width,
      height,
      role: "img",
      "aria-label": "Image of " + nameOf(row),
    });
  const context = canvas.getContext("2d"),
    image = context.createImageData(width, height);
  for (let p = 0; p < width * height; p++) {
    for (let c = 0; c < 3; c++)
      image.data[4 * p + c] = bytes.charCodeAt(p * channels + (channels >= 3 ? c : 0));
    image.data[4 * p + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Two lines about a row: its text, or its first cells.
const someCells = (row, most) =>
  plainCells
    .slice(0, most)
    .map(({ name, j }) => name + ": " + (cellsOf(row)[j] || "–"))
    .join(" · ");
const gist = (row) => (textOf(row) || someCells(row, 5) || nameOf(row)).slice(0, 400);
const excerpt = (row) =>
  hasImages ? picture(row) : el("span", { class: "clamp", text: gist(row) });
const searched = new Map();
function searchable(row) {
  if (!searched.has(row)) {
    const best = suggestionOf(row);
    searched.set(
      row,
      [row, idOf(row), labelOf(row), show(labelOf(row)), best === null ? "" : best, ...cellsOf(row)]
        .join("\n")
        .toLowerCase(),
    );
  }
  return searched.get(row);
}
