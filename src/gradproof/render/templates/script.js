"use strict";
(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  // A copy of a figure in which "$name" is the page's colour of that name.
  const painted = (value) => {
    if (typeof value === "string") return value.startsWith("$") ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map(painted);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item)]));
  };

  const draw = (plot) => {
    const { data, layout } = painted(JSON.parse(plot.querySelector("script").textContent));
    const font = { color: colour("soft"), family: "system-ui, sans-serif", size: 12 };
    const own = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font, autosize: true };
    const hover = { hoverlabel: { bgcolor: colour("card"), bordercolor: colour("grid"), font: { color: colour("text") } } };
    const options = { responsive: true, displayModeBar: false };
    Plotly.react(plot.querySelector(".canvas"), data, { ...own, ...hover, ...layout }, options);
    plot.classList.add("drawn");
  };

  // Figures are drawn when they come near the window: a page of a thousand reports opens at once.
  if (typeof Plotly !== "undefined") {
    const near = new IntersectionObserver((seen, observer) => {
      for (const { isIntersecting, target } of seen) {
        if (isIntersecting) {
          observer.unobserve(target);
          draw(target);
        }
      }
    }, { rootMargin: "400px" });
    document.querySelectorAll("figure.plot").forEach((plot) => near.observe(plot));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => document.querySelectorAll("figure.drawn").forEach(draw));
    addEventListener("beforeprint", () => document.querySelectorAll("figure.plot:not(.drawn)").forEach(draw));
  }

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
    box.querySelector(".tools").hidden = false;
    box.querySelectorAll("input, select").forEach((field) => field.addEventListener("input", () => filter(box)));
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sortBy(table, column, header));
    });
  });

  // A link to a report opens it.
  const reveal = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") {
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
