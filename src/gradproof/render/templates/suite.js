"use strict";
// A table of thousands of cases: what is filtered is looked up in texts that are read once.
(() => {
  const body = document.querySelector(".cases tbody");
  const rows = [...body.rows].map((row) => ({
    row,
    word: row.dataset.word,
    text: row.cells[0].querySelector("code").textContent.toLowerCase() + " " + row.cells[2].textContent.toLowerCase(),
    change: row.cells.length > 6 ? row.cells[3].textContent : "",
  }));
  const field = (id) => document.getElementById(id);
  let waiting = 0;
  const apply = () => {
    waiting = 0;
    const wanted = field("filter").value.trim().toLowerCase();
    const word = field("word").value;
    const change = field("change") ? field("change").value : "";
    let shown = 0;
    for (const each of rows) {
      const hidden = !((!word || each.word === word) && each.text.includes(wanted) && each.change.startsWith(change));
      if (each.row.hidden !== hidden) each.row.hidden = hidden;
      shown += hidden ? 0 : 1;
    }
    field("count").textContent = `${shown} shown`;
  };
  const soon = () => { if (!waiting) waiting = requestAnimationFrame(apply); };
  ["filter", "word", "change"].forEach((id) => field(id) && field(id).addEventListener("input", soon));
  document.querySelectorAll(".cases th").forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const down = header.getAttribute("aria-sort") === "ascending";
      document.querySelectorAll(".cases th").forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numeric = header.classList.contains("n");
      const key = (each) => { const text = each.row.cells[column].textContent; return numeric ? Number(text) : text; };
      const keyed = rows.map((each) => [key(each), each.row]);
      keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
      body.append(...keyed.map(([, row]) => row));
    });
  });
})();
