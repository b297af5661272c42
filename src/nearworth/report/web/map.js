// ---- the map: near means alike; rings are listed rows ----

const PALETTE = [
  "#4c78c8",
  "#e08a2c",
  "#3a9d6e",
  "#c9504e",
  "#8566b8",
  "#9a6b4f",
  "#d36fa8",
  "#7a828d",
  "#a9a032",
  "#2aa3b5",
];
const MAX_NAMED_CLASSES = 30; // on the map and in its legend
const MAX_NAME_CHARACTERS = 18;
const PLACE_RANGE = 1000; // places in the data are whole numbers from 0 to this
const WHOLE_MAP = { scale: 1, x: 0, y: 0 }; // how the map is zoomed and moved
const MIN_SCALE = 0.8;
const MAX_SCALE = 24;
const HIT_RADIUS_PX = 14; // a pointer hits the nearest point within this distance
const LISTED_BONUS_PX2 = 20; // taken from squared distances, so that listed rows are hit first
const ZOOM_PER_WHEEL_PX = 0.0016; // natural logarithm of the factor
const MIN_DRAG_PX = 4; // a pointer that moves less is a click
const HOVER_SIZE_PX = { width: 216, height: 190 }; // room for what is shown beside a pointer

// A color of the style sheet, which depends on the theme. Only an element in the document has it.
const colorProbe = el("i", { hidden: true });
document.body.append(colorProbe);

function themeColor(token) {
  colorProbe.style.color = "var(--" + token + ")";
  return getComputedStyle(colorProbe).color;
}

// ---- points: rows that are shown, then others of which only place and label are here ----

const points = data.place ? makePoints() : [];
const pointOf = new Map(points.map((point) => [point.row, point])); // by file row
const namedClasses = isNumber || data.review ? [] : largestClasses();
colorPoints();

function makePoints() {
  const rows = [...records.keys()].filter(placeOf);
  const shownPoints = rows.map((row) => {
    const [x, y] = placeOf(row);
    return { x, y, row, label: labelOf(row), isListed: isListed(row) };
  });
  const otherPoints = data.points.map(([x, y, label]) => {
    const text = isNumber ? String(label) : data.labels[label];
    return { x, y, row: null, label: text, isListed: false };
  });
  return [...shownPoints, ...otherPoints];
}

// Classes have colors of their own, as far as they go; numbers have one by their rank.
function colorPoints() {
  if (isNumber) {
    const sorted = points.map((point) => Number(point.label)).sort((a, b) => a - b);
    for (const point of points) point.color = rampColor(rankAmong(sorted, Number(point.label)));
    return;
  }
  const codes = new Map(data.labels.slice(0, data.nClasses).map((label, code) => [label, code]));
  for (const point of points) point.color = classColor(codes.get(point.label));
}

function classColor(code) {
  return PALETTE[code % PALETTE.length];
}

// The color of a share from 0, yellow, to 1, blue.
function rampColor(share) {
  const hue = Math.round(52 + 180 * share);
  const lightness = Math.round(60 - 16 * share);
  return "hsl(" + hue + " 52% " + lightness + "%)";
}

// The share of sorted values that are less than a value, by bisection.
function rankAmong(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low / Math.max(1, sorted.length);
}

// The codes of the classes with the most rows, in the order of the classes.
function largestClasses() {
  const bySize = data.classes
    .map(([nRows], code) => ({ nRows, code }))
    .sort((a, b) => b.nRows - a.nRows);
  const codes = bySize.slice(0, MAX_NAMED_CLASSES).map(({ code }) => code);
  return codes.sort((a, b) => a - b);
}

// ---- painting ----

// A canvas cleared and with a pixel for each pixel of the screen; null while it is not to be seen.
function clearCanvas(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  if (!width) return null;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return { context, width, height };
}

// The function from a point to where it is drawn, [x, y], in a field of this size in the middle of
// the width, `pad` below the top.
function projection({ width, fieldWidth, fieldHeight, pad }, view = WHOLE_MAP) {
  const left = (width - fieldWidth) / 2;
  return ({ x, y }) => [
    (left + (x / PLACE_RANGE) * fieldWidth) * view.scale + view.x,
    (pad + (1 - y / PLACE_RANGE) * fieldHeight) * view.scale + view.y,
  ];
}

function discPath(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7); // a full circle is 2 pi
}

// A small map around one row: all points, lines to its neighbors, and the row as a diamond.
function paintSmallMap(canvas, row) {
  const PAD = 10;
  const RADIUS = 1.7;
  const surface = clearCanvas(canvas);
  if (!surface) return;
  const { context, width, height } = surface;
  const fieldWidth = width - 2 * PAD;
  const fieldHeight = height - 2 * PAD;
  const project = projection({ width, fieldWidth, fieldHeight, pad: PAD });
  context.globalAlpha = 0.4;
  for (const point of points) {
    context.fillStyle = point.color;
    discPath(context, ...project(point), RADIUS);
    context.fill();
  }
  context.globalAlpha = 1;
  for (const neighbor of neighborsOf(row)) {
    paintNeighbor(context, project(pointOf.get(row)), pointOf.get(neighbor.row), project);
  }
  paintDiamond(context, project(pointOf.get(row)));
}

function paintNeighbor(context, start, point, project) {
  const [x, y] = project(point);
  context.strokeStyle = themeColor("ink");
  context.globalAlpha = 0.35;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(...start);
  context.lineTo(x, y);
  context.stroke();
  context.globalAlpha = 1;
  context.fillStyle = point.color;
  context.strokeStyle = themeColor("card");
  discPath(context, x, y, 3.6);
  context.fill();
  context.stroke();
}

function paintDiamond(context, [x, y]) {
  const RADIUS = 8;
  context.strokeStyle = themeColor("card");
  context.fillStyle = themeColor("doubt");
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x, y - RADIUS);
  context.lineTo(x + RADIUS, y);
  context.lineTo(x, y + RADIUS);
  context.lineTo(x - RADIUS, y);
  context.closePath();
  context.fill();
  context.stroke();
}

// The whole map, of which `covered` pixels at the bottom are behind the legend. If a label is
// isolated, points with other labels are faint. Gives the function from a point to where it is
// drawn; null if the map is not to be seen.
function paintLargeMap(canvas, { view, isolated, covered }) {
  const PAD = 40;
  const MAX_ASPECT = 1.5; // a wider field would draw near points far apart
  const surface = clearCanvas(canvas);
  if (!surface) return null;
  const { context, width, height } = surface;
  const fieldHeight = height - covered - 2 * PAD;
  const fieldWidth = Math.min(width - 2 * PAD, fieldHeight * MAX_ASPECT);
  const project = projection({ width, fieldWidth, fieldHeight, pad: PAD }, view);
  const radius = Math.min(7, 2.6 * Math.sqrt(view.scale));
  const ringColor = themeColor("ink");
  for (const point of points) {
    const isFaint = isolated !== null && point.label !== isolated;
    paintPoint(context, point, project(point), { radius, ringColor, isFaint });
  }
  context.globalAlpha = 1;
  if (!isNumber) paintNames(context, project, isolated);
  return project;
}

function paintPoint(context, point, [x, y], { radius, ringColor, isFaint }) {
  context.globalAlpha = pointAlpha(point, isFaint);
  context.fillStyle = point.color;
  discPath(context, x, y, radius);
  context.fill();
  if (!point.isListed || isFaint) return;
  context.strokeStyle = ringColor;
  context.lineWidth = 1.3;
  discPath(context, x, y, radius + 2);
  context.stroke();
}

function pointAlpha(point, isFaint) {
  if (isFaint) return 0.07;
  return point.isListed ? 1 : 0.55;
}

// The name of each class in the middle of its rows. Listed rows are left out of that: their label
// is in doubt.
function paintNames(context, project, isolated) {
  context.font = "700 15px " + getComputedStyle(document.body).fontFamily;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 5;
  context.strokeStyle = themeColor("paper");
  context.fillStyle = themeColor("ink");
  for (const code of namedClasses) {
    const label = data.labels[code];
    const members = points.filter((point) => point.label === label && !point.isListed);
    if (!members.length) continue;
    const places = members.map(project);
    const x = middleValue(places.map((place) => place[0]));
    const y = middleValue(places.map((place) => place[1]));
    const name = shortName(label);
    context.globalAlpha = isolated === null || isolated === label ? 1 : 0.25;
    context.strokeText(name, x, y);
    context.fillText(name, x, y);
  }
  context.globalAlpha = 1;
}

const middleValue = (values) => values.sort((a, b) => a - b)[values.length >> 1];

function shortName(label) {
  const name = labelText(label);
  return name.length > MAX_NAME_CHARACTERS ? name.slice(0, MAX_NAME_CHARACTERS - 1) + "…" : name;
}

// ---- the panel ----

function mapPanel(host) {
  const map = new LargeMap();
  host.append(map.element);
  map.paint();
  host.repaint = () => map.paint();
}

// The map that one can zoom and move, with a legend, and words about the point under the pointer.
class LargeMap {
  constructor() {
    this.view = { ...WHOLE_MAP };
    this.isolated = null; // the only label that is not faint
    this.project = null; // from a point to where it was drawn last
    this.hovered = null;
    this.canvas = el("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": "Map of the rows: near means alike. Plus and minus zoom, arrows move.",
    });
    this.hoverBox = el("div", { class: "hover", hidden: true });
    this.legend = drawLegend((label) => {
      this.isolated = label;
      this.paint();
    });
    this.element = el(
      "div",
      { class: "mapbox" },
      this.canvas,
      this.legend,
      this.makeControls(),
      el("p", { class: "mapnote", text: mapNote() }),
      this.hoverBox,
    );
    this.pointers = new MapPointers(this.canvas, this);
    listenToMapKeys(this.canvas, this);
  }

  makeControls() {
    return el(
      "div",
      { class: "zoom" },
      button("+", () => this.zoom(1.5), { class: "icon", "aria-label": "Zoom in" }),
      button("−", () => this.zoom(1 / 1.5), { class: "icon", "aria-label": "Zoom out" }),
      button("⤢", () => this.reset(), { class: "icon", "aria-label": "Whole map" }),
    );
  }

  paint() {
    const isPhone = window.innerWidth <= PHONE_WIDTH_PX; // the legend lies over the map there
    const { view, isolated } = this;
    const covered = isPhone ? this.legend.offsetHeight : 0;
    this.project = paintLargeMap(this.canvas, { view, isolated, covered });
  }

  // Zooms by a factor; the place (x, y) of the canvas, by default its middle, stays where it is.
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const { view } = this;
    const scale = Math.max(MIN_SCALE, Math.min(MAX_SCALE, view.scale * factor));
    const ratio = scale / view.scale;
    this.view = { scale, x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio };
    this.paint();
  }

  shift(x, y) {
    this.view.x += x;
    this.view.y += y;
    this.paint();
  }

  reset() {
    this.view = { ...WHOLE_MAP };
    this.paint();
  }

  // The point under a pointer, or null.
  pointAt(x, y) {
    let nearest = null;
    let minDistance = HIT_RADIUS_PX ** 2;
    for (const point of points) {
      if (this.isolated !== null && point.label !== this.isolated) continue;
      const [pointX, pointY] = this.project(point);
      const bonus = point.isListed ? LISTED_BONUS_PX2 : 0;
      const distance = (pointX - x) ** 2 + (pointY - y) ** 2 - bonus;
      if (distance < minDistance) {
        minDistance = distance;
        nearest = point;
      }
    }
    return nearest;
  }

  // Opens a listed row; shows what another point is.
  pick(x, y) {
    const point = this.pointAt(x, y);
    if (point && point.isListed) goTo(point.row);
    else this.describe(point);
  }

  hover(x, y) {
    const point = this.pointAt(x, y);
    if (point === this.hovered) return;
    this.hovered = point;
    this.describe(point);
  }

  leave() {
    this.hovered = null;
    this.describe(null);
  }

  // Shows words about a point beside it, or nothing.
  describe(point) {
    this.hoverBox.hidden = point === null;
    if (point === null) return;
    this.hoverBox.replaceChildren();
    put(this.hoverBox, pointDescription(point));
    const [x, y] = this.project(point);
    const maxLeft = this.canvas.clientWidth - HOVER_SIZE_PX.width;
    const maxTop = this.canvas.clientHeight - HOVER_SIZE_PX.height;
    this.hoverBox.style.left = Math.min(x + 16, maxLeft) + "px";
    this.hoverBox.style.top = Math.max(8, Math.min(y + 16, maxTop)) + "px";
  }
}

function pointDescription({ row, label, isListed }) {
  const suggestion = isListed ? suggestionOf(row) : null;
  const looks = isNumber ? "Typical: " : "Looks like ";
  return [
    row !== null && kind !== "bare" && excerpt(row),
    el(
      "span",
      {},
      row !== null && el("b", { text: nameOf(row) + " " }),
      isNumber ? data.target + " " : "labelled ",
      el("b", { text: labelText(label) }),
    ),
    suggestion !== null &&
      el("span", { class: "new", text: looks + labelText(suggestion) + ". Click to review." }),
  ];
}

function mapNote() {
  const note = "Near means alike. Rings are listed rows: click one to review it.";
  const isPart = points.length < data.nRows;
  const part = " " + n(points.length) + " of " + labelledRows + " are drawn.";
  const unlabelled = " Rows without a " + noun + " are not drawn.";
  return note + (isPart ? part : "") + (nUnlabelled ? unlabelled : "");
}

// Wheel, drag and two fingers move and zoom a map; a click picks a point.
class MapPointers {
  constructor(canvas, map) {
    this.canvas = canvas;
    this.map = map;
    this.places = new Map(); // where each pointer that is down was last
    this.dragStart = null;
    this.isDragged = false;
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onLift(event));
    canvas.addEventListener("pointercancel", (event) => this.onLift(event));
    canvas.addEventListener("pointerleave", () => map.leave());
  }

  onWheel(event) {
    event.preventDefault();
    const factor = Math.exp(-event.deltaY * ZOOM_PER_WHEEL_PX);
    this.map.zoom(factor, event.offsetX, event.offsetY);
  }

  onDown(event) {
    const place = { x: event.offsetX, y: event.offsetY };
    this.places.set(event.pointerId, place);
    if (this.places.size === 1) {
      this.isDragged = false;
      this.dragStart = place;
    }
    this.canvas.setPointerCapture(event.pointerId);
  }

  onMove(event) {
    const before = this.places.get(event.pointerId);
    if (!before) {
      this.map.hover(event.offsetX, event.offsetY);
      return;
    }
    const now = { x: event.offsetX, y: event.offsetY };
    const moved = Math.hypot(now.x - this.dragStart.x, now.y - this.dragStart.y);
    if (moved > MIN_DRAG_PX) this.isDragged = true;
    if (this.places.size === 2) {
      this.pinch(event.pointerId, now);
      return;
    }
    this.places.set(event.pointerId, now);
    if (!this.isDragged) return;
    this.map.leave();
    this.map.shift(now.x - before.x, now.y - before.y);
  }

  // Zooms by how much two fingers went apart, around the middle between them.
  pinch(pointerId, now) {
    const gapBefore = this.gap();
    this.places.set(pointerId, now);
    const [a, b] = [...this.places.values()];
    const factor = this.gap() / Math.max(1, gapBefore);
    this.map.zoom(factor, (a.x + b.x) / 2, (a.y + b.y) / 2);
  }

  gap() {
    const [a, b] = [...this.places.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  }

  onLift(event) {
    const wasDown = this.places.delete(event.pointerId);
    const isLast = wasDown && !this.places.size;
    const isClick = isLast && !this.isDragged && event.type === "pointerup";
    if (isClick) this.map.pick(event.offsetX, event.offsetY);
  }
}

function listenToMapKeys(canvas, map) {
  const STEP_PX = 40;
  const ZOOM_FACTOR = 1.4;
  const actions = {
    ArrowLeft: () => map.shift(STEP_PX, 0),
    ArrowRight: () => map.shift(-STEP_PX, 0),
    ArrowUp: () => map.shift(0, STEP_PX),
    ArrowDown: () => map.shift(0, -STEP_PX),
    "+": () => map.zoom(ZOOM_FACTOR),
    "-": () => map.zoom(1 / ZOOM_FACTOR),
    0: () => map.reset(),
  };
  canvas.addEventListener("keydown", (event) => {
    const action = actions[event.key];
    if (!action) return;
    action();
    event.preventDefault();
    event.stopPropagation(); // the same keys move in the list
  });
}

// ---- the legend ----

// Colors and what they mean. `isolate` is called with the label of a class that is chosen, and with
// null when it is left again.
function drawLegend(isolate) {
  const label = isNumber ? "Colours" : "Classes";
  const legend = el("div", { class: "legend", role: "group", "aria-label": label });
  if (isNumber) return put(legend, rampLegend());
  for (const code of namedClasses) legend.append(classButton(code, legend, isolate));
  const nMore = data.nClasses - namedClasses.length;
  if (nMore > 0) legend.append(el("span", { class: "n", text: "and " + n(nMore) + " more" }));
  return legend;
}

function rampLegend() {
  const N_STEPS = 26;
  const STEP_PX = 5;
  const steps = [...Array(N_STEPS).keys()].map((step) =>
    svg("rect", {
      x: step * STEP_PX,
      width: STEP_PX,
      height: 12,
      fill: rampColor(step / (N_STEPS - 1)),
    }),
  );
  return [
    el("span", { text: "Low " }),
    svg("svg", { width: N_STEPS * STEP_PX, height: 12, "aria-hidden": "true" }, steps),
    el("span", { text: " High " + data.target }),
  ];
}

function classButton(code, legend, isolate) {
  const toggle = () => {
    const isOn = node.getAttribute("aria-pressed") !== "true";
    for (const other of legend.querySelectorAll("button")) {
      other.setAttribute("aria-pressed", String(isOn && other === node));
    }
    isolate(isOn ? data.labels[code] : null);
  };
  const dot = svg("circle", { cx: 5, cy: 5, r: 5, fill: classColor(code) });
  const node = el(
    "button",
    { type: "button", "aria-pressed": "false", onclick: toggle },
    svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, dot),
    el("span", { class: "name", text: labelText(data.labels[code]) }),
    el("span", { class: "n", text: n(data.classes[code][0]) }),
  );
  return node;
}
