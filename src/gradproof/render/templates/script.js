"use strict";
// Tables that sort, filter and show that they scroll; links that open what they lead to.
(() => {
  const sortKey = (cell) => {
    const text = (cell.dataset.value ?? cell.textContent).trim();
    const number = Number(text);
    return text === "" ? null : Number.isNaN(number) ? text.toLowerCase() : number;
  };

  // Numbers before texts, what is empty last whichever way.
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return sign * (typeof a === "number" ? -1 : 1);
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  };

  const sortBy = (table, column, header) => {
    const sign = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(sortKey(a.cells[column]), sortKey(b.cells[column]), sign));
    table.tBodies[0].append(...rows);
  };

  const filter = (box) => {
    const words = box.querySelector(".filter").value.toLowerCase();
    const status = box.querySelector(".status-filter").value;
    const rows = [...box.querySelector("table").tBodies[0].rows];
    for (const row of rows) {
      row.hidden = !(row.textContent.toLowerCase().includes(words) && (!status || row.dataset.status === status));
    }
    const left = rows.filter((row) => !row.hidden).length;
    box.querySelector(".shown").textContent = left === rows.length ? "" : left + " of " + rows.length + " rows";
  };

  document.querySelectorAll(".sortable").forEach((box) => {
    const table = box.querySelector("table");
    const tools = box.querySelector(".tools");
    if (tools) tools.hidden = false;
    box.querySelectorAll("input, select").forEach((field) => field.addEventListener("input", () => filter(box)));
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sortBy(table, column, header));
    });
  });

  // A link opens what it leads to, and everything around that.
  const reveal = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let box = target; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) reveal();
  });
  reveal();

  // A table that is wider than its place says so, until its end is in view.
  const mark = (box) => box.parentElement.classList.toggle("more", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  const watch = new ResizeObserver((seen) => seen.forEach(({ target }) => mark(target)));
  document.querySelectorAll(".scroll").forEach((box) => {
    watch.observe(box);
    box.addEventListener("scroll", () => mark(box), { passive: true });
  });

  // On a wide window the contents stand beside the page, open.
  const contents = document.querySelector("nav.contents details");
  const wide = matchMedia("(min-width: 75rem)");
  const place = () => { if (contents && wide.matches) contents.open = true; };
  wide.addEventListener("change", place);
  place();
})();
