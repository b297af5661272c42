// ---- decisions and notes, by row, and steps that can be taken back ----
// All of it stays in this browser. A decision is {what, label, list, all}. `what` is change, keep,
// delete or skip, in a review right, wrong or skip. `label` is there if one was chosen. `list` is
// where it was made. `all` is true if it was made in bulk.
const KEY = "nearworth:" + data.key;
const MAX_REMEMBERED_STEPS = 200; // what a browser stores for a page is limited

let decisions = {};
let notes = {};
let sampling = false; // whether the sample is under review
let doneSteps = [];
let undoneSteps = [];

function remember() {
  const done = doneSteps.slice(-MAX_REMEMBERED_STEPS);
  const undone = undoneSteps.slice(-MAX_REMEMBERED_STEPS);
  try {
    localStorage.setItem(KEY, JSON.stringify({ decisions, notes, sampling, done, undone }));
  } catch (error) {
    $("storage").hidden = false;
  }
}

function recall() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) || "{}");
    decisions = stored.decisions ?? {};
    notes = stored.notes ?? {};
    sampling = stored.sampling ?? false;
    doneSteps = stored.done ?? [];
    undoneSteps = stored.undone ?? [];
    const theme = localStorage.getItem("nearworth:theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch (error) {
    $("storage").hidden = false;
  }
  remember();
}

// A row of the sample counts as reviewed only if a person looked at it, not if it was one of many
// in bulk.
const isOpen = (listId, row) =>
  !decisions[row] || (listId === "sample" && Boolean(decisions[row].all));

// The decision on a row in words.
function stateOf(row) {
  const decision = decisions[row];
  if (!decision) return "Open";
  if (decision.label === undefined) return WORD[decision.what];
  const separator = data.review ? ": " : " to ";
  return WORD[decision.what] + separator + labelText(decision.label);
}

// Sets the decisions of a step, as they were "before" it or "after" it.
function apply(step, side) {
  for (const [row, before, after] of step.entries) {
    const decision = side === "after" ? after : before;
    if (decision) decisions[row] = decision;
    else delete decisions[row];
  }
}

// Makes one step, of one row or of many: [row, decision before, decision after] of each.
function recordStep(entries, list) {
  const step = { entries, list };
  doneSteps.push(step);
  undoneSteps = [];
  apply(step, "after");
  remember();
}

function stepBack() {
  const step = doneSteps.pop();
  if (step) {
    apply(step, "before");
    undoneSteps.push(step);
    remember();
  }
  return step;
}

function stepForward() {
  const step = undoneSteps.pop();
  if (step) {
    apply(step, "after");
    doneSteps.push(step);
    remember();
  }
  return step;
}
