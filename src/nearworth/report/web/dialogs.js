// ---- dialogs, messages, and the keys ----

const dialog = $("dialog");
const closeButton = (text) => button(text, () => dialog.close());

// Shows a dialog; the button marked as first has the focus, else the last one.
function openDialog(title, content, ...buttons) {
  const buttonRow = put(el("div", { class: "row" }), buttons);
  dialog.replaceChildren();
  put(dialog, [el("h2", { id: "dialog-title", text: title }), content, buttonRow]);
  dialog.showModal();
  const first = dialog.querySelector("[data-first]");
  (first || dialog.querySelector(".row button:last-child")).focus();
}

const MESSAGE_MILLISECONDS = 2600; // long enough to read one sentence
let messageTimer;

// Shows a message for a while; screen readers read it aloud.
function announce(text) {
  const toast = $("toast");
  toast.textContent = text;
  toast.classList.add("on");
  clearTimeout(messageTimer);
  messageTimer = setTimeout(() => toast.classList.remove("on"), MESSAGE_MILLISECONDS);
}

// ---- keys ----

const KEYS_STORAGE = "nearworth:keys";
let keysOn = recallKeysOn(); // they can be turned off, for those who speak to their computer

function recallKeysOn() {
  try {
    return localStorage.getItem(KEYS_STORAGE) !== "off";
  } catch (error) {
    return true; // this browser stores nothing
  }
}

function rememberKeysOn() {
  try {
    localStorage.setItem(KEYS_STORAGE, keysOn ? "on" : "off");
  } catch (error) {
    // This browser stores nothing: the choice holds until the page is closed.
  }
}

// All keys and what they do. A key means the same on the report and on the page of a review.
function describeKeys() {
  const { review } = data;
  return [
    ...(review ? reviewKeys() : reportKeys()),
    ["S", "skip"],
    ["U", "undo; with Shift: redo"],
    ["J ↓", "next row; ↑ or Shift J goes back"],
    ["N", "note"],
    !review && ["O", "other label"],
    !review && ["/", "search"],
    !review && ["G", "grid or list"],
    ["E", "export"],
    ["Esc", "leave a field"],
    ["?", "this list"],
  ].filter(Boolean);
}

function reviewKeys() {
  return [
    ["R K", "right: keep the " + noun],
    ["W", "wrong"],
    ["C O", "wrong, and which " + noun + " it is"],
  ];
}

function reportKeys() {
  const keys = [
    ["C", "change to the suggestion (where there is none, asks which)"],
    ["K", "keep"],
    ["D", "delete"],
  ];
  if (tab === "sample") keys.push(["R", "right: keep the " + noun], ["W", "wrong"]);
  return keys;
}

function help() {
  const box = el("input", {
    type: "checkbox",
    id: "shortcuts",
    onchange: () => {
      keysOn = box.checked;
      rememberKeysOn();
    },
  });
  box.checked = keysOn;
  const lines = describeKeys().map(([keys, action]) => [
    el(
      "dt",
      {},
      keys.split(" ").map((key) => el("kbd", { text: key })),
    ),
    el("dd", { text: action }),
  ]);
  const content = [
    el("dl", {}, lines),
    el("p", {}, el("label", {}, box, " Letters are keys")),
    data.review && $("made").content.cloneNode(true), // the report has it on a panel
  ];
  openDialog("Keys", content, closeButton("Close"));
}
