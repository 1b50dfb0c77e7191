// Shows times in the reader's zone, and listens to keys. Without this script the pages work as they are, in UTC.
"use strict";

(() => {
  const ZONE_PARTS = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" };
  const FORMAT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", ...ZONE_PARTS });

  function inLocalZone(moment, withYear) {
    const parts = Object.fromEntries(FORMAT.formatToParts(moment).map((part) => [part.type, part.value]));
    const date = `${parts.day} ${parts.month}${withYear ? ` ${parts.year}` : ""}`;
    return `${date}, ${parts.hour}:${parts.minute} ${parts.timeZoneName}`;
  }

  // Of times that say UTC; dates without a time stay.
  function toLocalTimes(root) {
    for (const place of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(place.dateTime);
      if (isNaN(moment)) continue;
      if (place.textContent.endsWith(" UTC")) {
        const utc = place.textContent;
        place.textContent = inLocalZone(moment, /\d{4}/.test(utc));
        place.title = utc;
      } else if (place.title.endsWith(" UTC")) {
        place.title = inLocalZone(moment, true);
      }
    }
  }

  window.toLocalTimes = toLocalTimes; // for refresh.js
  toLocalTimes(document);

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
      place.form?.requestSubmit(place.form.querySelector("button.primary, button"));
      return;
    }
    const isTyping = place.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
    if (isTyping || off.checked || help.open || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
})();
