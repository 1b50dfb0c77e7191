// Shows times in the reader's zone. Without this script they are in UTC, and say so.
"use strict";

(() => {
  const LANGUAGE = document.documentElement.lang;
  const LOCALE = LANGUAGE === "en" ? "en-GB" : LANGUAGE;
  const DAY = new Intl.DateTimeFormat(LOCALE, { dateStyle: "long" });
  const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" };
  const TIME = new Intl.DateTimeFormat(LOCALE, CLOCK);

  function inLocalZone(moment) {
    return `${DAY.format(moment)}, ${TIME.format(moment)}`;
  }

  // Of times that say UTC; dates without a time stay.
  function toLocalTimes(root) {
    for (const place of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(place.dateTime);
      if (isNaN(moment)) continue;
      if (place.textContent.endsWith(" UTC")) {
        const utc = place.textContent;
        place.textContent = inLocalZone(moment);
        place.title = utc;
      } else if (place.title.endsWith(" UTC")) {
        place.title = inLocalZone(moment);
      }
    }
  }

  // Fields of a filter: the page and the URL have UTC, the reader sees and types the time of their own zone.
  function toLocalFields(form) {
    const fields = [...form.querySelectorAll("input[data-utc]")];
    if (!fields.length) return;
    for (const field of fields) {
      const moment = new Date(`${field.defaultValue}Z`);
      if (isNaN(moment)) continue;
      const shifted = new Date(moment - moment.getTimezoneOffset() * 60000);
      field.value = shifted.toISOString().slice(0, 16);
    }
    for (const place of form.querySelectorAll("[data-zone]")) place.textContent = place.dataset.zone;
    form.addEventListener("formdata", ({ formData }) => {
      for (const field of fields) {
        const moment = new Date(field.value);
        if (!isNaN(moment)) formData.set(field.name, moment.toISOString().slice(0, 16));
      }
    });
  }

  window.toLocalTimes = toLocalTimes; // for refresh.js
  window.inLocalZone = inLocalZone; // for ops.js
  toLocalTimes(document);
  for (const form of document.forms) toLocalFields(form);
})();
