// ---- decisions as a file, and the list on paper ----

// The file of each review has a name of its own: they are passed together, in their order.
const FILE_NAME = data.review ? "review-" + nListed + "-seed" + data.seed : "decisions";
const COMMAND = commandAfterExport();

// What to run with the exported file. A name that a shell would read otherwise is left to the
// reader.
function commandAfterExport() {
  const plainName = (name, placeholder) => (/^\w[\w.\-]*$/.test(name) ? name : placeholder);
  const source = plainName(data.source, "DATA");
  if (data.review) {
    const target = plainName(data.target, "TARGET");
    return "nearworth report " + source + " -t " + target + " --review " + FILE_NAME + ".csv";
  }
  const [, ending = ".csv"] = /(\.(?:csv|tsv|parquet|feather|npz))$/i.exec(data.source) || [];
  return "nearworth apply decisions.csv " + source + " -o clean" + ending;
}

// The words that `nearworth apply` knows.
const APPLIED = { change: "relabel", keep: "confirm", delete: "remove", skip: "skip" };

// A record for each decision, in the order of the file. Its keys are the columns of the export.
function exportedDecisions() {
  const rows = Object.keys(decisions).map(Number);
  return rows.sort((a, b) => a - b).map(exportedDecision);
}

function exportedDecision(row) {
  const { what, label, list } = decisions[row];
  const labelOfDecision = what === "wrong" ? "" : labelOf(row); // unless another one was chosen
  return {
    row,
    ...(data.id ? { id: idOf(row) } : {}),
    target: data.target,
    given: labelOf(row),
    decision: APPLIED[what] || what,
    label: label ?? labelOfDecision,
    ...(data.id ? { id_column: data.idName || "" } : {}),
    of_rows: data.ofRows,
    ...(data.review ? { asked: nListed, seed: data.seed } : {}),
    found_as: list,
    note: notes[row] || "",
  };
}

// Text that a spreadsheet would run gets a quote in front, as in every CSV of nearworth; numbers
// are left alone.
function inert(cell) {
  const looksLikeFormula = /^'*[=+\-@\t\r\n\0\uFF1D\uFF0B\uFF0D\uFF20]/.test(cell);
  const isSignedNumber = /^[+-]((\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?%?|[iI]nf(inity)?)?$/.test(
    cell,
  );
  return looksLikeFormula && !isSignedNumber ? "'" + cell : cell;
}

// A cell of a CSV file, in quotation marks where it needs them.
function csvCell(cell) {
  const text = inert(String(cell));
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function saveCsv() {
  const exported = exportedDecisions();
  const names = Object.keys(exported[0]);
  const lines = [names, ...exported.map((record) => names.map((name) => record[name]))];
  const text = lines.map((cells) => cells.map(csvCell).join(",")).join("\n") + "\n";
  download(FILE_NAME + ".csv", "text/csv", text);
}

function saveJson() {
  const content = { target: data.target, report: data.key, decisions: exportedDecisions() };
  download(FILE_NAME + ".json", "application/json", JSON.stringify(content, null, 1) + "\n");
}

const DOWNLOAD_MILLISECONDS = 10000; // until then a browser may still read what it saves

function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link); // a link that is not in the document does nothing in some browsers
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), DOWNLOAD_MILLISECONDS);
  dialog.close();
  announce("Saved as " + name + ".");
}

// Takes back all decisions, in one step that can be undone.
function forget() {
  const entries = Object.keys(decisions).map((row) => [Number(row), decisions[row], undefined]);
  const isListShown = Boolean(lists[tab]);
  recordStep(entries, isListShown ? tab : "labels");
  dialog.close();
  if (isListShown) {
    refilter();
    drawDetail();
  } else {
    drawTotals();
  }
  announce("Forgotten. " + TAKE_BACK);
}

function exportDialog() {
  const nDecisions = Object.keys(decisions).length;
  if (!nDecisions) {
    const keys = data.review ? "R, W or S." : "C, K, D or S.";
    announce("Nothing decided yet. Decide a row first: " + keys);
    return;
  }
  const instruction = data.review
    ? "Then run this, with the options this page was made with; audit and review take " +
      "the same file:"
    : "Then run this to write the cleaned file:";
  const sampleNote =
    "What you found in the sample counts in the headline of this page. For lists and a " +
    "number that rest on a review everywhere, judge the rows that nearworth review draws.";
  openDialog(
    "Export " + plural(nDecisions, "decision"),
    [
      el("p", { text: instruction }),
      el("code", { class: "code", text: COMMAND }),
      sampling && el("p", { text: sampleNote }),
    ],
    button("Forget all", forget, { class: "quiet" }),
    closeButton("Cancel"),
    button("JSON", saveJson, { id: "json" }),
    button("CSV", saveCsv, { class: "solid", id: "csv" }),
  );
}

// ---- on paper ----

const MAX_PRINTED_ROWS = 300;

// What is listed, or on a panel the labels.
function fillPaper() {
  const rows = lists[tab] ? shown : data.row;
  const printed = rows.slice(0, MAX_PRINTED_ROWS);
  const { name } = lists[tab] || lists.labels;
  const cut = rows.length > printed.length ? ", the first " + printed.length + " of them" : "";
  const heads = ["Row", "Content", "Given", "Suggested", "Decision", "Note"];
  $("printed").replaceChildren(
    el("h2", { text: name + ", " + plural(rows.length, "row") + cut }),
    el("table", {}, tableHead(heads, []), tableBody(printed.map(paperLine))),
  );
}

function paperLine(row) {
  const cells = [
    nameOf(row),
    hasImages ? picture(row) : gist(row),
    hasLabel(row) ? labelText(labelOf(row)) : "–",
    paperSuggestion(row),
    decisions[row] ? stateOf(row) : "",
    notes[row] || "",
  ];
  return el(
    "tr",
    {},
    cells.map((cell) => el("td", {}, cell)),
  );
}

function paperSuggestion(row) {
  const isPanel = !lists[tab];
  const suggestion = isPanel || hasSuggestions() ? suggestionOf(row) : null;
  return suggestion === null ? "" : labelText(suggestion);
}
