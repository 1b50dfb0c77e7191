// Sends a form once, and listens to keys. Without this script the pages work as they are.
"use strict";

(() => {
  // On a phone the menu is one line that moves sideways.
  const here = document.querySelector(".bar nav [aria-current]");
  here?.scrollIntoView({ block: "nearest", inline: "center" });

  // A double click sends a form once.
  const sent = new WeakMap();
  document.addEventListener("submit", (event) => {
    if (event.timeStamp - (sent.get(event.target) ?? -Infinity) < 1000) event.preventDefault();
    else sent.set(event.target, event.timeStamp);
  });

  // A begun answer stays in this tab, whatever else its author presses, until it is sent or they log out.
  const answer = document.querySelector("textarea[data-kept]");
  if (answer) {
    const { kept } = answer.dataset;
    const keep = () => sessionStorage.setItem(kept, answer.value);
    if (location.hash === "#sent") {
      sessionStorage.removeItem(kept);
      history.replaceState(null, "", location.pathname);
    }
    answer.value ||= sessionStorage.getItem(kept) ?? "";
    keep(); // the server may have sent a text
    answer.addEventListener("input", keep);
  }
  document.querySelector("form.who")?.addEventListener("submit", () => sessionStorage.clear());

  // --- keys ---------------------------------------------------------------------------------------

  const help = document.querySelector("dialog#shortcuts");
  if (!help) return;
  const KEPT = "shortcuts-off";
  const off = help.querySelector("input");
  off.checked = localStorage.getItem(KEPT) === "yes";
  off.addEventListener("change", () => localStorage.setItem(KEPT, off.checked ? "yes" : "no"));
  const opener = document.querySelector("[data-shortcuts]");
  opener.hidden = false;
  opener.addEventListener("click", () => help.showModal());

  function move(step) {
    const rows = [...document.querySelectorAll("main table.list tbody tr")];
    const links = rows.map((row) => row.querySelector("a")).filter(Boolean);
    const here = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    const next = here < 0 ? (step > 0 ? 0 : links.length - 1) : here + step;
    links[next]?.focus();
  }

  function search() {
    const field = document.querySelector("#q");
    if (field) field.focus();
    else location.href = "/ops/search";
  }

  // Sends what stands in the field: a draft has a button for a changed text.
  function send(field) {
    const isChanged = "changed" in field.dataset || field.value !== field.defaultValue;
    const forChanged = isChanged ? field.form?.querySelector("button[data-if-changed]") : null;
    field.form?.requestSubmit(forChanged ?? field.form.querySelector("button.primary, button"));
  }

  const KEYS = {
    j: () => move(1),
    k: () => move(-1),
    r: () => document.querySelector("#answer-text")?.focus(),
    "/": search,
    "?": () => help.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const place = event.target;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && place.matches("textarea")) {
      event.preventDefault();
      send(place);
      return;
    }
    const isTyping = place.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
    if (isTyping || off.checked || help.open || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
})();
