// ---- the row beside a neighbour: images, texts with shared words marked, cells with differences
// marked ----
const words = (said) => said.match(/[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu) || [];
const COMMON = new Set(
  (
    "that this with have from your they been will would could please there when what which " +
    "than then were into does need " +
    "only after before since still about their them these those such some other more most " +
    "very just also because while where"
  ).split(" "),
);

function marked(said, other) {
  const shared = new Set(words(other).map((word) => word.toLowerCase()));
  return words(said).map((word) => {
    const lower = word.toLowerCase();
    return word.length > 3 && shared.has(lower) && /[\p{L}\p{N}]/u.test(word) && !COMMON.has(lower)
      ? el("mark", { class: "same", text: word })
      : word;
  });
}

// ✓ agrees with the suggestion, = with the given label
function tone(row, other) {
  if (isNumber || veiled(row)) return "";
  const label = labelOf(other);
  return label === suggestionOf(row) ? "for" : label === labelOf(row) ? "against" : "";
}
const SIGN = { for: "✓ ", against: "= ", "": "" };
const chip = (row, other) =>
  el("span", {
    class: "chip " + tone(row, other),
    text: SIGN[tone(row, other)] + show(labelOf(other)),
  });

// The rows that a row is compared with: its nearest, or its copies.
const comparedWith = (row) =>
  list().near
    ? list()
        .near(row)
        .map((each) => ({ row: each }))
    : nearOf(row);

// The nearest row that carries the suggested label, unless another was chosen.
function partnerOf(row) {
  if (pinned !== null) return pinned;
  const near = comparedWith(row);
  const best = near.find((each) => labelOf(each.row) === suggestionOf(row)) || near[0];
  return best ? best.row : null;
}

function card(title, chips, body, self, extra) {
  return el(
    "section",
    { class: "side1" + (self ? " self" : "") },
    el("header", {}, el("b", { text: title }), chips, el("span", { class: "spread" }), extra),
    body,
  );
}

function body(row, other) {
  const said = textOf(row);
  return [
    hasImages && picture(row),
    said && el("p", { class: "prose" }, other === null ? said : marked(said, textOf(other))),
    said.endsWith("…") && el("p", { class: "cut", text: "Cut here to keep this file small." }),
  ];
}

function pair(row, other) {
  if (kind === "table" || kind === "bare") return null;
  const own = el("span", {
    class: "chip " + (tab === "labels" ? "against" : ""),
    text: ownLabel(row),
  });
  const first = card(
    other === null ? nameOf(row) : "This row",
    own,
    body(row, other),
    other !== null,
  );
  if (other === null) return el("div", { class: "pair one" }, first);
  return el(
    "div",
    { class: "pair" },
    first,
    card(nameOf(other), chip(row, other), body(other, row), false, opener(other)),
  );
}

const opener = (row) =>
  !data.review &&
  shown.includes(row) &&
  button("Open", () => choose(shown.indexOf(row)), {
    class: "small quiet",
    "data-keep": "open",
    title: "This row is listed too",
  });

// ▲ ▼ where a number is more than a median deviation away, ≠ where a word is another one
function difference(j, own, other) {
  const scale = data.scales[j];
  if (own === other || own === "" || other === "") return "";
  if (scale === -1) return ""; // texts that hardly two rows share: no difference means anything
  if (scale === null) return "≠ ";
  const gap = Number(other) - Number(own);
  return Math.abs(gap) > scale ? (gap > 0 ? "▲ " : "▼ ") : "";
}

function cellTable(row, other) {
  if (!plainCells.length) return null;
  const near = comparedWith(row).map((each) => each.row);
  const beside =
    other === null
      ? []
      : kind === "table"
        ? [other, ...near.filter((each) => each !== other)]
        : [other];
  const own = cellsOf(row);
  const head = (each, k) =>
    el(
      "th",
      { scope: "col", class: each === other ? "pinned" : null },
      button(nameOf(each), () => pin(each), {
        "aria-pressed": String(each === other),
        "data-keep": "near-" + k,
        title: "Put this row beside",
      }),
    );
  const cell = (each, j) => {
    const sign = difference(j, own[j], cellsOf(each)[j]);
    return el("td", {
      class: (sign ? "far" : "") + (each === other ? " pinned" : ""),
      text: sign + (cellsOf(each)[j] || "–"),
    });
  };
  return el(
    "div",
    {
      class: "scrollx",
      tabindex: "0",
      role: "region",
      "aria-label": "This row beside its nearest rows",
    },
    el(
      "table",
      { class: "cmp" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("td"),
          el("th", {
            scope: "col",
            class: "self",
            text: other === null ? nameOf(row) : "This row",
          }),
          beside.map(head),
        ),
      ),
      el(
        "tbody",
        {},
        el(
          "tr",
          { class: "target" },
          el("th", { scope: "row", text: data.target }),
          el("td", { class: "self", text: hasLabel(row) ? show(labelOf(row)) : "–" }),
          beside.map((each) =>
            el("td", {
              class: tone(row, each) + (each === other ? " pinned" : ""),
              text: SIGN[tone(row, each)] + show(labelOf(each)),
            }),
          ),
        ),
        plainCells.map(({ name, j }) =>
          el(
            "tr",
            {},
            el("th", { scope: "row", text: name, title: name }),
            el("td", { class: "self", text: own[j] || "–" }),
            beside.map((each) => cell(each, j)),
          ),
        ),
      ),
    ),
  );
}

function cellNote(row) {
  if (!plainCells.length) return null;
  const more = data.cellsOmitted
    ? " " + plural(data.cellsOmitted, "more column is", "more columns are") + " not shown."
    : "";
  return el("p", {
    class: "lead",
    text:
      (comparedWith(row).length && !veiled(row)
        ? "▲ ▼ mark numbers far above or below this row, ≠ other words."
        : "") + more,
  });
}

// All neighbours; a table has them as columns already.
function neighbours(row, other) {
  const near = comparedWith(row);
  if (kind === "table" || veiled(row) || !near.length) return null;
  return el(
    "div",
    { class: "section" },
    el(
      "h3",
      {},
      tab === "duplicates" ? "Copies " : "Nearest rows ",
      el("small", { text: "choose one to put it beside this row" }),
    ),
    el(
      "div",
      { class: "near " + (hasImages ? "images" : "texts") },
      near.map(({ row: each, distance }, k) =>
        el(
          "button",
          {
            type: "button",
            "data-keep": "near-" + k,
            "aria-pressed": String(each === other),
            title: nameOf(each) + (distance === undefined ? "" : ", distance " + distance),
            "aria-label": nameOf(each) + ", labelled " + show(labelOf(each)),
            onclick: () => pin(each),
          },
          excerpt(each),
          el(
            "span",
            { class: "foot" },
            chip(row, each),
            !hasImages && el("span", { text: kind === "bare" ? "" : nameOf(each) }),
          ),
        ),
      ),
    ),
  );
}

function pin(row) {
  pinned = row;
  drawDetail(true);
}
