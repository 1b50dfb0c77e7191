/* The demo's page: asks the app once a second what there is, and shows it. While the app is dead, the
   demo's providers (another process) are asked for the mail instead. Text from mail only ever becomes text. */
"use strict";

(() => {
  const EVERY_MS = 1000;
  const WHILE_DEAD_MS = 250;
  const find = (selector) => document.querySelector(selector);
  const meta = (name) => find(`meta[name="${name}"]`).content;
  const providers = meta("providers");
  const people = [...document.querySelectorAll("#people button")];
  const seen = new Set();
  const shown = new Map(); // what each part shows, so that it is only touched when that changes

  let mail = { sent: [], letters: [] };
  let address = people[0].dataset.address;
  let answering = null;
  let pid = null;
  let deadSince = null;
  let backAt = 0;
  let backText = "";

  function make(tag, properties = {}, ...children) {
    const { className, dataset, ...rest } = properties;
    const element = Object.assign(document.createElement(tag), rest);
    if (className) element.className = className;
    Object.assign(element.dataset, dataset || {});
    element.append(...children.filter((child) => child !== null && child !== ""));
    return element;
  }

  function changed(part, value) {
    const text = JSON.stringify(value);
    if (shown.get(part) === text) return false;
    shown.set(part, text);
    return true;
  }

  const clock = (moment) => new Date(moment).toLocaleTimeString();
  const words = (name) => name.replaceAll("_", " ");

  function label(text, kind) {
    return make("span", { className: `state small ${kind}` }, text);
  }

  // --- is the app alive? ---------------------------------------------------------------------------

  function showStatus(text, kind) {
    const bar = find(".top");
    bar.classList.toggle("alive", kind === "alive");
    bar.classList.toggle("dead", kind === "dead");
    if (changed("status", text)) find("#status").textContent = text;
    find("#crash").disabled = kind !== "alive";
  }

  function noteAlive(process) {
    if (deadSince !== null || (pid !== null && pid !== process.pid)) {
      const seconds = deadSince === null ? "" : ` after ${((Date.now() - deadSince) / 1000).toFixed(1)} s`;
      backText = `The app is back${seconds}, as process ${process.pid}. Before, it was ${pid ?? "another"}.`;
      backAt = Date.now();
    }
    deadSince = null;
    pid = process.pid;
    const recently = Date.now() - backAt < 8000;
    showStatus(recently ? backText : `The app runs: process ${pid}, since ${clock(process.started_at)}.`, "alive");
  }

  function noteDead() {
    deadSince ??= Date.now();
    showStatus("The app process is dead. The supervisor is starting it again.", "dead");
  }

  async function ask(url) {
    const answer = await fetch(url, { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }

  async function look() {
    try {
      const state = await ask("/demo/state");
      noteAlive(state.process);
      mail = state.mail;
      showInside(state);
    } catch {
      noteDead();
      try {
        mail = await ask(`${providers}/demo/mailboxes`);
      } catch {
        showStatus("The demo does not answer. If it was stopped, start it again: flask demo", "dead");
      }
    }
    showPost();
    showMailboxes();
    setTimeout(look, deadSince === null ? EVERY_MS : WHILE_DEAD_MS);
  }

  // --- letters -------------------------------------------------------------------------------------

  function fate(letter) {
    const tries = letter.attempts === 1 ? "" : ` (try ${letter.attempts})`;
    switch (letter.state) {
      case "delivered":
        return label(`delivered${tries}`, "good");
      case "lost":
        return label(`lost: the app answered ${letter.answer}`, "bad");
      case "retrying": {
        const why = /^\d+$/.test(letter.answer) ? `the app answered ${letter.answer}` : "the app is down";
        return label(`SendGrid is retrying: ${why}${tries}`, "waiting");
      }
      default:
        return label("on its way", "waiting");
    }
  }

  function showPost() {
    const latest = mail.letters.slice(-5).reverse();
    if (!latest.length || !changed("post", latest)) return;
    find("#post").replaceChildren(
      ...latest.map((letter) =>
        make("li", {}, `${clock(letter.sent_at)} ${letter.from_address}: ${letter.subject} `, fate(letter)),
      ),
    );
  }

  async function send(letter) {
    const body = JSON.stringify(letter);
    const headers = { "Content-Type": "application/json" };
    try {
      const token = { ...headers, "X-CSRFToken": meta("csrf-token") };
      return [await fetch("/demo/letters", { method: "POST", headers: token, body }), ""];
    } catch {
      // The customer's mail does not need the app: SendGrid takes it, and tries until the app is back.
      const answer = await fetch(`${providers}/demo/letters`, { method: "POST", headers, body });
      return [answer, " The app is dead: SendGrid keeps it and tries every second."];
    }
  }

  async function submit(event) {
    event.preventDefault();
    const form = event.target;
    const attached = [...form.files.files];
    if (attached.reduce((sum, file) => sum + file.size, 0) > 700 * 1024) {
      find("#sent").textContent = "Not sent: the files have more than 700 KB together, the most that the demo takes.";
      return;
    }
    const letter = {
      files: await Promise.all(attached.map(readFile)),
      from: form.from.value,
      subject: form.subject.value,
      text: form.text.value,
      aligned: !form.forged.checked,
      in_reply_to: answering,
    };
    try {
      const [answer, note] = await send(letter);
      if (!answer.ok) throw new Error((await answer.json()).error || `status ${answer.status}`);
      startAnew();
      choose(letter.from.match(/<(.+)>/)[1]);
      find("#sent").textContent = `Sent.${note}`;
      if (!note) find("#boxes-title").scrollIntoView(); // there the answer comes
    } catch (problem) {
      find("#sent").textContent = `Not sent: ${problem.message}`;
    }
  }

  function readFile(file) {
    return new Promise((done, failed) => {
      const reader = new FileReader();
      reader.onload = () => done({ name: file.name, type: file.type, data: reader.result.split(",")[1] || "" });
      reader.onerror = failed;
      reader.readAsDataURL(file);
    });
  }

  function fill(from, subject, text, aligned) {
    const form = find("#letter");
    form.from.value = from;
    form.subject.value = subject;
    form.text.value = text;
    form.forged.checked = !aligned;
    form.files.value = "";
    find("#sent").textContent = "";
  }

  function startAnew() {
    answering = null;
    find("#answering").hidden = find("#anew").hidden = true;
    fill(find("#from").value, "", "", true);
  }

  function answer(item) {
    const sender = [...find("#from").options].find((option) => option.value.includes(`<${item.to}>`));
    startAnew();
    answering = item.mail_id;
    fill(sender.value, /^re:/i.test(item.subject) ? item.subject : `Re: ${item.subject}`, "", true);
    find("#answering").textContent = `Answers “${item.subject}”: goes to ${item.reply_to || item.from_address}.`;
    find("#answering").hidden = find("#anew").hidden = false;
    find("#text").focus();
  }

  // --- mailboxes -----------------------------------------------------------------------------------

  function choose(wanted) {
    address = wanted;
    find("#mails").replaceChildren();
    shown.delete("mails");
    showMailboxes();
  }

  function showMailboxes() {
    for (const button of people) {
      const box = button.dataset.address;
      button.setAttribute("aria-pressed", String(box === address));
      const inbox = mail.sent.filter((item) => item.to === box);
      if (box === address) inbox.forEach((item) => seen.add(item.mail_id));
      const unread = inbox.filter((item) => !seen.has(item.mail_id)).length;
      button.querySelector(".unread")?.remove();
      if (unread) button.append(make("span", { className: "unread", title: "new" }, String(unread)));
    }
    showMails();
  }

  function showMails() {
    const received = mail.sent.filter((item) => item.to === address);
    const written = mail.letters.filter((item) => item.from_address === address);
    const all = [...received, ...written].sort((a, b) => Date.parse(a.sent_at) - Date.parse(b.sent_at));
    const box = find("#mails");
    if (!changed("mails", [address, all.map((item) => item.mail_id || item.mail_number)])) return;
    box.querySelector(":scope > .hint")?.remove();
    if (!all.length) box.append(make("p", { className: "hint" }, "Nothing here yet."));
    const present = new Set([...box.children].map((child) => child.dataset.id));
    // Only what is new is put in: a frame that is moved loads again.
    for (const item of all) {
      const id = item.mail_id || item.mail_number;
      if (!present.has(id)) box.prepend(item.mail_id ? receivedMail(item) : writtenMail(item));
    }
  }

  function head(who, item) {
    return make("summary", {}, make("b", {}, item.subject), " ", make("span", {}, `${who}, ${clock(item.sent_at)}`));
  }

  function writtenMail(letter) {
    const note = letter.aligned ? null : make("p", { className: "hint" }, "Forged: SPF and DKIM do not vouch for it.");
    const body = make("div", {}, make("pre", {}, letter.text), attached(letter), note ?? "");
    return make("details", { className: "mail own", dataset: { id: letter.mail_number } }, head("written here", letter), body);
  }

  function attached(item) {
    return item.files.length ? make("p", { className: "hint" }, `Attached: ${item.files.join(", ")}`) : "";
  }

  function receivedMail(item) {
    const body = make("div");
    const details = make(
      "details",
      { className: "mail", dataset: { id: item.mail_id } },
      head(`from ${item.from_name || item.from_address}`, item),
      body,
    );
    details.addEventListener("toggle", () => details.open && !body.childNodes.length && body.append(...parts(item)));
    details.open = true;
    return details;
  }

  function parts(item) {
    const found = [];
    const link = item.text.match(/https?:\/\/[^\s/]+(\/(?:approvals|ops\/login)\/[\w.~-]+)/);
    if (link) {
      const page = { className: "approve", href: link[1], target: "_blank", rel: "noopener" };
      found.push(make("p", {}, make("a", page, "Open the link in this mail")));
    }
    if (item.html) {
      // No script runs in the frame; its links open in a window of their own.
      const frame = make("iframe", { title: `Mail: ${item.subject}` });
      frame.setAttribute("sandbox", "allow-popups allow-popups-to-escape-sandbox");
      frame.srcdoc = `<base target="_blank">${item.html}`;
      const text = make("details", {}, make("summary", {}, "Text part"), make("pre", {}, item.text));
      found.push(frame, text);
    } else {
      found.push(make("pre", {}, item.text));
    }
    found.push(attached(item));
    if ([...find("#from").options].some((option) => option.value.includes(`<${item.to}>`))) {
      const button = make("button", { type: "button", className: "plain" }, "Answer");
      button.addEventListener("click", () => answer(item));
      found.push(button);
    }
    return found;
  }

  // --- inside the app --------------------------------------------------------------------------------

  const REFUND_KINDS = { paid: "good", awaiting_approval: "waiting", approved: "waiting" };

  function showTour(tour) {
    if (!changed("tour", tour)) return;
    for (const step of document.querySelectorAll(".tour [data-step]")) {
      const isDone = tour[step.dataset.step];
      const tick = step.querySelector(".tick");
      step.classList.toggle("done", isDone);
      tick.setAttribute("aria-label", isDone ? "done" : "not done yet");
      tick.textContent = isDone ? "✓" : String([...step.parentElement.children].indexOf(step) + 1);
    }
  }

  function showInside(state) {
    showTour(state.tour);
    if (changed("refunds", state.refunds)) fillTable("#refunds", state.refunds.map(refundRow), 4);
    if (changed("ledger", state.ledger)) fillTable("#ledger", state.ledger.map(ledgerRow), 3);
    if (state.runs.length && changed("runs", state.runs)) showRuns(state.runs);
  }

  function fillTable(body, rows, columns) {
    const none = make("tr", {}, make("td", { className: "hint", colSpan: columns }, "None yet."));
    find(body).replaceChildren(...(rows.length ? rows : [none]));
  }

  function cells(...contents) {
    return make("tr", {}, ...contents.map((content) => make("td", {}, content)));
  }

  function refundRow(refund) {
    const status = label(words(refund.status), REFUND_KINDS[refund.status] || "bad");
    const row = cells(refund.order_id, refund.amount, status, refund.decided_by || "–");
    row.children[1].className = "number";
    return row;
  }

  function ledgerRow(entry) {
    const row = cells(entry.order_id, entry.amount, make("code", { title: entry.reference }, entry.reference));
    row.children[1].className = "number";
    row.children[2].className = "short";
    return row;
  }

  function showRuns(runs) {
    const box = find("#runs");
    const before = new Map([...box.querySelectorAll(".run")].map((run) => [run.dataset.id, run.open]));
    if (box.querySelector(".step details[open]")) return shown.delete("runs"); // somebody reads there
    box.replaceChildren(...runs.map((run, place) => runItem(run, before.get(run.run_id) ?? place < 2)));
  }

  function runItem(run, open) {
    const kind = run.is_active ? "waiting" : run.status === "SUCCESS" ? "good" : "bad";
    const summary = make(
      "summary",
      {},
      make("b", {}, words(run.workflow)),
      " ",
      label(run.status.toLowerCase(), kind),
      " ",
      make("span", { className: "quiet" }, clock(run.created_at)),
    );
    const steps = make("ol", { className: "steps" }, ...run.steps.map(stepItem));
    return make("details", { className: "run", open, dataset: { id: run.run_id } }, summary, steps);
  }

  // Its lines do not wrap, so it must be scrollable with keys.
  function recorded(step, json) {
    return make("pre", { tabIndex: 0, role: "group", ariaLabel: `What step ${step.number} recorded` }, json);
  }

  function stepItem(step) {
    const json = ["null", '""', "[]", "{}"].includes(step.json) ? null : step.json;
    const whole = json && make("details", {}, make("summary", {}, "as recorded"), recorded(step, json));
    return make(
      "li",
      { className: step.error ? "step failed" : "step" },
      `${step.number}. `,
      make("b", {}, words(step.name)),
      " ",
      make("span", { className: "quiet" }, step.error ?? step.told),
      whole,
    );
  }

  // --- buttons ---------------------------------------------------------------------------------------

  async function crash() {
    find("#crash").disabled = true;
    try {
      const answer = await fetch("/demo/crash", { method: "POST", headers: { "X-CSRFToken": meta("csrf-token") } });
      if (answer.ok) deadAnnounced();
    } catch {
      noteDead(); // it was dead already
    }
  }

  function deadAnnounced() {
    // It dies in a tenth of a second: look then, not at the next full second.
    setTimeout(async () => {
      try {
        await ask("/healthz");
      } catch {
        noteDead();
      }
    }, 300);
  }

  find("#crash").addEventListener("click", crash);
  find("#letter").addEventListener("submit", submit);
  find("#anew").addEventListener("click", startAnew);
  people.forEach((button) => button.addEventListener("click", () => choose(button.dataset.address)));
  for (const button of document.querySelectorAll(".ready button")) {
    button.addEventListener("click", () => {
      startAnew();
      fill(button.dataset.from, button.dataset.subject, button.dataset.text, button.dataset.aligned === "true");
      find("#letter button[type=submit]").focus();
    });
  }
  for (const button of document.querySelectorAll("[data-letter]")) {
    button.addEventListener("click", () => find(`.ready [data-name="${button.dataset.letter}"]`).click());
  }
  for (const button of document.querySelectorAll("[data-mailbox]")) {
    button.addEventListener("click", () => {
      choose(button.dataset.mailbox);
      find("#boxes-title").scrollIntoView();
    });
  }
  look();
})();
