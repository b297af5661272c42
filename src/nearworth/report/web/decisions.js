// ---- decisions and notes, by row; steps that can be taken back. All of it stays in this browser.
// ---- A decision: {what: change, keep, delete or skip, in a review right, wrong or skip; label if
// one was chosen; list where it was made; all if made in bulk}
const KEY = "nearworth:" + data.key;
let decisions = {},
  notes = {},
  sampling = false;
let done = [],
  undone = [];

function remember() {
  try {
    localStorage.setItem(
      KEY,
      JSON.stringify({
        decisions,
        notes,
        sampling,
        done: done.slice(-200),
        undone: undone.slice(-200),
      }),
    );
  } catch (error) {
    $("storage").hidden = false;
  }
}

function recall() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) || "{}");
    ({ decisions = {}, notes = {}, sampling = false, done = [], undone = [] } = kept);
    const theme = localStorage.getItem("nearworth:theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch (error) {
    $("storage").hidden = false;
  }
  remember();
}

// A row of the sample counts as judged only if a person looked at it, not if it was one of many in
// bulk.
const isOpen = (list, row) => !decisions[row] || (list === "sample" && Boolean(decisions[row].all));
const stateOf = (row) =>
  decisions[row]
    ? WORD[decisions[row].what] +
      (decisions[row].label === undefined
        ? ""
        : (data.review ? ": " : " to ") + show(decisions[row].label))
    : "Open";

function apply(entries, side) {
  for (const [row, before, after] of entries) {
    const value = side === "after" ? after : before;
    if (value) decisions[row] = value;
    else delete decisions[row];
  }
}

// One step, of one row or of many: [row, decision before, decision after]
function record(entries, list) {
  done.push({ entries, list });
  undone = [];
  apply(entries, "after");
  remember();
}

function stepBack() {
  const step = done.pop();
  if (step) {
    apply(step.entries, "before");
    undone.push(step);
    remember();
  }
  return step;
}

function stepForward() {
  const step = undone.pop();
  if (step) {
    apply(step.entries, "after");
    done.push(step);
    remember();
  }
  return step;
}
