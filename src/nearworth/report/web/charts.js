// ---- small charts: plain SVG, with words only at the ends of an axis ----

// The distribution of a share over all rows. The line stands at the share `marked` of one row, or
// nowhere if it is null; bars beyond `cut` are warm. `ends` are words for both ends of the axis.
// Heights are square roots of counts, so that few rows among many can be seen.
function histogram(counts, marked, cut, ends) {
  const WIDTH = 240;
  const HEIGHT = 64;
  const TOP = 8;
  const barWidth = WIDTH / counts.length;
  const maxRoot = Math.sqrt(Math.max(...counts, 1));
  const bars = counts.map((count, bin) => {
    const height = (HEIGHT * Math.sqrt(count)) / maxRoot;
    return svg("rect", {
      x: bin * barWidth + 0.75,
      y: TOP + HEIGHT - height,
      width: barWidth - 1.5,
      height: Math.max(height, count ? 1 : 0),
      rx: 1.5,
      class: (bin + 0.5) / counts.length > cut ? "bar1" : "bar0",
    });
  });
  const markX = 1 + marked * (WIDTH - 2);
  return svg(
    "svg",
    {
      viewBox: "0 0 240 92",
      width: "100%",
      role: "img",
      "aria-label": "Distribution over all rows; the line marks this row",
    },
    bars,
    svg("line", { x1: 0, x2: WIDTH, y1: 72.5, y2: 72.5, class: "ax" }),
    marked !== null && svg("line", { x1: markX, x2: markX, y1: 2, y2: 73, class: "mk" }),
    svg("text", { x: 0, y: 87, text: ends[0] }),
    svg("text", { x: WIDTH, y: 87, "text-anchor": "end", text: ends[1] }),
  );
}

const PHONE_WIDTH_PX = 760; // as in page.css: up to here list and row are two screens

// An axis across a chart for some values, logarithmic if they are positive and span much. Its
// ends lie a little beyond the values, and `margin` away from the ends of the chart.
function valueAxis(values, width, margin) {
  const MIN_LOG_RATIO = 4;
  const low = Math.min(...values);
  const high = Math.max(...values);
  const isLog = low > 0 && high > MIN_LOG_RATIO * low;
  const scale = isLog ? Math.log : (value) => value;
  const room = (scale(high) - scale(low)) * 0.04 || 1;
  const axisStart = scale(low) - room;
  const axisEnd = scale(high) + room;
  const x = (value) =>
    margin + ((width - 2 * margin) * (scale(value) - axisStart)) / (axisEnd - axisStart);
  return { isLog, x };
}

// Where a text at a place begins, so that it does not leave the chart.
function anchorAt(x, width) {
  const ROOM_FOR_TEXT = 60;
  if (x < ROOM_FOR_TEXT) return "start";
  return x > width - ROOM_FOR_TEXT ? "end" : "middle";
}

// Targets of the neighbors as dots, the likely range as a band, the given one as a diamond, the
// typical one as a line.
function strip(row) {
  const targets = neighborsOf(row).map((neighbor) => Number(labelOf(neighbor.row)));
  const given = Number(labelOf(row));
  const typical = Number(typicalOf(row));
  const [low, high] = rangeOf(row);
  const width = window.innerWidth < PHONE_WIDTH_PX ? 350 : 640;
  const { isLog, x } = valueAxis([...targets, given, typical, low, high], width, 12);
  const summary = ": given " + number(given) + ", typical " + number(typical);
  const bandWidth = Math.max(2, x(high) - x(low));
  return svg(
    "svg",
    {
      viewBox: "0 0 " + width + " 84",
      width: "100%",
      role: "img",
      "aria-label": "Targets of the nearest rows" + (isLog ? ", log scale" : "") + summary,
    },
    svg("rect", { x: x(low), width: bandWidth, y: 30, height: 26, rx: 6, class: "band" }),
    svg("line", { x1: 0, x2: width, y1: 43, y2: 43, class: "ax" }),
    targets.map((target) => svg("circle", { cx: x(target), cy: 43, r: 5, class: "dotn" })),
    svg("line", { x1: x(typical), x2: x(typical), y1: 26, y2: 60, class: "accs" }),
    svg("path", {
      d: "M0-8 8 0 0 8-8 0z",
      transform: "translate(" + x(given) + " 43)",
      class: "dbt",
    }),
    svg("text", {
      x: x(given),
      y: 20,
      "text-anchor": anchorAt(x(given), width),
      class: "dbt",
      text: "given " + brief(given),
    }),
    svg("text", {
      x: x(typical),
      y: 78,
      "text-anchor": anchorAt(x(typical), width),
      class: "acc",
      text: "typical " + brief(typical),
    }),
  );
}

// A range of counts on an axis from 0; `basis` is what it was estimated from.
function rangeChart(low, high, basis) {
  const WIDTH = 230;
  const MARGIN = 6;
  const ROOM_FOR_COUNT = 40;
  const maxCount = Math.max(high * 1.35, 10);
  const x = (count) => MARGIN + ((WIDTH - 2 * MARGIN) * count) / maxCount;
  const lowX = Math.max(x(low) + 8, ROOM_FOR_COUNT);
  const highX = Math.min(x(high) - 8, WIDTH - ROOM_FOR_COUNT);
  const barWidth = Math.max(4, x(high) - x(low));
  const lowText = { x: lowX, y: 9, "text-anchor": "end", class: "strong", text: n(low) };
  return svg(
    "svg",
    {
      width: WIDTH,
      height: 52,
      role: "img",
      "aria-label": "Between " + n(low) + " and " + n(high) + ", " + basis,
    },
    svg("line", {
      x1: MARGIN,
      x2: WIDTH - MARGIN,
      y1: 22,
      y2: 22,
      class: "ax",
      "stroke-width": 2,
    }),
    svg("rect", { x: x(low), width: barWidth, y: 14, height: 16, rx: 8, class: "span1" }),
    low > 0 && svg("text", lowText),
    svg("text", { x: highX, y: 9, class: "strong", text: n(high) }),
    svg("text", { x: MARGIN, y: 47, text: "0" }),
    svg("text", { x: WIDTH / 2, y: 47, "text-anchor": "middle", text: basis }),
  );
}

// A share as a part of a bar; one above 0 can be seen, however small.
function shareBar(share, width, fillClass) {
  const minFilled = share > 0 ? 2 : 0;
  const filled = Math.max(minFilled, share * width);
  return svg(
    "svg",
    { width, height: 10, "aria-hidden": "true" },
    svg("rect", { width, height: 10, rx: 3, class: "bar9" }),
    svg("rect", { width: filled, height: 10, rx: 3, class: fillClass }),
  );
}
