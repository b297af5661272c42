// ---- above the list: its filters, how much of it is decided, and buttons for all of it ----

function passesDecision(row, state) {
  if (!state) return true;
  if (state === "open") return isOpen(tab, row);
  return Boolean(decisions[row]) && decisions[row].what === state;
}

function passesGiven(row, given) {
  if (!given) return true;
  if (!isNumber) return labelOf(row) === data.labels[given];
  const isHigh = Number(labelOf(row)) > Number(suggestionOf(row));
  return isHigh === (given === "high");
}

function passesWords(row, words) {
  if (!words) return true;
  return searchable(row).includes(words) || (notes[row] || "").toLowerCase().includes(words);
}

function passes(row, filter, words) {
  if (!passesDecision(row, filter.state)) return false;
  if (!passesGiven(row, filter.given)) return false;
  if (filter.best && suggestionOf(row) !== data.labels[filter.best]) return false;
  return passesWords(row, words);
}

// Lists what passes the filters; stays at the row given, else as near as possible to where it was.
function refilter(stayAt) {
  const { filter, rows, sort } = currentList();
  const row = stayAt === undefined ? chosenRow() : stayAt;
  const words = filter.words.trim().toLowerCase();
  shown = rows.filter((candidate) => passes(candidate, filter, words));
  if (sort === "row") shown.sort((a, b) => a - b);
  if (sort === "given") shown.sort((a, b) => byText.compare(labelOf(a), labelOf(b)));

  const place = shown.indexOf(row);
  const nearestPlace = Math.max(0, Math.min(currentList().chosen, shown.length - 1));
  currentList().chosen = place >= 0 ? place : nearestPlace;
  drawList(true);
  drawCount();
}

function clearFilters() {
  currentList().filter = { ...EMPTY_FILTER };
  drawFilters();
  refilter();
  drawDetail();
}

function filterBy(name, value) {
  if (name === "sort") currentList().sort = value;
  else currentList().filter[name] = value;
  currentList().chosen = 0;
  refilter(null);
  drawDetail();
  $("clear").hidden = !isFiltered();
}

// A box to choose the order ("sort") or a filter by its name. A filter that is in use is marked.
function choice(name, label, options) {
  const onchange = () => {
    filterBy(name, box.value);
    mark();
  };
  const items = options.map(([value, text]) => el("option", { value, text }));
  const box = el("select", { "aria-label": label, onchange }, items);
  const mark = () => box.classList.toggle("on", name !== "sort" && box.value !== "");
  box.value = name === "sort" ? currentList().sort : currentList().filter[name];
  mark();
  return box;
}

// The labels of the listed rows with how many have each; `labelFor` gives the label of a row.
function labelOptions(labelFor) {
  const counts = new Map();
  for (const row of currentList().rows) {
    const label = labelFor(row);
    if (label !== null) counts.set(label, (counts.get(label) || 0) + 1);
  }
  const sorted = [...counts].sort(([a], [b]) => byText.compare(a, b));
  return sorted.map(([label, count]) => [
    String(data.labels.indexOf(label)),
    labelText(label) + " (" + n(count) + ")",
  ]);
}

function searchBox() {
  const content = kind === "text" ? "words" : "rows";
  const box = el("input", {
    type: "search",
    id: "search",
    "aria-label": "Search",
    "aria-keyshortcuts": "/",
    autocomplete: "off",
    placeholder: "Search " + content + ", labels, notes",
    oninput: () => filterBy("words", box.value),
  });
  box.value = currentList().filter.words;
  return box;
}

function orderChoice() {
  const FIRST_ORDER = { sample: "Order by lot", duplicates: "By group" };
  return choice("sort", "Order", [
    ["sure", FIRST_ORDER[tab] || "Surest first"],
    ["row", "By row"],
    ["given", "By " + noun],
  ]);
}

function highOrLowChoice() {
  return choice("given", "High or low", [
    ["", "High or low"],
    ["high", "Looks too high"],
    ["low", "Looks too low"],
  ]);
}

function labelChoices() {
  if (isNumber) return tab === "labels" ? [highOrLowChoice()] : [];
  const choices = [];
  if (tab !== "unlabelled") {
    const given = labelOptions(labelOf);
    choices.push(choice("given", "Given label", [["", "Any label"], ...given]));
  }
  if (tab !== "sample") {
    const best = labelOptions(suggestionOf);
    choices.push(choice("best", "Suggested label", [["", "Any suggestion"], ...best]));
  }
  return choices;
}

function decisionChoice() {
  // "Wrong", without another label, is a decision only in a review and in the sample.
  const canBeWrong = data.review || tab === "sample";
  const kinds = Object.entries(WORD).filter(([what]) => canBeWrong || what !== "wrong");
  return choice("state", "Decision", [["", "Any decision"], ["open", "Open"], ...kinds]);
}

function drawFilters() {
  const clear = button("Clear filters", clearFilters, { class: "small quiet", id: "clear" });
  clear.hidden = !isFiltered();
  $("filters").replaceChildren(
    searchBox(),
    orderChoice(),
    ...labelChoices(),
    decisionChoice(),
    clear,
  );
}

// ---- count, meter and buttons ----

function drawCount() {
  const rows = currentList().rows;
  const tally = tallyDecisions(rows);
  const inWords = tallyInWords(tally);
  $("count").textContent = countInWords(rows, tally, inWords);
  drawMeter(rows, tally);
  $("meter").setAttribute("aria-label", inWords);
  drawBulkButton(rows);
  drawLayoutButton();
  drawTotals();
}

// What the decisions of all lists add up to. A panel, which has no list, shows it too.
function drawTotals() {
  drawExportButton();
  $("undo").disabled = !doneSteps.length;
  drawBadges();
  drawSummary();
}

// How many rows were decided each way: {change: 3, keep: 1, ...}.
function tallyDecisions(rows) {
  const tally = Object.fromEntries(Object.keys(WORD).map((what) => [what, 0]));
  for (const row of rows) if (!isOpen(tab, row)) tally[decisions[row].what]++;
  return tally;
}

function tallyInWords(tally) {
  return Object.entries(tally)
    .filter(([what, count]) => data.review || count || what !== "wrong")
    .map(([what, count]) => n(count) + " " + WORD[what].toLowerCase())
    .join(", ");
}

function countInWords(rows, tally, inWords) {
  if (isFiltered()) return n(shown.length) + " of " + n(rows.length) + " listed";
  const nDecided = Object.values(tally).reduce((a, b) => a + b, 0);
  const progress = n(nDecided) + " of " + n(rows.length);
  return progress + (data.review ? " judged: " + inWords : " decided");
}

function drawMeter(rows, tally) {
  const bars = Object.entries(tally).map(([what, count]) => {
    const bar = el("i", { class: what });
    bar.style.width = (100 * count) / Math.max(1, rows.length) + "%";
    return bar;
  });
  $("meter").replaceChildren(...bars);
}

function drawBulkButton(rows) {
  const nOpen = shown.filter((row) => isOpen(tab, row)).length;
  $("bulk").textContent =
    nOpen === 1 ? "Decide the 1 listed" : "Decide all " + n(nOpen) + " listed";
  $("bulk").disabled = !nOpen;
  $("bulk").hidden = tab === "sample" || data.review || !rows.length;
}

function drawLayoutButton() {
  const BARS = "M1 2h14v2.4H1zM1 6.8h14v2.4H1zM1 11.6h14V14H1z";
  const SQUARES = "M1 1h6v6H1zM9 1h6v6H9zM1 9h6v6H1zM9 9h6v6H9z";
  const path = svg("path", { class: "fill", d: layout === "grid" ? BARS : SQUARES });
  const size = { viewBox: "0 0 16 16", width: 14, height: 14 };
  $("layout").hidden = !hasImages || data.review;
  $("layout").replaceChildren(svg("svg", { ...size, "aria-hidden": "true" }, path));
}

function drawExportButton() {
  const nDecided = Object.keys(decisions).length;
  $("export").textContent = nDecided ? "Export " + n(nDecided) : "Export";
  $("export").classList.toggle("ready", nDecided > 0);
}

// How many rows of each list are open, on its tab.
function drawBadges() {
  for (const badge of $("tabs").querySelectorAll("[data-open]")) {
    const id = badge.dataset.open;
    badge.textContent = n(lists[id].rows.filter((row) => isOpen(id, row)).length);
  }
}
