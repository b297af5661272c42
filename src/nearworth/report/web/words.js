// ---- words and numbers as people write them ----
const isNumber = !data.nClasses; // the target is a number, not a class
const noun = isNumber ? "target" : "label";
const WORD = data.review
  ? { wrong: "Wrong", right: "Right", skip: "Skipped" }
  : { change: "Changed", keep: "Kept", delete: "Deleted", skip: "Skipped", wrong: "Wrong" };
const TAKE_BACK = matchMedia("(hover: none)").matches ? "Undo takes it back." : "U undoes it.";

const SIGNIFICANT_DIGITS = 6;
const MIN_DECIMAL_NUMBER = 1e-4; // smaller ones would need more decimals than anyone reads
const MAX_WHOLE_NUMBER = 1e15; // from here on not every whole number has a double of its own

const whole = new Intl.NumberFormat("en");
// A whole number with thousands separators. The name is short since most sentences have one.
const n = (value) => whole.format(value);
const plural = (count, one, many) => n(count) + " " + (count === 1 ? one : many || one + "s");

// In full, with thousands separators; six figures where there are decimals.
function number(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value)) return size < MAX_WHOLE_NUMBER ? whole.format(value) : String(value);
  if (size > 0 && size < MIN_DECIMAL_NUMBER) {
    return value.toPrecision(3);
  }
  const nDecimals = SIGNIFICANT_DIGITS - 1 - Math.floor(Math.log10(size));
  const format = new Intl.NumberFormat("en", { maximumFractionDigits: Math.max(1, nDecimals) });
  return format.format(value);
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
function labelText(label) {
  if (isNumber && label !== "" && Number.isFinite(Number(label))) return number(Number(label));
  return label === "" || /^\s|\s$/.test(label) ? "“" + label + "”" : label;
}

function percent(share) {
  if (share > 0.99) return "more than 99%";
  if (share < 0.01) return "less than 1%";
  return Math.round(100 * share) + "%";
}

const shortPercent = (share) =>
  percent(share).replace("more than ", ">").replace("less than ", "<");

// One, two and three.
function joinWithAnd(words) {
  if (words.length < 2) return words.join("");
  return words.slice(0, -1).join(", ") + " and " + words[words.length - 1];
}
