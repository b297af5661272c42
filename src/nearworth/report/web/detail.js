// ---- the chosen row: what was found about it, and what it is compared with ----

// The headline of a row, as words and elements.
function verdict(row) {
  const given = labelText(labelOf(row));
  if (tab === "sample" || data.review) return ["Is", el("b", { text: given }), "right?"];
  if (isReviewedWrong(row)) {
    return [el("b", { class: "old", text: given }), "is wrong – choose its " + noun];
  }
  if (currentList().fact) return [el("b", { text: given }), "– " + FINDING_VERDICTS[tab]];

  const suggestion = suggested(row);
  if (tab === "unlabelled") {
    const looks = isNumber ? " – rows like it are near" : " – looks like";
    return ["No " + noun + looks, el("b", { class: "new", text: labelText(suggestion) })];
  }
  const labelled = isNumber ? "Given" : "Labelled";
  const old = el("b", { class: "old", text: given });
  if (suggestion === null) return [labelled, old, "– in doubt"];
  const looks = isNumber ? "– rows like it are near" : "– looks like";
  return [labelled, old, looks, el("b", { class: "new", text: labelText(suggestion) })];
}

const FINDING_VERDICTS = {
  duplicates: "there more than once",
  outliers: "far from every other row",
  leakage: "also in the validation set",
};

// ---- why: a sentence or two below the headline, as texts and elements ----

function explanation(row) {
  if (tab === "sample") return [explainSample()];
  if (isVeiled(row)) {
    return ["Judge the content. What the audit says of this row is shown once you have judged it."];
  }
  if (currentList().fact) return [FINDING_EXPLANATIONS[tab](row)];
  if (tab === "unlabelled") return explainProposal(row);
  const doubt = el("b", { text: doubtInWords(row) });
  if (isNumber) return [doubt, rangeInWords(row)];
  return [put(doubt, [conflictInWords(row)]), votesInWords(row)];
}

function explainSample() {
  return (
    "Drawn by lot, so that what you find here holds for all " +
    labelledRows +
    ". Judge the content; what the audit says is not shown on purpose."
  );
}

const FINDING_EXPLANATIONS = {
  outliers: explainOutlier,
  leakage: explainLeak,
  duplicates: explainDuplicate,
};

const MAX_OUTLIER_SCORE = 9; // beyond one row in a billion an estimate means nothing

// The score of an outlier is the logarithm to base 10 of how many usual rows there are to one that
// is as far from the others.
function explainOutlier(row) {
  const score = Math.floor(currentList().fact(row, "score"));
  const nUsualRows = 10 ** Math.min(MAX_OUTLIER_SCORE, score);
  return (
    "One usual row in " +
    n(nUsualRows) +
    " would be as far from the others. It may be broken, or rare and right."
  );
}

function explainLeak(row) {
  const { fact } = currentList();
  const likeness = fact(row, "exact") ? "The same" : "Nearly the same";
  return (
    likeness +
    " as row " +
    n(fact(row, "other")) +
    " of the validation set. A model can remember it, and the score will look too good."
  );
}

const MAX_NAMED_DUPLICATES = 3;

function explainDuplicate(row) {
  const { partnersOf, fact } = currentList();
  const isExact = fact(row, "exact");
  const duplicates = partnersOf(row);
  const names = joinWithAnd(duplicates.slice(0, MAX_NAMED_DUPLICATES).map(nameOf));
  const more = duplicates.length > MAX_NAMED_DUPLICATES ? " and more" : "";
  const likeness = isExact ? "The same as " : "Nearly the same as ";
  const extent = isExact ? ", in everything that is compared." : ".";
  const labels = [...new Set([row, ...duplicates].map(labelOf))];
  const labelTexts = joinWithAnd(labels.map(labelText));
  const conflict = labels.length > 1 ? " They disagree: " + labelTexts + "." : "";
  return likeness + names + more + extent + conflict;
}

function explainProposal(row) {
  const nNeighbors = neighborsOf(row).length;
  const verb = nNeighbors === 1 ? " suggests" : " suggest";
  const probability = "With a probability of " + percent(certaintyOf(row)) + ". ";
  return [
    !isNumber && el("b", { text: probability }),
    "Left out of the audit; its " +
      plural(nNeighbors, "nearest row") +
      verb +
      " this " +
      noun +
      ".",
  ];
}

function doubtInWords(row) {
  if (isReviewedWrong(row)) return "Judged wrong in the review: choose its " + noun + ". ";
  return "Wrong with a probability of " + percent(pWrong(row)) + ". ";
}

// Identical rows with another label; null if there are none.
function conflictInWords(row) {
  const [twin, twinLabel, nTwins] = conflictOf(row);
  if (!nTwins) return null;
  const more = nTwins > 1 ? ", " + n(nTwins - 1) + " more otherwise. " : ". ";
  return "Identical row " + n(twin) + " is labelled " + labelText(twinLabel) + more;
}

function rangeInWords(row) {
  const [low, high] = rangeOf(row);
  return "Rows like it mostly lie between " + number(low) + " and " + number(high) + ".";
}

// How many of the nearest rows have the suggested label, and how many the given one.
function votesInWords(row) {
  const neighbors = neighborsOf(row);
  if (!neighbors.length) return null;
  const given = labelOf(row);
  const suggestion = suggestionOf(row);
  const count = (label) => neighbors.filter(({ row: near }) => labelOf(near) === label).length;
  const rows = plural(neighbors.length, "nearest row");
  const nGiven = count(given) || "none";
  if (suggestion === null) {
    const areLabelled = nGiven === 1 ? " is labelled " : " are labelled ";
    return "Of its " + rows + " " + nGiven + areLabelled + labelText(given) + ".";
  }
  const nSuggested = count(suggestion);
  const areLabelled = (nSuggested === 1 ? " is" : " are") + " labelled ";
  const votes = nSuggested + " of its " + rows + areLabelled + labelText(suggestion);
  return votes + ", " + nGiven + " " + labelText(given) + ".";
}

// ---- the whole view of a row ----

function detailHeader(row) {
  const rowNumber = idOf(row) ? " · row " + n(row) : ""; // a name alone does not say it
  const place = n(currentList().chosen + 1) + " of " + n(shown.length);
  return el(
    "div",
    { class: "dhead" },
    !data.review && button("‹ List", () => showView("list"), { class: "small backer" }),
    el("span", { text: nameOf(row) + rowNumber + " · " + place }),
    el("span", { class: "spread" }),
    button("↑", () => move(-1), {
      class: "small quiet icon",
      "data-keep": "previous",
      "aria-label": "Previous row",
    }),
    button("↓", () => move(1), {
      class: "small quiet icon",
      "data-keep": "next",
      "aria-label": "Next row",
    }),
  );
}

const railBox = (title, ...content) =>
  el("div", { class: "box" }, el("h3", { text: title }), content);

// How sure the audit is, where the row lies, and the note.
function drawRail(row, smallMap) {
  const hasProbability = tab === "labels" && !isReviewedWrong(row);
  return el(
    "aside",
    { class: "rail" },
    hasProbability && certaintyBox(row),
    smallMap && railBox("Where it lies", smallMap),
    railBox("Note", noteField(row)),
  );
}

function certaintyBox(row) {
  const ends = ["surely right", "surely wrong"];
  const caption = el("p", { text: "All " + labelledRows + ". The line is this row." });
  return railBox("How sure", histogram(data.certainty, pWrong(row), 0.5, ends), caption);
}

function noteField(row) {
  const field = el("textarea", {
    id: "note",
    "aria-label": "Note",
    placeholder: "Why? (N)",
    maxlength: "2000",
    "data-keep": "note",
    oninput: () => {
      if (field.value) notes[row] = field.value;
      else delete notes[row];
      remember();
    },
  });
  field.value = notes[row] || "";
  return field;
}

// The map around the row, drawn once it is in the document.
function smallMapCanvas() {
  if (!data.place || tab !== "labels") return null;
  return el("canvas", {
    role: "img",
    "aria-label": "Where this row lies on the map, with its nearest rows",
  });
}

function noRowChosen() {
  const advice = currentList().rows.length
    ? "Choose a row on the left, or clear the filters."
    : "There is nothing to decide.";
  return el("div", { class: "empty" }, el("b", { text: "No row chosen." }), advice);
}

function drawContent(row) {
  const partner = isVeiled(row) ? null : partnerOf(row);
  const hasStrip = isNumber && (tab === "labels" || data.review) && !isVeiled(row);
  return put(el("div"), [
    detailHeader(row),
    el("h2", { class: "verdict" }, verdict(row)),
    el("p", { class: "why" }, explanation(row)),
    hasStrip && el("div", { class: "strip" }, strip(row)),
    drawPair(row, partner),
    drawNeighbors(row, partner),
    cellTable(row, partner),
    cellNote(row),
  ]);
}

// Draws the chosen row. With `stay` it is the row that was shown before, and stays scrolled to
// where it was.
function drawDetail(stay) {
  const row = chosenRow();
  const host = $("scrolls");
  const focused = document.activeElement;
  const focusedName = $("detail").contains(focused) ? focused.dataset.keep : null;
  const scrollTop = host.scrollTop;
  if (row === undefined) {
    host.replaceChildren(noRowChosen());
    drawActions(null);
    return;
  }

  currentList().row = row; // where to come back to
  const smallMap = smallMapCanvas();
  host.replaceChildren(el("div", { class: "grid2" }, drawContent(row), drawRail(row, smallMap)));
  host.scrollTop = stay === true ? scrollTop : 0;
  drawActions(row);
  host.repaint = () => smallMap && paintSmallMap(smallMap, row);
  host.repaint();
  if (focusedName) focusAgain(focusedName);
}

// All elements of the view are new: the one that had the focus is known by its name.
function focusAgain(name) {
  const element = $("detail").querySelector('[data-keep="' + name + '"]') || $("list");
  element.focus({ preventScroll: true });
}
