  // ---- rows: those listed, their neighbours and the sample; each by its number in the data ----
  const known = new Map(); // row -> position: the listed rows first, then the others
  [...data.row, ...data.more.row].forEach((row, k) => known.set(row, k));
  const nListed = data.row.length;
  const part = (name, row) => {
    const k = known.get(row);
    return k < nListed ? data[name][k] : data.more[name][k - nListed];
  };
  const isListed = (row) => known.get(row) < nListed;
  const labelOf = (row) => data.labels[part("given", row)];
  const cellsOf = (row) => (data.cellNames.length ? part("cells", row) : []);
  const idOf = (row) => (data.id ? part("id", row) : "");
  const nameOf = (row) => idOf(row) || "Row " + n(row);
  const wasWrongRows = new Set(data.wasWrong);
  const wasWrong = (row) => wasWrongRows.has(row); // a person judged it so
  const wrong = (row) => 1 - data.quality[known.get(row)];
  // Rows without a label: known by their nearest rows and a suggestion.
  const unlabelled = new Map(data.unlabelled ? data.unlabelled.row.map((row, k) => [row, k]) : []);

  function nearOf(row) {
    if (unlabelled.has(row)) return data.unlabelled.near[unlabelled.get(row)].map(([near, distance]) => ({ row: near, distance }));
    return isListed(row) ? data.near[known.get(row)].map(([near, , distance]) => ({ row: near, distance })) : [];
  }

  function suggestionOf(row) {
    if (unlabelled.has(row)) return data.labels[data.unlabelled.suggested[unlabelled.get(row)]];
    if (!isListed(row)) return null;
    const k = known.get(row);
    return data.suggested[k] === data.given[k] ? null : data.labels[data.suggested[k]];
  }

  const hasImages = Boolean(data.imageShape || data.pictures);
  const kind = hasImages ? "images" : data.text ? "text" : data.cellNames.length ? "table" : "bare";
  const textOf = (row) => (data.text ? cellsOf(row)[0] : "");
  const plainCells = data.cellNames.map((name, j) => ({ name, j })).slice(data.text ? 1 : 0);

  function picture(row) {
    if (data.pictures) {
      return data.pictures[row]
        ? el("img", { class: "pic", src: data.pictures[row], alt: "Image of " + nameOf(row), draggable: "false" })
        : el("span", { class: "pic none", text: "no image" });
    }
    const encoded = data.images && data.images[row];
    if (!encoded) return el("span", { class: "pic none", text: "no image" });
    const [height, width, channels = 1] = data.imageShape;
    const bytes = atob(encoded), canvas = el("canvas", { class: "pic", width, height, role: "img", "aria-label": "Image of " + nameOf(row) });
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    for (let p = 0; p < width * height; p++) {
      for (let c = 0; c < 3; c++) image.data[4 * p + c] = bytes.charCodeAt(p * channels + (channels >= 3 ? c : 0));
      image.data[4 * p + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  // Two lines about a row: its text, or its first cells.
  const someCells = (row, most) => plainCells.slice(0, most).map(({ name, j }) => name + ": " + (cellsOf(row)[j] || "–")).join(" · ");
  const gist = (row) => (textOf(row) || someCells(row, 5) || nameOf(row)).slice(0, 400);
  const excerpt = (row) => (hasImages ? picture(row) : el("span", { class: "clamp", text: gist(row) }));
  const searched = new Map();
  function searchable(row) {
    if (!searched.has(row)) {
      const best = suggestionOf(row);
      searched.set(row, [row, idOf(row), labelOf(row), show(labelOf(row)), best === null ? "" : best, ...cellsOf(row)].join("\n").toLowerCase());
    }
    return searched.get(row);
  }

