// ---- what can be done with the chosen row, and deciding ----

const MAX_LISTED_CLASSES = 30; // with more of them, a field that completes is quicker than a list

// Another label than the suggested one: a list to choose from, or a field to write it in.
function otherLabel(row, suggestion) {
  const submit = (label) => {
    $("list").focus({ preventScroll: true });
    decide(row, "change", label);
  };
  if (isNumber || data.nClasses > MAX_LISTED_CLASSES) return otherLabelField(submit);
  return otherLabelList(row, suggestion, submit);
}

function otherLabelList(row, suggestion, submit) {
  const question = suggestion === null ? "Which label?" : "Other label…";
  const heading = data.review ? "Wrong: it is…" : question;
  const options = data.labels
    .slice(0, data.nClasses)
    .map(
      (label, code) =>
        label !== labelOf(row) && el("option", { value: code, text: labelText(label) }),
    );
  const onchange = () => {
    if (box.value) submit(data.labels[box.value]);
  };
  const box = el(
    "select",
    { id: "other", "aria-label": "Another label", onchange },
    el("option", { value: "", text: heading }),
    options,
  );
  return box;
}

// A field for numbers, or one that completes the names of classes.
function otherLabelField(submit) {
  const isLabel = (text) => isNumber || data.labels.slice(0, data.nClasses).includes(text);
  const field = el("input", {
    id: "other",
    type: isNumber ? "number" : "text",
    step: "any",
    list: isNumber ? null : "all-labels",
    autocomplete: "off",
    placeholder: isNumber ? "Other number" : "Other label…",
    "aria-label": isNumber ? "Another number" : "Another label",
    onkeydown: (event) => {
      if (event.key !== "Enter" || !field.value) return;
      if (isLabel(field.value)) submit(field.value);
      else announce("No class is called " + field.value + ".");
    },
  });
  return field;
}

// The decision that is offered first.
function mainDecision(row, suggestion) {
  if (tab === "sample") return "keep";
  return suggestion === null && !isReviewedWrong(row) ? "keep" : "change";
}

// The text on the button that takes the suggestion.
function changeText(row, suggestion) {
  if (suggestion === null) return "Change…";
  const isFirstLabel = !hasLabel(row) && !isNumber;
  return (isFirstLabel ? "Call it " : "Change to ") + labelText(suggestion);
}

// The buttons of a list: [key, decision, text, class].
function actionsOf(row, suggestion) {
  if (data.review) {
    return [
      ["R", "right", "Right", "outline"],
      ["W", "wrong", "Wrong", "outline"],
      ["S", "skip", "Skip", "quiet"],
    ];
  }
  const kept = hasLabel(row) ? labelText(labelOf(row)) : "unlabelled";
  const actions = [
    ["C", "change", changeText(row, suggestion), ""],
    ["K", "keep", "Keep " + kept, ""],
    ["D", "delete", "Delete row", "del"],
    ["S", "skip", "Skip", "quiet"],
  ];
  // In the sample a label can be wrong without another one: the sample only counts them.
  if (tab === "sample") actions.splice(2, 0, ["W", "wrong", "Wrong", ""]);
  return actions;
}

function actionButton(row, [key, what, text, extraClass], isMain) {
  const isChosen = Boolean(decisions[row]) && decisions[row].what === what;
  return el(
    "button",
    {
      type: "button",
      "aria-pressed": data.review ? String(isChosen) : null,
      class: (isMain ? "solid " : "") + extraClass + (isChosen ? " chosen" : ""),
      "data-keep": what,
      "aria-keyshortcuts": key.toLowerCase(),
      title: text,
      onclick: () => act(what, row),
    },
    text + " ",
    el("kbd", { text: key }),
  );
}

// A reviewed row stays on the screen when one comes back to it: this leads on.
function nextOpenButton(row) {
  if (!data.review || !decisions[row] || nextOpen() < 0) return null;
  return button("Next open row", () => choose(nextOpen()), {
    class: "solid",
    "data-keep": "further",
  });
}

// Draws the buttons for a row, the main one first; null if there is no row.
function drawActions(row) {
  const host = $("actions");
  if (row === null) {
    host.replaceChildren(el("span", { class: "state", text: "Nothing to decide here." }));
    return;
  }
  const suggestion = suggested(row);
  const main = mainDecision(row, suggestion);
  const actions = actionsOf(row, suggestion);
  actions.sort(([, a], [, b]) => (b === main) - (a === main));
  const buttons = actions.map((action) => actionButton(row, action, action[1] === main));
  const state = isOpen(tab, row) ? "Open" : stateOf(row);
  host.replaceChildren();
  put(host, [
    buttons,
    otherLabel(row, suggestion),
    nextOpenButton(row),
    el("span", { class: "state", text: state }),
  ]);
}

// ---- deciding ----

// Takes an action. A button decides on the row that it was drawn for, a key on the chosen one.
function act(what, row = chosenRow()) {
  if (row === undefined) return;
  const suggestion = suggested(row);
  if (what !== "change") decide(row, what);
  else if (suggestion !== null) decide(row, "change", suggestion);
  else askForLabel();
}

// Moves to the field for another label, and opens it if it is a list.
function askForLabel() {
  const field = $("other");
  field.focus();
  if (!field.showPicker) return;
  try {
    field.showPicker();
  } catch (error) {
    // Browsers open it only right after a click or a key.
  }
}

// Records a decision on a row and goes on to the next open one.
function decide(row, what, label) {
  const decision = makeDecision(row, what, label);
  // One sees what the audit found, or stays where one came back to.
  const stays = data.review && (data.blind || decisions[row]);
  recordStep([[row, decisions[row], decision]], tab);
  const next = nextOpen();
  pinnedRow = null;
  refilter(next >= 0 && !stays ? shown[next] : row);
  reveal();
  drawDetail();
  if (next >= 0) announce(nameOf(row) + decisionInWords(row, decision) + ". " + TAKE_BACK);
  else announceEnd();
}

function makeDecision(row, what, label) {
  if (what === "change") return changeTo(row, label);
  if (what === "wrong" && data.nClasses === 2) return changeTo(row, otherClass(row));
  return { what, list: tab };
}

// Of two classes the one that a row does not have.
const otherClass = (row) => data.labels.slice(0, 2).find((label) => label !== labelOf(row));

// The decision for a label, which may be the given one.
function changeTo(row, label) {
  if (label === labelOf(row)) return { what: data.review ? "right" : "keep", list: tab };
  return { what: data.review ? "wrong" : "change", label, list: tab };
}

function decisionInWords(row, { what, label }) {
  if (data.review) return ": " + stateOf(row).toLowerCase();
  return what === "change" ? " changed to " + labelText(label) : " " + WORD[what].toLowerCase();
}

function announceEnd() {
  const rows =
    shown.length === 1 ? "The 1 row listed is" : "All " + n(shown.length) + " rows listed are";
  announce(rows + " decided. Export takes them with you.");
}

const undo = () => revisit(stepBack(), "Undone: ", "Nothing to undo.");
const redo = () => revisit(stepForward(), "Done again: ", "Nothing to redo.");

// Goes to the row of a step that was taken back or done again, whatever list or filter hides it.
function revisit(step, stepWords, nothingWords) {
  if (!step) {
    announce(nothingWords);
    return;
  }
  const nEntries = step.entries.length;
  const [row] = step.entries[0];
  if (tab !== step.list) openTab(step.list);
  pinnedRow = null;
  refilter(row);
  if (!shown.includes(row)) {
    currentList().filter = { ...EMPTY_FILTER };
    drawFilters();
    refilter(row);
  }
  reveal();
  drawDetail();
  const decisionWords = nEntries === 1 ? nameOf(row) : plural(nEntries, "decision");
  announce(stepWords + decisionWords + ".");
}

// ---- deciding all at once ----

// Asks what to do with all open rows that are listed.
function bulk() {
  const rows = shown.filter((row) => isOpen(tab, row));
  if (!rows.length) return;
  const haveSuggestions = rows.every((row) => suggested(row) !== null);
  const main = haveSuggestions ? "change" : "keep";
  const extent = rows.length === 1 ? " it" : " all " + n(rows.length);
  const option = (what, verb) =>
    button(verb + extent, () => decideAll(rows, what), {
      class: what === main ? "solid" : null,
      "data-first": what === main,
    });
  openDialog(
    "Decide " + plural(rows.length, "row") + " at once",
    el("p", { text: bulkWarning(haveSuggestions) }),
    closeButton("Cancel"),
    option("keep", "Keep"),
    option("delete", "Delete"),
    haveSuggestions && option("change", "Change"),
  );
}

function bulkWarning(haveSuggestions) {
  const rows = isFiltered()
    ? "These are the open rows your filters list. "
    : "These are all open rows of this list. ";
  const change = haveSuggestions ? "Change gives each row its own suggestion. " : "";
  return rows + change + "Rows already decided stay as they are. One undo brings all of it back.";
}

function decideAll(rows, what) {
  dialog.close();
  const entries = rows.map((row) => {
    const label = what === "change" ? { label: suggested(row) } : {};
    return [row, decisions[row], { what, ...label, list: tab, all: true }];
  });
  recordStep(entries, tab);
  refilter();
  drawDetail();
  announce(plural(rows.length, "row") + " " + WORD[what].toLowerCase() + ". " + TAKE_BACK);
}
