// ---- the summary, and what is not a list: classes or distribution, about ----
function wilson(count, of) {
  const z = 1.96,
    p = count / of,
    middle = p + (z * z) / (2 * of),
    half = z * Math.sqrt((p * (1 - p)) / of + (z * z) / (4 * of * of)),
    scale = 1 + (z * z) / of;
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)];
}

// What the sample says so far: of its rows in the order of the lot, those before the first that is
// still open.
function judged() {
  const stop = data.sample.findIndex((row) => isOpen("sample", row));
  const rows = (stop < 0 ? data.sample : data.sample.slice(0, stop)).filter(
    (row) => decisions[row].what !== "skip",
  );
  return { of: rows.length, wrong: rows.filter((row) => decisions[row].what !== "keep").length };
}

function drawReview() {
  const open = data.row.filter((row) => isOpen(tab, row)).length;
  $("headline").textContent = open
    ? "Is the " + noun + " right in each of these " + plural(data.row.length, "row") + "?"
    : "All " + plural(data.row.length, "row") + " judged: export them.";
  $("subline").textContent =
    "Drawn by chance from " +
    n(data.nRows) +
    ", most from where the audit is in doubt: your answers tell how many " +
    noun +
    "s of all are wrong. Judge each row for itself; skip only what you cannot judge.";
  $("sample").hidden = true;
}

// Of the rows without a label: those that are not on the page, and why.
function aboutUnlabelled() {
  if (!data.unlabelled) return "";
  const open = data.unlabelled.count,
    before = nUnlabelled - open,
    listed = unlabelledRows.length;
  const decided = before
    ? " " + n(before) + " of them " + (before === 1 ? "was" : "were") + " decided before."
    : "";
  return (
    decided +
    (listed < open
      ? " The first " + n(listed) + " of " + (before ? "the others" : "them") + " are on this page."
      : "")
  );
}

function drawSummary() {
  if (data.review) {
    drawReview();
    return;
  }
  const all = data.sample.length,
    seen = data.sample.filter((row) => !isOpen("sample", row)).length,
    { of, wrong: bad } = judged();
  $("sample").textContent = !sampling
    ? "Review " + plural(all, "row") + (data.reviewed ? " more" : " to know how many")
    : seen < all
      ? "Go on: " + n(seen) + " of " + n(all) + " reviewed"
      : "All " + n(all) + " reviewed";
  let [low, high] = data.errors,
    said = data.reviewed ? "from a review" : "estimated from the data",
    certain = data.reviewed;
  if (sampling && of >= 20) {
    [low, high] = wilson(bad, of);
    [low, high, said, certain] = [
      Math.max(bad, Math.floor(low * data.nRows)),
      Math.ceil(high * data.nRows),
      "from " + plural(of, "row") + " you reviewed",
      true,
    ];
  }
  const verb = (count) =>
    certain
      ? count === 1
        ? " is wrong."
        : " are wrong."
      : count === 1
        ? " looks wrong."
        : " look wrong.";
  const em = (text) => el("em", { text });
  const about = !certain && data.estimate ? data.estimate : null; // of targets: far from both ends
  // the upper end rests on an assumption, which stands beside it
  const atLeast = !certain && low > 0;
  const range = about
    ? ["About ", em(n(about))]
    : atLeast
      ? ["At least ", em(n(low))]
      : low >= high
        ? [em(n(high))]
        : low <= 0
          ? ["At most ", em(n(high))]
          : ["Between ", em(n(low) + " and " + n(high))];
  const ends = certain
    ? ""
    : about
      ? "At least " + n(low) + ", at most " + n(high) + " if " + data.assumption + ". "
      : atLeast
        ? "At most " + n(high) + " if " + data.assumption + ". "
        : "That holds if " + data.assumption + ". ";
  $("headline").replaceChildren(
    ...range,
    " of " +
      n(data.nRows) +
      " " +
      noun +
      (data.nRows === 1 ? "" : "s") +
      verb(about || (atLeast ? low : high)),
  );
  const judgedWrong = data.row.filter(wasWrong).length,
    surely = data.row.filter((row) => !wasWrong(row) && wrong(row) > 0.9).length,
    more = data.nListed - nListed;
  const likely = data.row.filter((row) => wrong(row) > 0.5).length;
  const listed =
    likely < data.nListed && !more
      ? (likely ? n(likely) + (likely === 1 ? " is" : " are") : "None is") +
        " more likely wrong than right; the " +
        (data.nListed === 1 ? "most doubtful one is" : n(data.nListed) + " most doubtful are") +
        " listed."
      : n(data.nListed) +
        " listed, " +
        (surely === data.nListed ? "all" : n(surely)) +
        " with more than 90% certainty." +
        (more
          ? " The first " + n(nListed) + " are on this page; nearworth detect writes all."
          : "");
  $("subline").textContent = ends + (data.nListed ? listed : "None is listed.");
  if (judgedWrong)
    $("subline").append(
      " " +
        (judgedWrong === 1 ? "The first was" : "The first " + n(judgedWrong) + " were") +
        " judged wrong in the review and " +
        (judgedWrong === 1 ? "needs" : "need") +
        " a " +
        noun +
        ".",
    );
  if (data.nJudged)
    $("subline").append(
      " " +
        plural(data.nJudged, "row was", "rows were") +
        " judged before and " +
        (data.nJudged === 1 ? "is" : "are") +
        " not asked again.",
    );
  if (nUnlabelled)
    $("subline").append(
      " " + plural(nUnlabelled, "row has", "rows have") + " no " + noun + "." + aboutUnlabelled(),
    );
  if (found.length)
    $("subline").append(
      " Also: " +
        listing(
          found.map(([id, name]) =>
            plural(
              lists[id].rows.length,
              ...{
                Duplicates: ["copy", "copies"],
                Outliers: ["outlier"],
                Leakage: [
                  "row shared with the validation set",
                  "rows shared with the validation set",
                ],
              }[name],
            ),
          ),
        ) +
        ".",
    );
  $("estimate").replaceChildren(rangeChart(low, high, said));
}

// Lists the rows of one cell of the matrix, or of one class.
function listPair(given, best) {
  open("labels");
  list().filter = {
    ...EMPTY_FILTER,
    given: String(given),
    best: best === null ? "" : String(best),
  };
  list().chosen = 0;
  drawFilters();
  refilter(null);
  drawDetail();
}

const heads = (names, numeric) =>
  el(
    "thead",
    {},
    el(
      "tr",
      {},
      names.map((name, i) =>
        name
          ? el("th", { scope: "col", class: numeric.includes(i) ? "num" : null, text: name })
          : el("td"),
      ),
    ),
  );
const block = (title, lead, ...content) =>
  el("div", { class: "card" }, el("h2", { text: title }), el("p", { text: lead }), content);

function classesPanel(host) {
  if (isNumber) {
    distribution(host);
    return;
  }
  const lines = data.classes
    .map(([rows, listed], c) => ({ c, rows, listed, share: listed / rows }))
    .sort((a, b) => b.share - a.share || b.rows - a.rows);
  const most = Math.max(...lines.map((line) => line.rows)),
    worst = Math.max(...lines.map((line) => line.share), 1e-9),
    few = lines.slice(0, 200);
  const table = el(
    "table",
    { class: "plain" },
    heads(["Class", "Rows", "", "Listed", ""], [1, 3]),
    el(
      "tbody",
      {},
      few.map(({ c, rows, listed, share }) =>
        el(
          "tr",
          {},
          el("th", { scope: "row", text: show(data.labels[c]) }),
          el("td", { class: "num", text: n(rows) }),
          el("td", {}, shareBar(rows / most, 80, "bar0")),
          el(
            "td",
            { class: "num" },
            listed
              ? button(n(listed) + " · " + sure(share), () => listPair(c, null), {
                  class: "small quiet",
                })
              : "0",
          ),
          el("td", {}, shareBar(share / worst, 80, "bar1")),
        ),
      ),
    ),
  );
  host.append(
    el(
      "div",
      { class: "wrap" },
      el(
        "div",
        { class: "cols" + (data.nClasses > 15 && data.nClasses <= 30 ? " single" : "") },
        block(
          "Classes",
          "How many rows carry each label, and what share of them is listed.",
          el("div", { class: "scroll" }, table),
          lines.length > few.length &&
            el("p", {
              text: n(lines.length - few.length) + " classes with a smaller share are not shown.",
            }),
        ),
        data.nClasses > 30 ? pairList() : matrix(),
      ),
    ),
  );
}

function pairCounts() {
  const counts = new Map();
  data.row.forEach((row, k) => {
    const [given, best] = [data.given[k], data.suggested[k]];
    if (given !== best) counts.set(given + ":" + best, (counts.get(given + ":" + best) || 0) + 1);
  });
  return [...counts]
    .map(([pair, count]) => [...pair.split(":").map(Number), count])
    .sort((a, b) => b[2] - a[2]);
}

function matrix() {
  const counts = new Map(pairCounts().map(([given, best, count]) => [given + ":" + best, count])),
    top = Math.max(...counts.values(), 1),
    classes = [...Array(data.nClasses).keys()];
  const cell = (a, b) => {
    const count = counts.get(a + ":" + b);
    return el(
      "td",
      {},
      count
        ? button(n(count), () => listPair(a, b), {
            class: "h" + Math.max(1, Math.ceil((4 * count) / top)),
            "aria-label":
              n(count) +
              " labelled " +
              show(data.labels[a]) +
              ", suggested " +
              show(data.labels[b]),
          })
        : el("span", { text: "·" }),
    );
  };
  return block(
    "Which is taken for which",
    "Lines: the label given. Columns: the label suggested. Choose a number to list those rows.",
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Given by suggested label" },
      el(
        "table",
        { class: data.nClasses > 12 ? "matrix dense" : "matrix" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("td"),
            classes.map((c) =>
              el("th", { scope: "col", text: show(data.labels[c]), title: data.labels[c] }),
            ),
          ),
        ),
        el(
          "tbody",
          {},
          classes.map((a) =>
            el(
              "tr",
              {},
              el("th", { scope: "row", text: show(data.labels[a]), title: data.labels[a] }),
              classes.map((b) => cell(a, b)),
            ),
          ),
        ),
      ),
    ),
  );
}

function pairList() {
  const pairs = pairCounts().slice(0, 20);
  return block(
    "Which is taken for which",
    "The most frequent pairs. Choose a number to list those rows.",
    el(
      "table",
      { class: "plain" },
      heads(["Given", "Suggested", "Rows"], [2]),
      el(
        "tbody",
        {},
        pairs.map(([given, best, count]) =>
          el(
            "tr",
            {},
            el("th", { scope: "row", text: show(data.labels[given]) }),
            el("td", { text: show(data.labels[best]) }),
            el(
              "td",
              { class: "num" },
              button(n(count), () => listPair(given, best), { class: "small quiet" }),
            ),
          ),
        ),
      ),
    ),
  );
}

// Targets on an axis, log where they span more than two powers of ten.
function distribution(host) {
  const { low, high, log, counts } = data.targets,
    scale = log ? Math.log : (value) => value,
    W = 560,
    bins = counts[0].length,
    top = Math.sqrt(Math.max(...counts[0], 1));
  const x = (value) => (W * (scale(value) - scale(low))) / (scale(high) - scale(low) || 1),
    y = (value) => 400 - (380 / W) * x(Math.min(high, Math.max(low, value)));
  const ticks = [...Array(5).keys()]
    .map((i) =>
      log ? Math.exp(Math.log(low) + (i / 4) * Math.log(high / low)) : low + (i / 4) * (high - low),
    )
    .map((value) => [value, brief(+value.toPrecision(2))]);
  const bars = (which, kindOf) =>
    counts[which].map((count, i) =>
      svg("rect", {
        x: (i * W) / bins + 1,
        width: W / bins - 2,
        y: 170 - (160 * Math.sqrt(count)) / top,
        height: (160 * Math.sqrt(count)) / top,
        rx: 2,
        class: kindOf,
      }),
    );
  const across = (at) =>
    ticks.map(([value, words], i) =>
      svg("text", {
        x: x(value),
        y: at,
        "text-anchor": i === 0 ? "start" : i === 4 ? "end" : "middle",
        text: words,
      }),
    );
  const chart = svg(
    "svg",
    {
      viewBox: "-14 0 590 200",
      width: "100%",
      role: "img",
      "aria-label": "Distribution of " + data.target,
    },
    bars(0, "bar0"),
    bars(1, "bar1"),
    svg("line", { x1: 0, x2: W, y1: 170.5, y2: 170.5, class: "ax" }),
    across(188),
  );
  const others = (data.points || [])
    .slice(0, 1500)
    .map(([, , given, typical]) =>
      svg("circle", { cx: x(given), cy: y(typical), r: 1.8, class: "dotn" }),
    );
  const dots = data.row.slice(0, 1000).map((row) =>
    svg("circle", {
      cx: x(Number(labelOf(row))),
      cy: y(Number(typicalOf(row))),
      r: 4.5,
      class: "dbt",
    }),
  );
  const against = svg(
    "svg",
    {
      viewBox: "-46 0 620 430",
      width: "100%",
      role: "img",
      "aria-label": "Given against typical " + data.target,
    },
    svg("line", { x1: 0, y1: 400, x2: W, y2: 20, class: "ax" }),
    others,
    dots,
    across(420),
    ticks.map(([value, words]) =>
      svg("text", { x: -8, y: y(value) + 4, "text-anchor": "end", text: words }),
    ),
  );
  host.append(
    el(
      "div",
      { class: "wrap" },
      el(
        "div",
        { class: "cols" },
        block(
          "All values of " + data.target,
          (log ? "Log scale across, square" : "Square") +
            "-root scale up. The warm part is listed.",
          chart,
        ),
        block(
          "Given against typical",
          "Across: the value given. Up: what rows like it suggest. Rows far from the line are " +
            "listed (large dots).",
          against,
        ),
      ),
    ),
  );
}

function aboutPanel(host) {
  const lines = (title, ...content) =>
    el(
      "div",
      { class: "card about" },
      el("h2", { text: title }),
      content.map((each) => (typeof each === "string" ? el("p", { text: each }) : each)),
    );
  host.append(
    el(
      "div",
      { class: "wrap" },
      el(
        "div",
        { class: "cols" },
        lines(
          "How to read this",
          "A listed row is a question, not a verdict. The list starts with the rows we are " +
            "surest about.",
          "Wrong " +
            noun +
            "s: " +
            data.errorsSaid +
            ". " +
            (data.reviewed
              ? "This rests on the answers of a review."
              : "This comes from the data alone. Errors that repeat in the same way (a whole " +
                "batch labelled alike) can hide from it: reviewing " +
                plural(data.sample.length, "row") +
                " drawn by lot gives a number that depends on none of this."),
        ),
        lines("How it was made", $("made").content.cloneNode(true)),
        lines(
          "What happens to your decisions",
          "They stay in this browser until you export them. Nothing is sent anywhere: this " +
            "page cannot reach the network.",
          el("code", { class: "code", text: COMMAND }),
        ),
        lines(
          "What is not here",
          "Only listed rows, their nearest rows and a sample are in this file. Values of rows " +
            "and of their sources: nearworth value.",
        ),
      ),
    ),
  );
}
