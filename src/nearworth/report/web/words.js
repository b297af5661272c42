// ---- words and numbers as people write them ----
const isNumber = !data.nClasses; // the target is a number, not a class
const whole = new Intl.NumberFormat("en");
const n = (value) => whole.format(value);
const plural = (count, one, many) => n(count) + " " + (count === 1 ? one : many || one + "s");
const noun = isNumber ? "target" : "label";
const WORD = data.review
  ? { wrong: "Wrong", right: "Right", skip: "Skipped" }
  : { change: "Changed", keep: "Kept", delete: "Deleted", skip: "Skipped", wrong: "Wrong" };
const TAKE_BACK = matchMedia("(hover: none)").matches ? "Undo takes it back." : "U undoes it.";

// In full, with thousands separators; six figures where there are decimals.
function number(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value) || (size > 0 && size < 1e-4))
    return size < 1e15
      ? whole.format(value) === "0" && value
        ? value.toPrecision(3)
        : whole.format(value)
      : String(value);
  return new Intl.NumberFormat("en", {
    maximumFractionDigits: Math.max(1, 5 - Math.floor(Math.log10(size))),
  }).format(value);
}

// In charts: k and M.
function brief(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  return String(+value.toPrecision(3));
}

// A label: a number with separators, or the text, in quotation marks if blanks at an end would be
// overlooked.
function show(label) {
  if (isNumber && label !== "" && Number.isFinite(Number(label))) return number(Number(label));
  return label === "" || /^\s|\s$/.test(label) ? "“" + label + "”" : label;
}

const percent = (share) =>
  share > 0.99 ? "more than 99%" : share < 0.01 ? "less than 1%" : Math.round(100 * share) + "%";
const sure = (share) => percent(share).replace("more than ", ">").replace("less than ", "<");
const listing = (parts) =>
  parts.length < 2
    ? parts.join("")
    : parts.slice(0, -1).join(", ") + " and " + parts[parts.length - 1];
