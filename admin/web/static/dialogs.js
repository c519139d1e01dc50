// Dialogs: a question before a change, the token, help; and tooltips and short messages.

import { byID, el, text } from "./dom.js";
import { sentence } from "./format.js";
import { token } from "./live.js";

// open shows a dialog and removes it when it closes.
export function open(dialog) {
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (e) => {
    if (e.target === dialog) dialog.close();
  });
  dialog.showModal();
  return dialog;
}

let titles = 0;

// frame makes a dialog with a title. A question has buttons of its own to close it.
export function frame(title, kind, ...children) {
  const id = "dialog-" + ++titles;
  const close = el("button", {
    type: "button",
    class: "small",
    "aria-label": "Close",
    text: "Close",
    onclick: () => dialog.close(),
  });
  const dialog = el(
    "dialog",
    { class: kind, "aria-labelledby": id },
    el(
      "div",
      { class: "inner" },
      el("div", { class: "head" }, el("h2", { id, text: title }), kind === "question" ? null : close),
      ...children,
    ),
  );
  return dialog;
}

let asking = null;

// askToken asks for the token. It resolves to true when one was given.
export function askToken(why) {
  if (asking) return asking;
  asking = new Promise((done) => {
    const input = el("input", { type: "password", autocomplete: "off", required: true, spellcheck: "false" });
    let given = false;
    const form = el(
      "form",
      {
        onsubmit: (e) => {
          e.preventDefault();
          token.set(input.value.trim());
          given = true;
          dialog.close();
        },
      },
      el("label", {}, "Token", input),
      el("div", { class: "buttons" }, el("button", { class: "primary", text: "Use this token" })),
    );
    const dialog = frame(
      "Token needed",
      "",
      el("p", { text: why }),
      el(
        "p",
        { class: "muted" },
        "The token is in the file ",
        el("code", { text: "admin-token" }),
        " in the crawl's first directory. Each start of the crawl makes a new one. This tab keeps it until you close it.",
      ),
      form,
    );
    dialog.addEventListener("close", () => {
      asking = null;
      done(given);
    });
    open(dialog);
    input.focus();
  });
  return asking;
}

// confirm asks before a change and makes it. change() returns a promise; its error is shown in the dialog.
export function confirm({ title, lines, action, danger, change }) {
  const error = el("p", { class: "error", role: "alert" });
  const yes = el("button", { type: "button", class: danger ? "primary danger" : "primary", text: action });
  const no = el("button", { type: "button", text: "Cancel", onclick: () => dialog.close() });
  const dialog = frame(
    title,
    "question",
    ...lines.map((line) => (typeof line === "string" ? el("p", { text: line }) : line)),
    error,
    el("div", { class: "buttons" }, no, yes),
  );
  yes.addEventListener("click", async () => {
    yes.disabled = true;
    text(error, "");
    let why = "Changes need the token of this crawl.";
    try {
      for (let tries = 0; ; tries++) {
        if (!token.get() && !(await askToken(why))) return;
        try {
          toast((await change()) || title + ": done.");
          dialog.close();
          return;
        } catch (e) {
          if (e.status !== 401 || tries > 2) throw e;
          token.clear();
          why = sentence(e.message) + ".";
          text(error, why);
        }
      }
    } catch (e) {
      text(error, e.message);
    } finally {
      yes.disabled = false;
    }
  });
  open(dialog);
  (danger ? no : yes).focus();
}

// toast shows a message for some seconds.
export function toast(words) {
  const p = el("p", { text: words });
  const box = byID("toasts");
  while (box.children.length > 3) box.firstChild.remove();
  box.append(p);
  setTimeout(() => p.remove(), 7000);
}

// startTips shows the explanation of a word on hover, focus and touch.
export function startTips() {
  const box = byID("tip");
  let owner = null;
  const hide = () => {
    owner?.removeAttribute("aria-describedby");
    owner = null;
    box.hidden = true;
  };
  const show = (target) => {
    const word = target.closest?.("[data-tip]");
    if (word === owner) return;
    hide();
    if (!word) return;
    owner = word;
    text(box, word.getAttribute("data-tip"));
    (word.closest("dialog") || document.body).append(box);
    box.hidden = false;
    word.setAttribute("aria-describedby", "tip");
    const at = word.getBoundingClientRect();
    const own = box.getBoundingClientRect();
    box.style.left = Math.max(8, Math.min(innerWidth - own.width - 8, at.left + at.width / 2 - own.width / 2)) + "px";
    box.style.top =
      (at.bottom + own.height + 12 < innerHeight ? at.bottom + 6 : Math.max(8, at.top - own.height - 6)) + "px";
  };
  document.addEventListener("pointerover", (e) => show(e.target));
  document.addEventListener("focusin", (e) => show(e.target));
  document.addEventListener("click", (e) => show(e.target));
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { passive: true, capture: true });
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && owner) hide();
  });
}
