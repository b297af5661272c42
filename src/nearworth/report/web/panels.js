// ---- what is not a list: classes, the distribution of targets, and about ----

const MAX_CLASS_LINES = 200;
const MAX_PAIR_LINES = 20;
const MAX_MATRIX_CLASSES = 30; // a larger matrix does not fit on a screen
const MAX_HALF_WIDTH_CLASSES = 15; // a larger matrix has the whole width
const MAX_SPACIOUS_CLASSES = 12; // a larger matrix is set in a smaller size

// ---- parts of panels ----

const wrapped = (content, isSingle) =>
  el("div", { class: "wrap" }, el("div", { class: "cols" + (isSingle ? " single" : "") }, content));

const titledCard = (title, lead, ...content) =>
  el("div", { class: "card" }, el("h2", { text: title }), el("p", { text: lead }), content);

// The head of a table; `numeric` are the places of columns of numbers.
function tableHead(names, numeric) {
  const heads = names.map((name, place) => {
    if (!name) return el("td");
    return el("th", { scope: "col", class: numeric.includes(place) ? "num" : null, text: name });
  });
  return el("thead", {}, el("tr", {}, heads));
}

const tableBody = (lines) => el("tbody", {}, lines);
const rowHead = (code) => el("th", { scope: "row", text: labelText(data.labels[code]) });

// Lists the rows of one cell of the matrix, or of one class: `best` is null then.
function listPair(given, best) {
  openTab("labels");
  currentList().filter = {
    ...EMPTY_FILTER,
    given: String(given),
    best: best === null ? "" : String(best),
  };
  currentList().chosen = 0;
  drawFilters();
  refilter(null);
  drawDetail();
}

// ---- classes ----

function classesPanel(host) {
  if (isNumber) {
    distributionPanel(host);
    return;
  }
  const hasMatrix = data.nClasses <= MAX_MATRIX_CLASSES;
  const isSingle = hasMatrix && data.nClasses > MAX_HALF_WIDTH_CLASSES;
  host.append(wrapped([classCard(), hasMatrix ? matrixCard() : pairCard()], isSingle));
}

// Every class, those of which the largest share is listed first.
function classCard() {
  const classes = data.classes
    .map(([rows, listed], code) => ({ code, rows, listed, share: listed / rows }))
    .sort((a, b) => b.share - a.share || b.rows - a.rows);
  const maxRows = Math.max(...classes.map((line) => line.rows));
  const maxShare = Math.max(...classes.map((line) => line.share), 1e-9);
  const lines = classes.slice(0, MAX_CLASS_LINES).map((line) => classLine(line, maxRows, maxShare));
  const table = el(
    "table",
    { class: "plain" },
    tableHead(["Class", "Rows", "", "Listed", ""], [1, 3]),
    tableBody(lines),
  );
  const nHidden = classes.length - lines.length;
  return titledCard(
    "Classes",
    "How many rows carry each label, and what share of them is listed.",
    el("div", { class: "scroll" }, table),
    nHidden > 0 && el("p", { text: n(nHidden) + " classes with a smaller share are not shown." }),
  );
}

function classLine({ code, rows, listed, share }, maxRows, maxShare) {
  const BAR_WIDTH = 80;
  const text = n(listed) + " · " + shortPercent(share);
  const listButton = button(text, () => listPair(code, null), { class: "small quiet" });
  return el(
    "tr",
    {},
    rowHead(code),
    el("td", { class: "num", text: n(rows) }),
    el("td", {}, shareBar(rows / maxRows, BAR_WIDTH, "bar0")),
    el("td", { class: "num" }, listed ? listButton : "0"),
    el("td", {}, shareBar(share / maxShare, BAR_WIDTH, "bar1")),
  );
}

// How often listed rows of one class look like another: [given, suggested, count], the most
// frequent first.
function pairCounts() {
  const counts = new Map();
  data.row.forEach((row, index) => {
    const given = data.given[index];
    const best = data.suggested[index];
    if (given === best) return;
    const pair = given + ":" + best;
    counts.set(pair, (counts.get(pair) || 0) + 1);
  });
  return [...counts]
    .map(([pair, count]) => [...pair.split(":").map(Number), count])
    .sort((a, b) => b[2] - a[2]);
}

function matrixCard() {
  const counts = new Map(pairCounts().map(([given, best, count]) => [given + ":" + best, count]));
  const maxCount = Math.max(...counts.values(), 1);
  const classes = [...Array(data.nClasses).keys()];
  const heads = classes.map((code) => {
    const name = data.labels[code];
    return el("th", { scope: "col", text: labelText(name), title: name });
  });
  const lines = classes.map((given) => {
    const name = data.labels[given];
    const cells = classes.map((best) =>
      matrixCell(given, best, counts.get(given + ":" + best), maxCount),
    );
    const head = el("th", { scope: "row", text: labelText(name), title: name });
    return el("tr", {}, head, cells);
  });
  const table = el(
    "table",
    { class: data.nClasses > MAX_SPACIOUS_CLASSES ? "matrix dense" : "matrix" },
    el("thead", {}, el("tr", {}, el("td"), heads)),
    tableBody(lines),
  );
  const region = { tabindex: "0", role: "region", "aria-label": "Given by suggested label" };
  return titledCard(
    "Which is taken for which",
    "Lines: the label given. Columns: the label suggested. Choose a number to list those rows.",
    el("div", { class: "scroll", ...region }, table),
  );
}

// A cell is the darker the more rows it has; page.css has four shades.
function matrixCell(given, best, count, maxCount) {
  const N_SHADES = 4;
  if (!count) return el("td", {}, el("span", { text: "·" }));
  const shade = Math.max(1, Math.ceil((N_SHADES * count) / maxCount));
  const givenText = labelText(data.labels[given]);
  const bestText = labelText(data.labels[best]);
  const listButton = button(n(count), () => listPair(given, best), {
    class: "h" + shade,
    "aria-label": n(count) + " labelled " + givenText + ", suggested " + bestText,
  });
  return el("td", {}, listButton);
}

function pairCard() {
  const lines = pairCounts()
    .slice(0, MAX_PAIR_LINES)
    .map(([given, best, count]) => {
      const listButton = button(n(count), () => listPair(given, best), { class: "small quiet" });
      return el(
        "tr",
        {},
        rowHead(given),
        el("td", { text: labelText(data.labels[best]) }),
        el("td", { class: "num" }, listButton),
      );
    });
  return titledCard(
    "Which is taken for which",
    "The most frequent pairs. Choose a number to list those rows.",
    el(
      "table",
      { class: "plain" },
      tableHead(["Given", "Suggested", "Rows"], [2]),
      tableBody(lines),
    ),
  );
}

// ---- the distribution of targets ----

const TARGET_CHART_WIDTH = 560;
const N_TICKS = 5;
const MAX_LISTED_DOTS = 1000;
const MAX_OTHER_DOTS = 1500;

function distributionPanel(host) {
  const { log: isLog } = data.targets;
  const root = (isLog ? "Log scale across, square" : "Square") + "-root scale up. ";
  const histogramCard = titledCard(
    "All values of " + data.target,
    root + "The warm part is listed.",
    targetHistogram(),
  );
  const scatterCard = titledCard(
    "Given against typical",
    "Across: the value given. Up: what rows like it suggest. Rows far from the line are " +
      "listed (large dots).",
    targetScatter(),
  );
  host.append(wrapped([histogramCard, scatterCard], false));
}

// Where a target is drawn across; on a log scale if targets span more than two powers of ten.
function targetX(value) {
  const { low, high, log: isLog } = data.targets;
  const scale = isLog ? Math.log : (number) => number;
  const span = scale(high) - scale(low) || 1;
  return (TARGET_CHART_WIDTH * (scale(value) - scale(low))) / span;
}

// [value, text] of the ticks, at equal distances.
function targetTicks() {
  const { low, high, log: isLog } = data.targets;
  return [...Array(N_TICKS).keys()].map((tick) => {
    const share = tick / (N_TICKS - 1);
    const value = isLog
      ? Math.exp(Math.log(low) + share * Math.log(high / low))
      : low + share * (high - low);
    return [value, brief(+value.toPrecision(2))];
  });
}

// The texts of the ticks below a chart; those at its ends stay inside.
function tickTexts(y) {
  const anchors = { 0: "start", [N_TICKS - 1]: "end" };
  return targetTicks().map(([value, text], tick) =>
    svg("text", { x: targetX(value), y, "text-anchor": anchors[tick] || "middle", text }),
  );
}

function targetHistogram() {
  const BASE_Y = 170;
  const MAX_HEIGHT = 160;
  const [allCounts, listedCounts] = data.targets.counts;
  const maxRoot = Math.sqrt(Math.max(...allCounts, 1));
  const binWidth = TARGET_CHART_WIDTH / allCounts.length;
  const bars = (counts, barClass) =>
    counts.map((count, bin) => {
      const height = (MAX_HEIGHT * Math.sqrt(count)) / maxRoot;
      return svg("rect", {
        x: (bin * TARGET_CHART_WIDTH) / allCounts.length + 1,
        width: binWidth - 2,
        y: BASE_Y - height,
        height,
        rx: 2,
        class: barClass,
      });
    });
  return svg(
    "svg",
    {
      viewBox: "-14 0 590 200",
      width: "100%",
      role: "img",
      "aria-label": "Distribution of " + data.target,
    },
    bars(allCounts, "bar0"),
    bars(listedCounts, "bar1"),
    svg("line", { x1: 0, x2: TARGET_CHART_WIDTH, y1: 170.5, y2: 170.5, class: "ax" }),
    tickTexts(188),
  );
}

function targetScatter() {
  const BASE_Y = 400;
  const HEIGHT = 380;
  const { low, high } = data.targets;
  // Typical targets may lie outside the range of those given: they are drawn at its ends.
  const clipped = (value) => Math.min(high, Math.max(low, value));
  const targetY = (value) => BASE_Y - (HEIGHT / TARGET_CHART_WIDTH) * targetX(clipped(value));
  const dot = (given, typical, radius, dotClass) =>
    svg("circle", { cx: targetX(given), cy: targetY(typical), r: radius, class: dotClass });
  const otherDots = (data.points || [])
    .slice(0, MAX_OTHER_DOTS)
    .map(([, , given, typical]) => dot(given, typical, 1.8, "dotn"));
  const listedDots = data.row
    .slice(0, MAX_LISTED_DOTS)
    .map((row) => dot(Number(labelOf(row)), Number(typicalOf(row)), 4.5, "dbt"));
  const sideTexts = targetTicks().map(([value, text]) =>
    svg("text", { x: -8, y: targetY(value) + 4, "text-anchor": "end", text }),
  );
  return svg(
    "svg",
    {
      viewBox: "-46 0 620 430",
      width: "100%",
      role: "img",
      "aria-label": "Given against typical " + data.target,
    },
    svg("line", { x1: 0, y1: BASE_Y, x2: TARGET_CHART_WIDTH, y2: BASE_Y - HEIGHT, class: "ax" }),
    otherDots,
    listedDots,
    tickTexts(420),
    sideTexts,
  );
}

// ---- about ----

function aboutPanel(host) {
  const paragraph = (content) =>
    typeof content === "string" ? el("p", { text: content }) : content;
  const about = (title, ...content) =>
    el("div", { class: "card about" }, el("h2", { text: title }), content.map(paragraph));
  const cards = [
    about(
      "How to read this",
      "A listed row is a question, not a verdict. The list starts with the rows we are " +
        "surest about.",
      "Wrong " + noun + "s: " + data.errorsSaid + ". " + basisOfCount(),
    ),
    about("How it was made", $("made").content.cloneNode(true)),
    about(
      "What happens to your decisions",
      "They stay in this browser until you export them. Nothing is sent anywhere: this " +
        "page cannot reach the network.",
      el("code", { class: "code", text: COMMAND }),
    ),
    about(
      "What is not here",
      "Only listed rows, their nearest rows and a sample are in this file. Values of rows " +
        "and of their sources: nearworth value.",
    ),
  ];
  host.append(wrapped(cards, false));
}

function basisOfCount() {
  if (data.reviewed) return "This rests on the answers of a review.";
  return (
    "This comes from the data alone. Errors that repeat in the same way (a whole " +
    "batch labelled alike) can hide from it: reviewing " +
    plural(data.sample.length, "row") +
    " drawn by lot gives a number that depends on none of this."
  );
}
