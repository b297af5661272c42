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
const MOST_NAMES = 30;
const probe = el("i", { hidden: true });
document.body.append(probe);
const colour = (token) => {
  probe.style.color = "var(--" + token + ")";
  return getComputedStyle(probe).color;
};

// All points: rows that are shown, then others of which only place and label are here.
const points = !data.place
  ? []
  : [
      ...[...records.keys()].filter(placeOf).map((row) => ({
        x: placeOf(row)[0],
        y: placeOf(row)[1],
        row,
        label: labelOf(row),
        listed: isListed(row),
      })),
      ...data.points.map(([x, y, label]) => ({
        x,
        y,
        row: null,
        label: isNumber ? String(label) : data.labels[label],
        listed: false,
      })),
    ];
const pointOf = new Map(points.map((point) => [point.row, point])); // by file row
const codes = new Map(data.labels.slice(0, data.nClasses).map((label, c) => [label, c]));
const ramp = (share) =>
  "hsl(" + Math.round(52 + 180 * share) + " 52% " + Math.round(60 - 16 * share) + "%)";
const ranked = isNumber ? points.map((point) => Number(point.label)).sort((a, b) => a - b) : [];
function rank(value) {
  let low = 0,
    high = ranked.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranked[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low / Math.max(1, ranked.length);
}
for (const point of points)
  point.colour = isNumber
    ? ramp(rank(Number(point.label)))
    : PALETTE[codes.get(point.label) % PALETTE.length];
const commonest =
  isNumber || data.review
    ? []
    : data.classes
        .map(([rows], c) => [rows, c])
        .sort((a, b) => b[0] - a[0])
        .slice(0, MOST_NAMES)
        .map(([, c]) => c)
        .sort((a, b) => a - b);

function disc(context, x, y, size) {
  context.beginPath();
  context.arc(x, y, size, 0, 7);
}

// Draws all points, or with `focus` a small map around one row; gives the function from a point to
// where it is drawn.
function paintMap(canvas, { focus, view: moved = { k: 1, x: 0, y: 0 }, only = null, covered = 0 }) {
  const box = canvas.getBoundingClientRect(),
    small = focus !== undefined;
  if (!box.width) return null;
  const ratio = window.devicePixelRatio || 1,
    W = box.width,
    H = box.height - covered,
    pad = small ? 10 : 40;
  canvas.width = W * ratio;
  canvas.height = box.height * ratio;
  const context = canvas.getContext("2d"),
    wide = small ? W - 2 * pad : Math.min(W - 2 * pad, (H - 2 * pad) * 1.5);
  context.scale(ratio, ratio);
  const at = ({ x, y }) => [
    ((W - wide) / 2 + (x / 1000) * wide) * moved.k + moved.x,
    (pad + (1 - y / 1000) * (H - 2 * pad)) * moved.k + moved.y,
  ];
  const size = small ? 1.7 : Math.min(7, 2.6 * Math.sqrt(moved.k)),
    ink = colour("ink");
  for (const point of points) {
    const [x, y] = at(point),
      dim = only !== null && point.label !== only;
    context.globalAlpha = small ? 0.4 : dim ? 0.07 : point.listed ? 1 : 0.55;
    context.fillStyle = point.colour;
    disc(context, x, y, size);
    context.fill();
    if (!small && point.listed && !dim) {
      context.strokeStyle = ink;
      context.lineWidth = 1.3;
      disc(context, x, y, size + 2);
      context.stroke();
    }
  }
  context.globalAlpha = 1;
  if (small) paintFocus(context, at, focus);
  else if (!isNumber) paintNames(context, at, only);
  return at;
}

function paintFocus(context, at, row) {
  const own = at(pointOf.get(row)),
    card = colour("card");
  for (const each of nearOf(row)) {
    const point = pointOf.get(each.row),
      [x, y] = at(point);
    context.strokeStyle = colour("ink");
    context.globalAlpha = 0.35;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(...own);
    context.lineTo(x, y);
    context.stroke();
    context.globalAlpha = 1;
    context.fillStyle = point.colour;
    context.strokeStyle = card;
    disc(context, x, y, 3.6);
    context.fill();
    context.stroke();
  }
  const [x, y] = own;
  context.fillStyle = colour("doubt");
  context.strokeStyle = card;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x, y - 8);
  context.lineTo(x + 8, y);
  context.lineTo(x, y + 8);
  context.lineTo(x - 8, y);
  context.closePath();
  context.fill();
  context.stroke();
}

function paintNames(context, at, only) {
  context.font = "700 15px " + getComputedStyle(document.body).fontFamily;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 5;
  context.strokeStyle = colour("paper");
  context.fillStyle = colour("ink");
  for (const c of commonest) {
    const label = data.labels[c],
      own = points.filter((point) => point.label === label && !point.listed).map(at);
    if (!own.length) continue;
    const [x, y] = [0, 1].map(
      (axis) => own.map((place) => place[axis]).sort((a, b) => a - b)[own.length >> 1],
    );
    const name = show(label).length > 18 ? show(label).slice(0, 17) + "…" : show(label);
    context.globalAlpha = only === null || only === label ? 1 : 0.25;
    context.strokeText(name, x, y);
    context.fillText(name, x, y);
  }
  context.globalAlpha = 1;
}

function mapPanel(host) {
  let moved = { k: 1, x: 0, y: 0 },
    only = null,
    at = null,
    over = null;
  const canvas = el("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": "Map of the rows: near means alike. Plus and minus zoom, arrows move.",
    }),
    hover = el("div", { class: "hover", hidden: true });
  const names = legend((label) => {
    only = label;
    paint();
  });
  const paint = () => {
    at = paintMap(canvas, {
      view: moved,
      only,
      covered: window.innerWidth <= 760 ? names.offsetHeight : 0,
    });
  };
  const zoom = (factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) => {
    const k = Math.max(0.8, Math.min(24, moved.k * factor)),
      by = k / moved.k;
    moved = { k, x: x - (x - moved.x) * by, y: y - (y - moved.y) * by };
    paint();
  };
  const reset = () => {
    moved = { k: 1, x: 0, y: 0 };
    paint();
  };
  const shift = (x, y) => {
    moved.x += x;
    moved.y += y;
    paint();
  };
  const nearest = (x, y) => {
    let best = null,
      far = 196;
    for (const point of points) {
      if (only !== null && point.label !== only) continue;
      const [a, b] = at(point),
        distance = (a - x) ** 2 + (b - y) ** 2 - (point.listed ? 20 : 0);
      if (distance < far) {
        far = distance;
        best = point;
      }
    }
    return best;
  };
  const tell = (point) => {
    hover.hidden = point === null;
    if (point === null) return;
    const [x, y] = at(point),
      best = point.listed ? suggestionOf(point.row) : null;
    hover.replaceChildren(
      ...[
        point.row !== null && kind !== "bare" && excerpt(point.row),
        el(
          "span",
          {},
          point.row !== null && el("b", { text: nameOf(point.row) + " " }),
          isNumber ? data.target + " " : "labelled ",
          el("b", { text: show(point.label) }),
        ),
        best !== null &&
          el("span", {
            class: "new",
            text: (isNumber ? "Typical: " : "Looks like ") + show(best) + ". Click to review.",
          }),
      ].filter(Boolean),
    );
    hover.style.left = Math.min(x + 16, canvas.clientWidth - 216) + "px";
    hover.style.top = Math.max(8, Math.min(y + 16, canvas.clientHeight - 190)) + "px";
  };
  const pick = (point) => {
    if (point && point.listed) goTo(point.row);
    else tell(point);
  };
  moving(canvas, {
    zoom,
    shift,
    reset,
    pick: (x, y) => pick(nearest(x, y)),
    hover: (x, y) => {
      const point = nearest(x, y);
      if (point !== over) {
        over = point;
        tell(point);
      }
    },
    leave: () => {
      over = null;
      tell(null);
    },
  });
  const controls = el(
    "div",
    { class: "zoom" },
    button("+", () => zoom(1.5), { class: "icon", "aria-label": "Zoom in" }),
    button("−", () => zoom(1 / 1.5), { class: "icon", "aria-label": "Zoom out" }),
    button("⤢", reset, { class: "icon", "aria-label": "Whole map" }),
  );
  host.append(
    el(
      "div",
      { class: "mapbox" },
      canvas,
      names,
      controls,
      el("p", {
        class: "mapnote",
        text:
          "Near means alike. Rings are listed rows: click one to review it." +
          (points.length < data.nRows
            ? " " + n(points.length) + " of " + labelledRows + " are drawn."
            : "") +
          (nUnlabelled ? " Rows without a " + noun + " are not drawn." : ""),
      }),
      hover,
    ),
  );
  paint();
  host.repaint = paint;
}

// Wheel, drag, two fingers and keys.
function moving(canvas, to) {
  const fingers = new Map();
  let dragged = false,
    start = null;
  const gap = () => {
    const [a, b] = [...fingers.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      to.zoom(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY);
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (fingers.size === 1) {
      dragged = false;
      start = { x: event.offsetX, y: event.offsetY };
    }
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) {
      to.hover(event.offsetX, event.offsetY);
      return;
    }
    const apart = fingers.size === 2 ? gap() : 0,
      now = { x: event.offsetX, y: event.offsetY };
    fingers.set(event.pointerId, now);
    if (Math.hypot(now.x - start.x, now.y - start.y) > 4) dragged = true;
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      to.zoom(gap() / Math.max(1, apart), (a.x + b.x) / 2, (a.y + b.y) / 2);
    } else if (dragged) {
      to.leave();
      to.shift(now.x - before.x, now.y - before.y);
    }
  });
  const lift = (event) => {
    if (fingers.delete(event.pointerId) && !fingers.size && !dragged && event.type === "pointerup")
      to.pick(event.offsetX, event.offsetY);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => to.leave());
  canvas.addEventListener("keydown", (event) => {
    const step = {
      ArrowLeft: [40, 0],
      ArrowRight: [-40, 0],
      ArrowUp: [0, 40],
      ArrowDown: [0, -40],
    }[event.key];
    if (step) to.shift(...step);
    else if (event.key === "+") to.zoom(1.4);
    else if (event.key === "-") to.zoom(1 / 1.4);
    else if (event.key === "0") to.reset();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function legend(isolate) {
  const host = el("div", {
    class: "legend",
    role: "group",
    "aria-label": isNumber ? "Colours" : "Classes",
  });
  if (isNumber) {
    return put(host, [
      el("span", { text: "Low " }),
      svg(
        "svg",
        { width: 130, height: 12, "aria-hidden": "true" },
        [...Array(26).keys()].map((i) =>
          svg("rect", { x: i * 5, width: 5, height: 12, fill: ramp(i / 25) }),
        ),
      ),
      el("span", { text: " High " + data.target }),
    ]);
  }
  for (const c of commonest) {
    const one = el(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        onclick: () => {
          const on = one.getAttribute("aria-pressed") !== "true";
          for (const each of host.querySelectorAll("button"))
            each.setAttribute("aria-pressed", String(on && each === one));
          isolate(on ? data.labels[c] : null);
        },
      },
      svg(
        "svg",
        { width: 10, height: 10, "aria-hidden": "true" },
        svg("circle", { cx: 5, cy: 5, r: 5, fill: PALETTE[c % PALETTE.length] }),
      ),
      el("span", { class: "name", text: show(data.labels[c]) }),
      el("span", { class: "n", text: n(data.classes[c][0]) }),
    );
    host.append(one);
  }
  if (data.nClasses > commonest.length)
    host.append(
      el("span", { class: "n", text: "and " + n(data.nClasses - commonest.length) + " more" }),
    );
  return host;
}
