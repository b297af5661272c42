// ---- the chosen row and what can be done with it ----
function verdict(row) {
  const given = show(labelOf(row)),
    best = suggested(row);
  if (tab === "sample" || data.review) return ["Is", el("b", { text: given }), "right?"];
  if (wasWrong(row))
    return [el("b", { class: "old", text: given }), "is wrong – choose its " + noun];
  if (lists[tab].about)
    return [
      el("b", { text: given }),
      "– " +
        {
          duplicates: "there more than once",
          outliers: "far from every other row",
          leakage: "also in the validation set",
        }[tab],
    ];
  if (tab === "unlabelled")
    return [
      "No " + noun + (isNumber ? " – rows like it are near" : " – looks like"),
      el("b", { class: "new", text: show(best) }),
    ];
  if (best === null)
    return [isNumber ? "Given" : "Labelled", el("b", { class: "old", text: given }), "– in doubt"];
  return [
    isNumber ? "Given" : "Labelled",
    el("b", { class: "old", text: given }),
    isNumber ? "– rows like it are near" : "– looks like",
    el("b", { class: "new", text: show(best) }),
  ];
}

// What a finding beside the labels says about a row.
function told(row) {
  const { near, about } = list();
  if (tab === "outliers")
    return (
      "One usual row in " +
      n(10 ** Math.min(9, Math.floor(about(row, "score")))) +
      " would be as far from the others. It may be broken, or rare and right."
    );
  if (tab === "leakage")
    return (
      (about(row, "exact") ? "The same" : "Nearly the same") +
      " as row " +
      n(about(row, "other")) +
      " of the validation set. A model can remember it, and the score will look too good."
    );
  const others = near(row),
    labels = [...new Set([row, ...others].map(labelOf))];
  return (
    (about(row, "exact") ? "The same as " : "Nearly the same as ") +
    listing(others.slice(0, 3).map(nameOf)) +
    (others.length > 3 ? " and more" : "") +
    (about(row, "exact") ? ", in everything that is compared." : ".") +
    (labels.length > 1 ? " They disagree: " + listing(labels.map(show)) + "." : "")
  );
}

function sentence(row) {
  if (tab === "sample")
    return [
      "Drawn by lot, so that what you find here holds for all " +
        labelledRows +
        ". Judge the content; what the audit says is not shown on purpose.",
    ];
  if (veiled(row))
    return ["Judge the content. What the audit says of this row is shown once you have judged it."];
  if (lists[tab].about) return [told(row)];
  if (tab === "unlabelled")
    return [
      !isNumber && el("b", { text: "With a probability of " + percent(certainty(row)) + ". " }),
      "Left out of the audit; its " +
        plural(nearOf(row).length, "nearest row") +
        (nearOf(row).length === 1 ? " suggests" : " suggest") +
        " this " +
        noun +
        ".",
    ];
  const strong = el("b", {
    text: wasWrong(row)
      ? "Judged wrong in the review: choose its " + noun + ". "
      : "Wrong with a probability of " + percent(wrong(row)) + ". ",
  });
  if (isNumber) {
    const [low, high] = rangeOf(row);
    return [
      strong,
      "Rows like it mostly lie between " + number(low) + " and " + number(high) + ".",
    ];
  }
  const near = nearOf(row),
    best = suggestionOf(row),
    given = labelOf(row),
    of = (label) => near.filter((each) => labelOf(each.row) === label).length;
  const [twin, its, unlike] = unlikeOf(row);
  if (unlike)
    strong.append(
      "Identical row " +
        n(twin) +
        " is labelled " +
        show(its) +
        (unlike > 1 ? ", " + n(unlike - 1) + " more otherwise. " : ". "),
    );
  if (!near.length) return [strong];
  const own = (of(given) || "none") + " " + show(given) + ".";
  return [
    strong,
    best === null
      ? "Of its " +
        plural(near.length, "nearest row") +
        " " +
        own.replace(" ", of(given) === 1 ? " is labelled " : " are labelled ")
      : of(best) +
        " of its " +
        plural(near.length, "nearest row") +
        (of(best) === 1 ? " is" : " are") +
        " labelled " +
        show(best) +
        ", " +
        own,
  ];
}

function head(row) {
  return el(
    "div",
    { class: "dhead" },
    !data.review && button("‹ List", () => view("list"), { class: "small backer" }),
    el("span", {
      text:
        nameOf(row) +
        (idOf(row) ? " · row " + n(row) : "") +
        " · " +
        n(list().chosen + 1) +
        " of " +
        n(shown.length),
    }),
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

function rail(row, small) {
  const note = el("textarea", {
    id: "note",
    "aria-label": "Note",
    placeholder: "Why? (N)",
    maxlength: "2000",
    "data-keep": "note",
    oninput: () => {
      if (note.value) notes[row] = note.value;
      else delete notes[row];
      remember();
    },
  });
  note.value = notes[row] || "";
  const box = (title, ...content) =>
    el("div", { class: "box" }, el("h3", { text: title }), content);
  return el(
    "aside",
    { class: "rail" },
    tab === "labels" &&
      !wasWrong(row) &&
      box(
        "How sure",
        histogram(data.certainty, wrong(row), 0.5, "surely right", "surely wrong"),
        el("p", { text: "All " + labelledRows + ". The line is this row." }),
      ),
    small && box("Where it lies", small),
    box("Note", note),
  );
}

function drawDetail(stay) {
  const row = chosenRow(),
    host = $("scrolls"),
    focused = document.activeElement;
  const held = $("detail").contains(focused) ? focused.dataset.keep : null,
    scroll = host.scrollTop;
  if (row === undefined) {
    host.replaceChildren(
      el(
        "div",
        { class: "empty" },
        el("b", { text: "No row chosen." }),
        list().rows.length
          ? "Choose a row on the left, or clear the filters."
          : "There is nothing to decide.",
      ),
    );
    drawActions(null);
    return;
  }
  list().row = row; // where to come back to
  const other = veiled(row) ? null : partnerOf(row);
  const small =
    data.place && tab === "labels"
      ? el("canvas", {
          role: "img",
          "aria-label": "Where this row lies on the map, with its nearest rows",
        })
      : null;
  host.replaceChildren(
    el(
      "div",
      { class: "grid2" },
      put(el("div"), [
        head(row),
        el("h2", { class: "verdict" }, verdict(row)),
        el("p", { class: "why" }, sentence(row)),
        isNumber &&
          (tab === "labels" || data.review) &&
          !veiled(row) &&
          el("div", { class: "strip" }, strip(row)),
        pair(row, other),
        neighbours(row, other),
        cellTable(row, other),
        cellNote(row),
      ]),
      rail(row, small),
    ),
  );
  host.scrollTop = stay === true ? scroll : 0;
  drawActions(row);
  host.repaint = () => small && paintMap(small, { focus: row });
  host.repaint();
  if (held)
    ($("detail").querySelector('[data-keep="' + held + '"]') || $("list")).focus({
      preventScroll: true,
    });
}

// Another label: a list to choose from, a field that completes for many classes, a field for
// numbers.
function otherLabel(row, best) {
  const submit = (value) => {
    $("list").focus({ preventScroll: true });
    decide(row, "change", value);
  };
  if (!isNumber && data.nClasses <= 30) {
    const box = el(
      "select",
      {
        id: "other",
        "aria-label": "Another label",
        onchange: () => {
          if (box.value) submit(data.labels[box.value]);
        },
      },
      el("option", {
        value: "",
        text: data.review ? "Wrong: it is…" : best === null ? "Which label?" : "Other label…",
      }),
      data.labels
        .slice(0, data.nClasses)
        .map((label, c) => label !== labelOf(row) && el("option", { value: c, text: show(label) })),
    );
    return box;
  }
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
      if (isNumber || data.labels.slice(0, data.nClasses).includes(field.value))
        submit(field.value);
      else say("No class is called " + field.value + ".");
    },
  });
  return field;
}

function drawActions(row) {
  const host = $("actions");
  if (row === null) {
    host.replaceChildren(el("span", { class: "state", text: "Nothing to decide here." }));
    return;
  }
  const best = suggested(row),
    main = tab === "sample" || (best === null && !wasWrong(row)) ? "keep" : "change",
    decision = decisions[row];
  const action = (key, what, words, extra) =>
    el(
      "button",
      {
        type: "button",
        "aria-pressed": data.review ? String(Boolean(decision) && decision.what === what) : null,
        class:
          (main === what ? "solid " : "") +
          (extra || "") +
          (decision && decision.what === what ? " chosen" : ""),
        "data-keep": what,
        "aria-keyshortcuts": key.toLowerCase(),
        title: words,
        onclick: () => act(what, row),
      },
      words + " ",
      el("kbd", { text: key }),
    );
  const all = data.review
    ? {
        right: action("R", "right", "Right", "outline"),
        wrong: action("W", "wrong", "Wrong", "outline"),
        skip: action("S", "skip", "Skip", "quiet"),
      }
    : {
        change: action(
          "C",
          "change",
          best === null
            ? "Change…"
            : (!hasLabel(row) && !isNumber ? "Call it " : "Change to ") + show(best),
        ),
        keep: action("K", "keep", "Keep " + (hasLabel(row) ? show(labelOf(row)) : "unlabelled")),
        ...(tab === "sample" ? { wrong: action("W", "wrong", "Wrong") } : {}),
        delete: action("D", "delete", "Delete row", "del"),
        skip: action("S", "skip", "Skip", "quiet"),
      };
  const order = Object.keys(all).sort((a, b) => (b === main) - (a === main));
  const further =
    data.review && decision && nextOpen() >= 0
      ? [
          button("Next open row", () => choose(nextOpen()), {
            class: "solid",
            "data-keep": "further",
          }),
        ]
      : [];
  host.replaceChildren(
    ...order.map((what) => all[what]),
    otherLabel(row, best),
    ...further,
    el("span", { class: "state", text: isOpen(tab, row) ? "Open" : stateOf(row) }),
  );
}

// ---- deciding ----
// A button decides on the row that it was drawn for, a key on the chosen one.
function act(what, row = chosenRow()) {
  if (row === undefined) return;
  const best = suggested(row);
  if (what !== "change") decide(row, what);
  else if (best !== null) decide(row, "change", best);
  else {
    const other = $("other");
    other.focus();
    if (other.showPicker)
      try {
        other.showPicker();
      } catch (error) {
        /* only right after a click or key */
      }
  }
}

function decide(row, what, label) {
  if (what === "wrong" && data.nClasses === 2)
    // only one is left
    [what, label] = ["change", data.labels.slice(0, 2).find((each) => each !== labelOf(row))];
  if (what === "change" && label === labelOf(row)) what = data.review ? "right" : "keep";
  // to see what the audit says, or where one came back to
  const stays = data.review && (data.blind || decisions[row]);
  record(
    [
      [
        row,
        decisions[row],
        what === "change"
          ? { what: data.review ? "wrong" : what, label, list: tab }
          : { what, list: tab },
      ],
    ],
    tab,
  );
  const next = nextOpen();
  pinned = null;
  const following = next >= 0 && !stays ? shown[next] : row;
  refilter(following);
  reveal();
  drawDetail();
  const shownRows = shown.length;
  say(
    next >= 0
      ? nameOf(row) +
          (data.review
            ? ": " + stateOf(row).toLowerCase()
            : what === "change"
              ? " changed to " + show(label)
              : " " + WORD[what].toLowerCase()) +
          ". " +
          TAKE_BACK
      : (shownRows === 1 ? "The 1 row listed is" : "All " + n(shownRows) + " rows listed are") +
          " decided. Export takes them with you.",
  );
}

// Goes to the row of a step that was taken back or done again, whatever list or filter hides it.
function revisit(step, words) {
  if (!step) {
    say(words === "Undone: " ? "Nothing to undo." : "Nothing to redo.");
    return;
  }
  const row = step.entries[0][0];
  if (tab !== step.list) open(step.list);
  pinned = null;
  refilter(row);
  if (!shown.includes(row)) {
    list().filter = { ...EMPTY_FILTER };
    drawFilters();
    refilter(row);
  }
  reveal();
  drawDetail();
  say(
    words +
      (step.entries.length === 1 ? nameOf(row) : plural(step.entries.length, "decision")) +
      ".",
  );
}
const undo = () => revisit(stepBack(), "Undone: ");
const redo = () => revisit(stepForward(), "Done again: ");

function bulk() {
  const rows = shown.filter((row) => isOpen(tab, row)),
    all = rows.every((row) => suggested(row) !== null);
  if (!rows.length) return;
  const run = (what) => () => {
    dialog.close();
    record(
      rows.map((row) => [
        row,
        decisions[row],
        { what, ...(what === "change" ? { label: suggested(row) } : {}), list: tab, all: true },
      ]),
      tab,
    );
    refilter();
    drawDetail();
    say(plural(rows.length, "row") + " " + WORD[what].toLowerCase() + ". " + TAKE_BACK);
  };
  const main = all ? "change" : "keep",
    each = (verb) => verb + (rows.length === 1 ? " it" : " all " + n(rows.length));
  const option = (what, verb) =>
    (what !== "change" || all) &&
    button(each(verb), run(what), {
      class: what === main ? "solid" : null,
      "data-first": what === main,
    });
  ask(
    "Decide " + plural(rows.length, "row") + " at once",
    el("p", {
      text:
        (isFiltered()
          ? "These are the open rows your filters list. "
          : "These are all open rows of this list. ") +
        (all ? "Change gives each row its own suggestion. " : "") +
        "Rows already decided stay as they are. One undo brings all of it back.",
    }),
    closer("Cancel"),
    option("keep", "Keep"),
    option("delete", "Delete"),
    option("change", "Change"),
  );
}
