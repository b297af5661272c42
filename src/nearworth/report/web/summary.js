// ---- the summary at the top: how many labels are wrong, and what is listed ----

const MIN_SAMPLE_FOR_ESTIMATE = 20; // reviewed rows; from fewer the interval is too wide to help
const NORMAL_QUANTILE_95 = 1.96; // of an interval that has the true share in 95 % of the cases

// Wilson's interval of a share, from `count` of `total`: [low, high].
function wilsonInterval(count, total) {
  const z = NORMAL_QUANTILE_95;
  const p = count / total;
  const middle = p + (z * z) / (2 * total);
  const half = z * Math.sqrt((p * (1 - p)) / total + (z * z) / (4 * total * total));
  const scale = 1 + (z * z) / total;
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)];
}

// How many rows of the sample are reviewed, and how many of them are wrong. Only rows before the
// first open one count: in the order of the lot these are a random sample, whichever rows a person
// went to later.
function sampleResult() {
  const firstOpen = data.sample.findIndex((row) => isOpen("sample", row));
  const rows = firstOpen < 0 ? data.sample : data.sample.slice(0, firstOpen);
  const reviewed = rows.filter((row) => decisions[row].what !== "skip");
  const nWrong = reviewed.filter((row) => decisions[row].what !== "keep").length;
  return { nReviewed: reviewed.length, nWrong };
}

// How many labels are wrong, and what that rests on. A range is `reviewed` if people's reviews and
// not the data alone support it.
function errorRange() {
  const { nReviewed, nWrong } = sampleResult();
  if (sampling && nReviewed >= MIN_SAMPLE_FOR_ESTIMATE) {
    const [lowShare, highShare] = wilsonInterval(nWrong, nReviewed);
    return {
      low: Math.max(nWrong, Math.floor(lowShare * data.nRows)),
      high: Math.ceil(highShare * data.nRows),
      basis: "from " + plural(nReviewed, "row") + " you reviewed",
      reviewed: true,
    };
  }
  const [low, high] = data.errors;
  const basis = data.reviewed ? "from a review" : "estimated from the data";
  return { low, high, basis, reviewed: data.reviewed };
}

function drawSummary() {
  if (data.review) {
    drawReviewSummary();
    return;
  }
  $("sample").textContent = sampleButtonText();
  const range = errorRange();
  drawHeadline(range);
  $("subline").replaceChildren(...sublineInWords(range));
  $("estimate").replaceChildren(rangeChart(range.low, range.high, range.basis));
}

function drawReviewSummary() {
  const nOpen = data.row.filter((row) => isOpen(tab, row)).length;
  const rows = plural(data.row.length, "row");
  $("headline").textContent = nOpen
    ? "Is the " + noun + " right in each of these " + rows + "?"
    : "All " + rows + " judged: export them.";
  $("subline").textContent =
    "Drawn by chance from " +
    n(data.nRows) +
    ", most from where the audit is in doubt: your answers tell how many " +
    noun +
    "s of all are wrong. Judge each row for itself; skip only what you cannot judge.";
  $("sample").hidden = true;
}

function sampleButtonText() {
  const nRows = data.sample.length;
  if (!sampling) {
    return "Review " + plural(nRows, "row") + (data.reviewed ? " more" : " to know how many");
  }
  const nSeen = data.sample.filter((row) => !isOpen("sample", row)).length;
  if (nSeen < nRows) return "Go on: " + n(nSeen) + " of " + n(nRows) + " reviewed";
  return "All " + n(nRows) + " reviewed";
}

// ---- the headline ----

// How the range is told: an estimate for targets, which are far from both ends; the lower end where
// the upper one rests on an assumption, which then stands beside it; else the range.
function headlineKind({ low, reviewed }) {
  if (reviewed) return "range";
  if (data.estimate) return "estimate";
  return low > 0 ? "at least" : "range";
}

function drawHeadline(range) {
  const em = (text) => el("em", { text });
  const headline = headlineKind(range);
  let count = range.high;
  let words = rangeWords(range, em);
  if (headline === "estimate") {
    count = data.estimate;
    words = ["About ", em(n(count))];
  } else if (headline === "at least") {
    count = range.low;
    words = ["At least ", em(n(count))];
  }
  const nouns = noun + (data.nRows === 1 ? "" : "s");
  const verb = wrongVerb(count, range.reviewed);
  $("headline").replaceChildren(...words, " of " + n(data.nRows) + " " + nouns + verb);
}

function rangeWords({ low, high }, em) {
  if (low >= high) return [em(n(high))];
  if (low <= 0) return ["At most ", em(n(high))];
  return ["Between ", em(n(low) + " and " + n(high))];
}

function wrongVerb(count, reviewed) {
  if (reviewed) return count === 1 ? " is wrong." : " are wrong.";
  return count === 1 ? " looks wrong." : " look wrong.";
}

// ---- the line below ----

function sublineInWords(range) {
  const listed = data.nListed ? listedInWords() : "None is listed.";
  return [
    endsInWords(range) + listed,
    reviewedWrongInWords(),
    earlierReviewsInWords(),
    unlabelledInWords(),
    findingsInWords(),
  ].filter(Boolean);
}

// The ends that the headline does not have, and what they assume.
function endsInWords(range) {
  if (range.reviewed) return "";
  const { assumption } = data;
  const headline = headlineKind(range);
  if (headline === "range") return "That holds if " + assumption + ". ";
  if (headline === "at least") return "At most " + n(range.high) + " if " + assumption + ". ";
  return "At least " + n(range.low) + ", at most " + n(range.high) + " if " + assumption + ". ";
}

function listedInWords() {
  const isCut = data.nListed > nListed;
  const nLikely = data.row.filter((row) => pWrong(row) > 0.5).length;
  if (nLikely < data.nListed && !isCut) return doubtfulInWords(nLikely);

  const nSure = data.row.filter((row) => !isReviewedWrong(row) && pWrong(row) > 0.9).length;
  const sure = nSure === data.nListed ? "all" : n(nSure);
  const cut = " The first " + n(nListed) + " are on this page; nearworth audit writes all.";
  const listed = n(data.nListed) + " listed, " + sure + " with more than 90% certainty.";
  return listed + (isCut ? cut : "");
}

// Of a list that goes beyond the rows that are likely wrong.
function doubtfulInWords(nLikely) {
  const are = nLikely === 1 ? " is" : " are";
  const likely = nLikely ? n(nLikely) + are : "None is";
  const doubtful =
    data.nListed === 1 ? "most doubtful one is" : n(data.nListed) + " most doubtful are";
  return likely + " more likely wrong than right; the " + doubtful + " listed.";
}

function reviewedWrongInWords() {
  const nWrong = data.row.filter(isReviewedWrong).length;
  if (!nWrong) return "";
  const first = nWrong === 1 ? "The first was" : "The first " + n(nWrong) + " were";
  const need = nWrong === 1 ? "needs" : "need";
  return " " + first + " judged wrong in the review and " + need + " a " + noun + ".";
}

function earlierReviewsInWords() {
  if (!data.nJudged) return "";
  const are = data.nJudged === 1 ? "is" : "are";
  const rows = plural(data.nJudged, "row was", "rows were");
  return " " + rows + " judged before and " + are + " not asked again.";
}

// How many rows of the file have no label, and which of them are on the page.
function unlabelledInWords() {
  if (!nUnlabelled) return "";
  const have = plural(nUnlabelled, "row has", "rows have");
  return " " + have + " no " + noun + "." + (data.unlabelled ? proposalsInWords() : "");
}

function proposalsInWords() {
  const nOpen = data.unlabelled.count;
  const nProposals = unlabelledRows.length;
  const nBefore = nUnlabelled - nOpen;
  const were = nBefore === 1 ? "was" : "were";
  const decided = nBefore ? " " + n(nBefore) + " of them " + were + " decided before." : "";
  if (nProposals >= nOpen) return decided;
  const rows = nBefore ? "the others" : "them";
  return decided + " The first " + n(nProposals) + " of " + rows + " are on this page.";
}

const FINDING_NOUNS = {
  duplicates: ["copy", "copies"],
  outliers: ["outlier"],
  leakage: ["row shared with the validation set", "rows shared with the validation set"],
};

function findingsInWords() {
  if (!findings.length) return "";
  const counts = findings.map(([id]) => plural(lists[id].rows.length, ...FINDING_NOUNS[id]));
  return " Also: " + joinWithAnd(counts) + ".";
}
