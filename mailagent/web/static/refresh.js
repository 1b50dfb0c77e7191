// Reads the page again while something on it goes on, and shows what is new. It waits while the reader uses a
// field, a link or a folded part, so that nothing is lost or moves. Without this script the pages work as they are.
"use strict";

(() => {
  const EVERY_MILLISECONDS = 3000;
  const LONGEST_MILLISECONDS = 8000;

  function isInUse(main) {
    const fields = [...main.querySelectorAll("input, textarea")];
    const hasInput = fields.some((field) => field.value !== field.defaultValue);
    return document.hidden || hasInput || main.querySelector(":focus, details[open]") || String(getSelection());
  }

  async function refresh() {
    const main = document.querySelector("main");
    if (!isInUse(main)) {
      try {
        const answer = await fetch(location.href, {
          cache: "no-store",
          redirect: "error", // to the login
          signal: AbortSignal.timeout?.(LONGEST_MILLISECONDS),
        });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.querySelector("main");
        if (fresh) window.toLocalTimes?.(fresh);
        if (answer.ok && fresh && !isInUse(main) && !fresh.isEqualNode(main)) main.replaceWith(fresh);
      } catch {
        // The next time it may work.
      }
    }
    if (document.querySelector("[data-going-on]")) setTimeout(refresh, EVERY_MILLISECONDS);
  }

  setTimeout(refresh, EVERY_MILLISECONDS);
})();
