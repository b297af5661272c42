// ---- small charts: plain SVG, two words at the ends of the axis, square-root height so that few
// are seen ----
function histogram(counts, at, cut, low, high) {
  const W = 240,
    H = 64,
    width = W / counts.length,
    top = Math.sqrt(Math.max(...counts, 1));
  return svg(
    "svg",
    {
      viewBox: "0 0 240 92",
      width: "100%",
      role: "img",
      "aria-label": "Distribution over all rows; the line marks this row",
    },
    counts.map((count, i) => {
      const height = (H * Math.sqrt(count)) / top;
      return svg("rect", {
        x: i * width + 0.75,
        y: 8 + H - height,
        width: width - 1.5,
        height: Math.max(height, count ? 1 : 0),
        rx: 1.5,
        class: (i + 0.5) / counts.length > cut ? "bar1" : "bar0",
      });
    }),
    svg("line", { x1: 0, x2: W, y1: 72.5, y2: 72.5, class: "ax" }),
    at !== null &&
      svg("line", { x1: 1 + at * (W - 2), x2: 1 + at * (W - 2), y1: 2, y2: 73, class: "mk" }),
    svg("text", { x: 0, y: 87, text: low }),
    svg("text", { x: W, y: 87, "text-anchor": "end", text: high }),
  );
}

// Targets of the neighbours as dots, the likely range as a band, the given one as a diamond, the
// typical one as a line.
function strip(row) {
  const near = nearOf(row).map((each) => Number(labelOf(each.row))),
    given = Number(labelOf(row)),
    typical = Number(typicalOf(row));
  const [low, high] = rangeOf(row),
    all = [...near, given, typical, low, high];
  const least = Math.min(...all),
    most = Math.max(...all),
    logs = least > 0 && most > 4 * least;
  const scale = logs ? Math.log : (value) => value,
    room = (scale(most) - scale(least)) * 0.04 || 1;
  const W = window.innerWidth < 760 ? 350 : 640,
    from = scale(least) - room,
    to = scale(most) + room;
  const x = (value) => 12 + ((W - 24) * (scale(value) - from)) / (to - from);
  const anchor = (value) => (x(value) < 60 ? "start" : x(value) > W - 60 ? "end" : "middle");
  return svg(
    "svg",
    {
      viewBox: "0 0 " + W + " 84",
      width: "100%",
      role: "img",
      "aria-label":
        "Targets of the nearest rows" +
        (logs ? ", log scale" : "") +
        ": given " +
        number(given) +
        ", typical " +
        number(typical),
    },
    svg("rect", {
      x: x(low),
      width: Math.max(2, x(high) - x(low)),
      y: 30,
      height: 26,
      rx: 6,
      class: "band",
    }),
    svg("line", { x1: 0, x2: W, y1: 43, y2: 43, class: "ax" }),
    near.map((value) => svg("circle", { cx: x(value), cy: 43, r: 5, class: "dotn" })),
    svg("line", { x1: x(typical), x2: x(typical), y1: 26, y2: 60, class: "accs" }),
    svg("path", {
      d: "M0-8 8 0 0 8-8 0z",
      transform: "translate(" + x(given) + " 43)",
      class: "dbt",
    }),
    svg("text", {
      x: x(given),
      y: 20,
      "text-anchor": anchor(given),
      class: "dbt",
      text: "given " + brief(given),
    }),
    svg("text", {
      x: x(typical),
      y: 78,
      "text-anchor": anchor(typical),
      class: "acc",
      text: "typical " + brief(typical),
    }),
  );
}

function rangeChart(low, high, said) {
  const W = 230,
    most = Math.max(high * 1.35, 10),
    x = (value) => 6 + ((W - 12) * value) / most;
  return svg(
    "svg",
    {
      width: W,
      height: 52,
      role: "img",
      "aria-label": "Between " + n(low) + " and " + n(high) + ", " + said,
    },
    svg("line", { x1: 6, x2: W - 6, y1: 22, y2: 22, class: "ax", "stroke-width": 2 }),
    svg("rect", {
      x: x(low),
      width: Math.max(4, x(high) - x(low)),
      y: 14,
      height: 16,
      rx: 8,
      class: "span1",
    }),
    low > 0 &&
      svg("text", {
        x: Math.max(x(low) + 8, 40),
        y: 9,
        "text-anchor": "end",
        class: "strong",
        text: n(low),
      }),
    svg("text", { x: Math.min(x(high) - 8, W - 40), y: 9, class: "strong", text: n(high) }),
    svg("text", { x: 6, y: 47, text: "0" }),
    svg("text", { x: W / 2, y: 47, "text-anchor": "middle", text: said }),
  );
}

const shareBar = (share, width, kind) =>
  svg(
    "svg",
    { width, height: 10, "aria-hidden": "true" },
    svg("rect", { width, height: 10, rx: 3, class: "bar9" }),
    svg("rect", {
      width: Math.max(share > 0 ? 2 : 0, share * width),
      height: 10,
      rx: 3,
      class: kind,
    }),
  );
