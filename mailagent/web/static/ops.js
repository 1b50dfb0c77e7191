// Keeps the counts of the inbox fresh and says when more came. Nothing moves while somebody reads: the new
// lines come when they ask for them. Without this script the pages work as they are.
"use strict";

(() => {
  const EVERY_MILLISECONDS = 10000;
  const news = document.querySelector("[data-live]");
  if (!news) return;
  const lists = news.dataset.lists.split(" ");
  const title = document.title;
  let etag = null;
  let asking = false;

  function show(answer) {
    for (const place of document.querySelectorAll("[data-count]")) {
      const words = answer.counts[place.dataset.count];
      if (words !== undefined && place.textContent !== words) place.textContent = words;
    }
    const number = lists.reduce((sum, name) => sum + (answer.newer[name] || 0), 0);
    document.title = number ? `(${number}) ${title}` : title;
    if (!number) {
      news.replaceChildren();
    } else if (news.dataset.number !== String(number)) {
      const link = document.createElement("a");
      link.href = location.pathname + location.search;
      link.textContent = `${number} new – show`;
      news.replaceChildren(link);
    }
    news.dataset.number = String(number);
  }

  async function ask() {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const headers = { Accept: "application/json" };
      if (etag) headers["If-None-Match"] = etag;
      const answer = await fetch(`/ops/live?since=${news.dataset.since}`, {
        headers,
        cache: "no-store",
        redirect: "error",
      });
      if (answer.status === 200) {
        etag = answer.headers.get("ETag");
        show(await answer.json());
      }
    } catch {
      // The network is away, or the login has ended: the page stays as it is.
    } finally {
      asking = false;
    }
  }

  setInterval(ask, EVERY_MILLISECONDS);
  document.addEventListener("visibilitychange", ask);
})();
