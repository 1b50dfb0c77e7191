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

  window.toLocalTimes = toLocalTimes; // for refresh.js
  window.inLocalZone = inLocalZone; // for ops.js
  toLocalTimes(document);
})();
