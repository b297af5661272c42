// ---- elements: text reaches the page as text nodes only, never as markup ----
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

// Appends children, and children of nested lists; null, undefined and false are left out, so that
// a part that depends on something is written as `condition && el(...)`.
function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

// Sets the text, listeners ("onclick") and attributes of an element.
function setProperties(node, properties) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}

const el = (tag, properties, ...children) =>
  put(setProperties(document.createElement(tag), properties), children);

function svg(tag, properties, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return put(setProperties(node, properties), children);
}

const button = (text, onclick, properties) =>
  el("button", { type: "button", text, onclick, ...properties });
