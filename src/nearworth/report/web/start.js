// ---- tabs, keys and the start ----
const PANELS = { map: mapPanel, classes: classesPanel, about: aboutPanel };
const view = (name) => {
  document.body.dataset.view = name;
  if (lists[tab]) drawList();
};

function drawTabs() {
  if (data.review) return;
  const names = [
    ["labels", lists.labels.name],
    ...found,
    lists.unlabelled && ["unlabelled", lists.unlabelled.name],
    sampling && ["sample", "Sample"],
    null,
    data.place && ["map", "Map"],
    ["classes", isNumber ? "Distribution" : "Classes"],
    ["about", "About"],
  ];
  $("tabs").replaceChildren(
    ...names
      .filter((each) => each !== false && each !== undefined)
      .map((each) => {
        if (each === null) return el("span", { class: "gap" });
        const [id, name] = each;
        return el(
          "button",
          {
            type: "button",
            role: "tab",
            "data-tab": id,
            id: "tab-" + id,
            "aria-selected": String(id === tab),
            tabindex: id === tab ? "0" : "-1",
            "aria-controls": lists[id] ? "work" : "panel",
            onclick: () => open(id),
          },
          name + " ",
          lists[id] && el("span", { class: "n", "data-open": id }),
        );
      }),
  );
}

function open(id) {
  tab = id;
  pinned = null;
  document.body.dataset.tab = id;
  for (const each of $("tabs").querySelectorAll("[role=tab]")) {
    each.setAttribute("aria-selected", String(each.dataset.tab === id));
    each.tabIndex = each.dataset.tab === id ? 0 : -1;
    if (each.dataset.tab === id) each.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  const panel = $("panel"),
    work = Boolean(lists[id]);
  $("work").hidden = !work;
  panel.hidden = work;
  panel.repaint = null;
  panel.className = "panel" + (id === "map" ? " full" : "");
  panel.replaceChildren();
  if (!data.review) (work ? $("work") : panel).setAttribute("aria-labelledby", "tab-" + id);
  document.body.dataset.view = data.review ? "review" : "list";
  if (!work) {
    PANELS[id](panel);
    return;
  }
  $("list").scrollTop = 0;
  drawFilters();
  const at = list().row;
  shown = [];
  refilter(at === undefined ? list().rows[0] : at);
  reveal();
  drawDetail();
}

// Shows a listed row, whatever hides it.
function goTo(row) {
  open("labels");
  list().filter = { ...EMPTY_FILTER };
  drawFilters();
  refilter(row);
  reveal();
  view("detail");
  drawDetail();
}

// Sizes or colours changed. The row stays as it is: on a phone the keyboard changes the size while
// one types in it.
function redraw() {
  if (lists[tab]) drawList(true);
  for (const host of [$("scrolls"), $("panel")]) if (host.repaint) host.repaint();
}

function switchTheme() {
  const root = document.documentElement,
    dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("nearworth:theme", root.dataset.theme);
  } catch (error) {
    /* not kept */
  }
  redraw();
}

function startSample() {
  sampling = true;
  remember();
  drawTabs();
  open("sample");
}

const ALWAYS = { u: (event) => (event.shiftKey ? redo() : undo()), e: exporting, "?": help };
const IN_LISTS = {
  c: () => act("change"),
  s: () => act("skip"),
  j: (event) => move(event.shiftKey ? -1 : 1),
  ArrowDown: () => move(geometry().columns),
  ArrowUp: () => move(-geometry().columns),
  ArrowRight: () => move(1),
  ArrowLeft: () => move(-1),
  n: () => $("note") && $("note").focus(),
  o: () => $("other") && $("other").focus(),
  ...(data.review
    ? { r: () => act("right"), k: () => act("right"), w: () => act("wrong") }
    : {
        k: () => act("keep"),
        r: () => tab === "sample" && act("keep"),
        w: () => tab === "sample" && act("wrong"),
        d: () => act("delete"),
        "/": () => $("search").focus(),
        g: () => switchLayout(),
        Escape: () => view("list"),
      }),
};

function switchLayout() {
  if (!hasImages) return;
  layout = layout === "grid" ? "list" : "grid";
  drawList(true);
  drawCount();
  reveal();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const field = event.target.closest("input, textarea, select");
  if (field) {
    if (event.key === "Escape") {
      field.blur();
      $("list").focus({ preventScroll: true });
    }
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key.startsWith("Arrow") && event.target.closest("[role=tablist], .scrollx")) return;
  if (!keysOn && key.length === 1) return;
  const run = ALWAYS[key] || (lists[tab] && IN_LISTS[key]);
  if (run) {
    event.preventDefault();
    run(event);
  }
}

function onTabKey(event) {
  if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
  const all = [...$("tabs").querySelectorAll("[role=tab]")],
    by = event.key === "ArrowRight" ? 1 : all.length - 1;
  const next = all[(all.indexOf(document.activeElement) + by) % all.length];
  event.preventDefault();
  event.stopPropagation();
  next.click();
  next.focus();
}

function listen() {
  for (const [id, action] of Object.entries({
    export: exporting,
    help,
    undo,
    bulk,
    layout: switchLayout,
    sample: startSample,
    theme: switchTheme,
  }))
    $(id).addEventListener("click", action);
  let frame = 0,
    resizing;
  $("list").addEventListener(
    "scroll",
    () => {
      if (!frame)
        frame = requestAnimationFrame(() => {
          frame = 0;
          // Another tab, which need not have a list, may have been opened since.
          if (lists[tab]) drawList();
        });
    },
    { passive: true },
  );
  $("list").addEventListener("click", (event) => {
    const hit = event.target.closest("[data-i]");
    if (hit) {
      document.body.dataset.view = "detail";
      choose(Number(hit.dataset.i));
    }
  });
  $("tabs").addEventListener("keydown", onTabKey);
  document.addEventListener("keydown", onKey);
  window.addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(redraw, 80);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", fillPaper);
}

document.documentElement.classList.add("live", kind);
if (data.nClasses > 30)
  document.body.append(
    el(
      "datalist",
      { id: "all-labels" },
      data.labels.slice(0, data.nClasses).map((label) => el("option", { value: label })),
    ),
  );
recall();
listen();
drawTabs();
if (data.review) list().row = data.row.find((row) => isOpen(tab, row));
open(tab);
document.documentElement.dataset.ready = Math.round(performance.now());
