// Keeps the figures of the inbox fresh and says when more came, or that it cannot tell. No line moves while
// somebody reads: new ones come when they ask for them. Without this script the pages work as they are.
"use strict";

(() => {
  const EVERY_MILLISECONDS = 10000;
  const LONGEST_MILLISECONDS = 8000;
  const news = document.querySelector("[data-live]");
  if (!news) return;
  const lists = news.dataset.lists.split(" ");
  const title = document.title;
  let upToDate = new Date(Number(news.dataset.since) / 1000);
  let etag = null;
  let asking = false;
  let failures = 0;
  let number = 0; // of lines and outages that came since the page was made

  function show(answer) {
    for (const place of document.querySelectorAll("[data-count]")) {
      const words = answer.counts[place.dataset.count];
      if (words === undefined || place.textContent === words) continue;
      place.textContent = words;
      place.closest(".tiles a")?.classList.toggle("none", words === "0");
      const name = place.parentElement.querySelector("[data-one]");
      if (name) name.textContent = words === "1" ? name.dataset.one : name.dataset.many;
    }
    for (const sentence of document.querySelectorAll("[data-nothing]")) {
      const name = sentence.dataset.nothing;
      const counts = name ? [answer.counts[name]] : Object.values(answer.counts);
      sentence.hidden = counts.some((words) => words !== "0");
    }
    number = lists.reduce((sum, name) => sum + (answer.newer[name] || 0), 0) + showOutages(answer.outages);
  }

  // Takes away the banners of what works again; returns how many have no banner yet.
  function showOutages(outages) {
    for (const banner of document.querySelectorAll("[data-outage]")) {
      banner.hidden = !outages.includes(banner.dataset.outage);
    }
    if (news.dataset.outages === undefined) return 0;
    const shown = news.dataset.outages.split(" ");
    return outages.filter((name) => !shown.includes(name)).length;
  }

  function showAges() {
    for (const place of document.querySelectorAll("time[data-age]")) {
      const minutes = Math.floor((upToDate - new Date(place.dateTime)) / 60000);
      if (minutes < 1) continue;
      const hours = Math.floor(minutes / 60);
      const [words, number] = minutes < 60 ? ["minutes", minutes] : hours < 48 ? ["hours", hours] : ["days", Math.floor(hours / 24)];
      const age = news.dataset[words].replace("#", number);
      if (place.textContent !== age) place.textContent = age;
    }
  }

  function say() {
    const stale = failures > 1; // one may be a moment without a network
    const since = window.inLocalZone(upToDate);
    const sentence = stale ? `${news.dataset.stale.replace("#", since)} ` : "";
    const offer = stale ? news.dataset.reload : number ? news.dataset.new.replace("#", number) : "";
    document.title = number ? `(${number}) ${title}` : title;
    if (news.dataset.said === sentence + offer) return; // or it would be read out again
    news.dataset.said = sentence + offer;
    const link = document.createElement("a");
    link.href = location.pathname + location.search;
    link.textContent = offer;
    news.replaceChildren(...(offer ? [sentence, link] : []));
  }

  async function fetchFigures() {
    const headers = { Accept: "application/json" };
    if (etag) headers["If-None-Match"] = etag;
    const answer = await fetch(`/ops/live?since=${news.dataset.since}`, {
      headers,
      cache: "no-store",
      redirect: "error", // to the login
      signal: AbortSignal.timeout?.(LONGEST_MILLISECONDS),
    });
    if (answer.status === 200) {
      show(await answer.json());
      etag = answer.headers.get("ETag");
    } else if (answer.status !== 304) {
      throw new Error(`answered ${answer.status}`);
    }
    // The server's clock. Flask and the server both tell it: a browser gets the two in one line.
    upToDate = new Date(Date.parse((answer.headers.get("Date") || "").slice(0, 29)) || Date.now());
    showAges();
  }

  async function ask() {
    if (asking || document.hidden) return;
    asking = true;
    try {
      await fetchFigures();
      failures = 0;
    } catch {
      failures += 1;
    }
    say();
    asking = false;
  }

  setInterval(ask, EVERY_MILLISECONDS);
  document.addEventListener("visibilitychange", ask);
})();
