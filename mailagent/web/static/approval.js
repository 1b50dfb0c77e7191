// Lets the sum follow the items that a manager unticks or counts down. Without this script a button works it out,
// and the server does so in any case.
"use strict";

(() => {
  const sum = document.getElementById("sum");
  const fields = [...document.querySelectorAll("[data-units]")];

  function chosenUnits(field) {
    const typed = field.type === "checkbox" ? Number(field.checked) : Number(field.value);
    return Math.min(Math.max(Math.trunc(typed) || 0, 0), Number(field.dataset.units));
  }

  function write(minor) {
    const { decimals, currency } = sum.dataset;
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    const format = new Intl.NumberFormat(document.documentElement.lang, { style: "currency", currency, ...digits });
    return format.format(minor / 10 ** decimals);
  }

  function count() {
    const most = Number(sum.dataset.most);
    const all = fields.every((field) => chosenUnits(field) === Number(field.dataset.units));
    const worth = fields
      .map((field) => Math.floor((field.dataset.minor * chosenUnits(field)) / field.dataset.units))
      .reduce((total, each) => total + each, 0);
    sum.textContent = write(all ? most : Math.min(worth, most));
  }

  if (!sum) return;
  document.querySelector(".count").hidden = true;
  for (const field of fields) field.addEventListener("input", count);
})();
