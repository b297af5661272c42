// ---- dialogs, export and paper ----
const dialog = $("dialog");
const [, ending = ".csv"] = /(\.(?:csv|tsv|parquet|feather|npz))$/i.exec(data.source) || [];
const plainly = (name, other) => (/^\w[\w.\-]*$/.test(name) ? name : other);
// The answers of each review have a name of their own: they are passed together, in their order.
const FILE = data.review ? "review-" + nListed + "-seed" + data.seed : "decisions";
const COMMAND = data.review
  ? "nearworth report " +
    plainly(data.source, "DATA") +
    " -t " +
    plainly(data.target, "TARGET") +
    " --review " +
    FILE +
    ".csv"
  : "nearworth apply decisions.csv " + plainly(data.source, "DATA") + " -o clean" + ending;

function ask(title, content, ...buttons) {
  dialog.replaceChildren(
    el("h2", { id: "dialog-title", text: title }),
    ...[content].flat().filter(Boolean),
    put(el("div", { class: "row" }), buttons),
  );
  dialog.showModal();
  (dialog.querySelector("[data-first]") || dialog.querySelector(".row button:last-child")).focus();
}
const closer = (words) => button(words, () => dialog.close());

let timer;
function say(words) {
  $("toast").textContent = words;
  $("toast").classList.add("on");
  clearTimeout(timer);
  timer = setTimeout(() => $("toast").classList.remove("on"), 2600);
}

// The words that `nearworth apply` knows.
const APPLIED = { change: "relabel", keep: "confirm", delete: "remove", skip: "skip" };
function decided() {
  return Object.keys(decisions)
    .map(Number)
    .sort((a, b) => a - b)
    .map((row) => ({
      row,
      ...(data.id ? { id: idOf(row) } : {}),
      target: data.target,
      given: labelOf(row),
      decision: APPLIED[decisions[row].what] || decisions[row].what,
      label: decisions[row].label ?? (decisions[row].what === "wrong" ? "" : labelOf(row)),
      ...(data.id ? { id_column: data.idName || "" } : {}),
      of_rows: data.ofRows,
      ...(data.review ? { asked: nListed, seed: data.seed } : {}),
      found_as: decisions[row].list,
      note: notes[row] || "",
    }));
}

// Text that a spreadsheet would run gets a quote in front, as in every CSV of nearworth; numbers
// are left alone.
const inert = (cell) =>
  /^'*[=+\-@\t\r\n\0\uFF1D\uFF0B\uFF0D\uFF20]/.test(cell) &&
  !/^[+-]((\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?%?|[iI]nf(inity)?)?$/.test(cell)
    ? "'" + cell
    : cell;
const quoted = (cell) => {
  const safe = inert(String(cell));
  return /[",\r\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
};

function download(name, type, content) {
  const link = el("a", {
    href: URL.createObjectURL(new Blob([content], { type })),
    download: name,
  });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  dialog.close();
  say("Saved as " + name + ".");
}

function saveCsv() {
  const rows = decided(),
    names = Object.keys(rows[0]);
  download(
    FILE + ".csv",
    "text/csv",
    [names, ...rows.map((row) => names.map((name) => row[name]))]
      .map((line) => line.map(quoted).join(","))
      .join("\n") + "\n",
  );
}
const saveJson = () =>
  download(
    FILE + ".json",
    "application/json",
    JSON.stringify({ target: data.target, report: data.key, decisions: decided() }, null, 1) + "\n",
  );

function forget() {
  record(
    Object.keys(decisions).map((row) => [Number(row), decisions[row], undefined]),
    lists[tab] ? tab : "labels",
  );
  dialog.close();
  if (lists[tab]) {
    refilter();
    drawDetail();
  } else drawCount();
  say("Forgotten. " + TAKE_BACK);
}

function exporting() {
  const count = Object.keys(decisions).length;
  if (!count) {
    say(
      "Nothing decided yet. Decide a row first: " + (data.review ? "R, W or S." : "C, K, D or S."),
    );
    return;
  }
  ask(
    "Export " + plural(count, "decision"),
    [
      el("p", {
        text: data.review
          ? "Then run this, with the options this page was made with; detect and review take " +
            "the same file:"
          : "Then run this to write the cleaned file:",
      }),
      el("code", { class: "code", text: COMMAND }),
      sampling &&
        el("p", {
          text:
            "What you found in the sample counts in the headline of this page. For lists and a " +
            "number that rest on a review everywhere, judge the rows that nearworth review " +
            "draws.",
        }),
    ],
    button("Forget all", forget, { class: "quiet" }),
    closer("Cancel"),
    button("JSON", saveJson, { id: "json" }),
    button("CSV", saveCsv, { class: "solid", id: "csv" }),
  );
}

// A key means the same on the report and on the page of a review.
const keys = () => [
  ...(data.review
    ? [
        ["R K", "right: keep the " + noun],
        ["W", "wrong"],
        ["C O", "wrong, and which " + noun + " it is"],
      ]
    : [
        ["C", "change to the suggestion (where there is none, asks which)"],
        ["K", "keep"],
        ["D", "delete"],
      ]),
  ...(tab === "sample"
    ? [
        ["R", "right: keep the " + noun],
        ["W", "wrong"],
      ]
    : []),
  ["S", "skip"],
  ["U", "undo; with Shift: redo"],
  ["J ↓", "next row; ↑ or Shift J goes back"],
  ["N", "note"],
  ...(data.review
    ? []
    : [
        ["O", "other label"],
        ["/", "search"],
        ["G", "grid or list"],
      ]),
  ["E", "export"],
  ["Esc", "leave a field"],
  ["?", "this list"],
];
let keysOn = true; // they can be turned off, for those who speak to their computer
function help() {
  const box = el("input", {
    type: "checkbox",
    id: "shortcuts",
    onchange: () => {
      keysOn = box.checked;
      rememberKeys();
    },
  });
  box.checked = keysOn;
  ask(
    "Keys",
    [
      el(
        "dl",
        {},
        keys().map(([keys, words]) => [
          el(
            "dt",
            {},
            keys.split(" ").map((key) => el("kbd", { text: key })),
          ),
          el("dd", { text: words }),
        ]),
      ),
      el("p", {}, el("label", {}, box, " Letters are keys")),
      data.review && $("made").content.cloneNode(true),
    ],
    closer("Close"),
  );
}
function rememberKeys() {
  try {
    localStorage.setItem("nearworth:keys", keysOn ? "on" : "off");
  } catch (error) {
    /* not kept */
  }
}
try {
  keysOn = localStorage.getItem("nearworth:keys") !== "off";
} catch (error) {
  /* on */
}

// On paper: what is listed, at most 300 rows.
function fillPaper() {
  const all = lists[tab] ? shown : data.row,
    rows = all.slice(0, 300),
    line = (cells) => cells.map((cell) => el("td", {}, cell));
  const best = (row) => {
    const label = lists[tab] && tab !== "labels" && tab !== "unlabelled" ? null : suggestionOf(row);
    return label === null ? "" : show(label);
  };
  $("printed").replaceChildren(
    el("h2", {
      text:
        (lists[tab] || lists.labels).name +
        ", " +
        plural(all.length, "row") +
        (all.length > rows.length ? ", the first " + rows.length + " of them" : ""),
    }),
    el(
      "table",
      {},
      heads(["Row", "Content", "Given", "Suggested", "Decision", "Note"], []),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el(
            "tr",
            {},
            line([
              nameOf(row),
              hasImages ? picture(row) : gist(row),
              hasLabel(row) ? show(labelOf(row)) : "–",
              best(row),
              decisions[row] ? stateOf(row) : "",
              notes[row] || "",
            ]),
          ),
        ),
      ),
    ),
  );
}
