// ---- tabs, keys and the start ----

const PANELS = { map: mapPanel, classes: classesPanel, about: aboutPanel };

// Shows the list or the chosen row: on a phone they are two screens.
function showView(name) {
  document.body.dataset.view = name;
  if (lists[tab]) drawList();
}

function drawTabs() {
  if (data.review) return;
  const listTabs = [["labels", lists.labels.name], ...findings];
  if (lists.unlabelled) listTabs.push(["unlabelled", lists.unlabelled.name]);
  if (sampling) listTabs.push(["sample", "Sample"]);
  const panelTabs = [
    ["classes", isNumber ? "Distribution" : "Classes"],
    ["about", "About"],
  ];
  if (data.place) panelTabs.unshift(["map", "Map"]);
  const gap = el("span", { class: "gap" });
  $("tabs").replaceChildren(...listTabs.map(tabButton), gap, ...panelTabs.map(tabButton));
}

function tabButton([id, name]) {
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
      onclick: () => openTab(id),
    },
    name + " ",
    lists[id] && el("span", { class: "n", "data-open": id }),
  );
}

// Shows a list or a panel by its id.
function openTab(id) {
  tab = id;
  pinnedRow = null;
  document.body.dataset.tab = id;
  document.body.dataset.view = data.review ? "review" : "list";
  selectTab(id);

  const panel = $("panel");
  const isList = Boolean(lists[id]);
  $("work").hidden = !isList;
  panel.hidden = isList;
  panel.repaint = null;
  panel.className = "panel" + (id === "map" ? " full" : "");
  panel.replaceChildren();
  const labelled = isList ? $("work") : panel;
  if (!data.review) labelled.setAttribute("aria-labelledby", "tab-" + id);
  if (isList) openList();
  else PANELS[id](panel);
}

// Marks the tab that is shown, and scrolls to it.
function selectTab(id) {
  for (const node of $("tabs").querySelectorAll("[role=tab]")) {
    const isSelected = node.dataset.tab === id;
    node.setAttribute("aria-selected", String(isSelected));
    node.tabIndex = isSelected ? 0 : -1;
    if (isSelected) node.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

// Draws the list at the row where the reader left it.
function openList() {
  $("list").scrollTop = 0;
  drawFilters();
  const { row, rows } = currentList();
  shown = [];
  refilter(row === undefined ? rows[0] : row);
  reveal();
  drawDetail();
}

// Shows a listed row, whatever hides it.
function goTo(row) {
  openTab("labels");
  currentList().filter = { ...EMPTY_FILTER };
  drawFilters();
  refilter(row);
  reveal();
  showView("detail");
  drawDetail();
}

function startSample() {
  sampling = true;
  remember();
  drawTabs();
  openTab("sample");
}

function switchLayout() {
  if (!hasImages) return;
  layout = layout === "grid" ? "list" : "grid";
  drawList(true);
  drawCount();
  reveal();
}

// Draws again after sizes or colors changed. The row stays as it is: on a phone the keyboard
// changes the size while one types in it.
function redraw() {
  if (lists[tab]) drawList(true);
  for (const host of [$("scrolls"), $("panel")]) if (host.repaint) host.repaint();
}

function switchTheme() {
  const root = document.documentElement;
  const isSystemDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : isSystemDark;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("nearworth:theme", root.dataset.theme);
  } catch (error) {
    // This browser stores nothing: the theme holds until the page is closed.
  }
  redraw();
}

// ---- keys ----

const KEYS_EVERYWHERE = {
  u: (event) => (event.shiftKey ? redo() : undo()),
  e: exportDialog,
  "?": help,
};
const KEYS_IN_ALL_LISTS = {
  c: () => act("change"),
  s: () => act("skip"),
  j: (event) => move(event.shiftKey ? -1 : 1),
  ArrowDown: () => move(geometry().columns),
  ArrowUp: () => move(-geometry().columns),
  ArrowRight: () => move(1),
  ArrowLeft: () => move(-1),
  n: () => $("note") && $("note").focus(),
  o: () => $("other") && $("other").focus(),
};
const KEYS_IN_REVIEWS = {
  r: () => act("right"),
  k: () => act("right"),
  w: () => act("wrong"),
};
const KEYS_IN_REPORTS = {
  k: () => act("keep"),
  r: () => tab === "sample" && act("keep"),
  w: () => tab === "sample" && act("wrong"),
  d: () => act("delete"),
  "/": () => $("search").focus(),
  g: switchLayout,
  Escape: () => showView("list"),
};
const KEYS_IN_LISTS = {
  ...KEYS_IN_ALL_LISTS,
  ...(data.review ? KEYS_IN_REVIEWS : KEYS_IN_REPORTS),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const field = event.target.closest("input, textarea, select");
  if (field) {
    if (event.key === "Escape") leaveField(field);
    return;
  }
  const isCharacter = event.key.length === 1;
  const key = isCharacter ? event.key.toLowerCase() : event.key;
  // Arrows move among tabs and scroll tables where one of them has the focus.
  if (key.startsWith("Arrow") && event.target.closest("[role=tablist], .scrollx")) return;
  if (isCharacter && !keysOn) return;
  const run = KEYS_EVERYWHERE[key] || (lists[tab] && KEYS_IN_LISTS[key]);
  if (!run) return;
  event.preventDefault();
  run(event);
}

function leaveField(field) {
  field.blur();
  $("list").focus({ preventScroll: true });
}

// Arrows go from tab to tab, around the ends.
function onTabKey(event) {
  if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
  const tabs = [...$("tabs").querySelectorAll("[role=tab]")];
  const by = event.key === "ArrowRight" ? 1 : tabs.length - 1;
  const next = tabs[(tabs.indexOf(document.activeElement) + by) % tabs.length];
  event.preventDefault();
  event.stopPropagation();
  next.click();
  next.focus();
}

// ---- listening ----

const RESIZE_MILLISECONDS = 80; // while a window is dragged to another size it is drawn once

function listen() {
  const buttonActions = {
    export: exportDialog,
    help,
    undo,
    bulk,
    layout: switchLayout,
    sample: startSample,
    theme: switchTheme,
  };
  for (const [id, action] of Object.entries(buttonActions)) {
    $(id).addEventListener("click", action);
  }
  listenToList();
  $("tabs").addEventListener("keydown", onTabKey);
  document.addEventListener("keydown", onKey);
  listenToSize();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", fillPaper);
}

function listenToList() {
  const host = $("list");
  let frame = 0; // of the drawing that is due; a list is drawn at most once in a frame
  const drawInFrame = () => {
    frame = 0;
    // Another tab, which need not have a list, may have been opened since.
    if (lists[tab]) drawList();
  };
  const onScroll = () => {
    if (!frame) frame = requestAnimationFrame(drawInFrame);
  };
  host.addEventListener("scroll", onScroll, { passive: true });
  host.addEventListener("click", (event) => {
    const item = event.target.closest("[data-i]");
    if (!item) return;
    document.body.dataset.view = "detail";
    choose(Number(item.dataset.i));
  });
}

function listenToSize() {
  let timer;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(redraw, RESIZE_MILLISECONDS);
  });
}

// ---- the start ----

// The names that the field for another label completes.
function addLabelNames() {
  const names = data.labels.slice(0, data.nClasses).map((label) => el("option", { value: label }));
  document.body.append(el("datalist", { id: "all-labels" }, names));
}

function start() {
  document.documentElement.classList.add("live", kind);
  if (data.nClasses > MAX_LISTED_CLASSES) addLabelNames();
  recall();
  listen();
  drawTabs();
  if (data.review) currentList().row = data.row.find((row) => isOpen(tab, row));
  openTab(tab);
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
