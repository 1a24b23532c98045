"use strict";
// A table of thousands of cases: all of them are data, and only those that fit a few screens are rows.
(() => {
  const FEW = 300;
  const columns = JSON.parse(document.getElementById("columns").textContent);
  const cases = JSON.parse(document.getElementById("cases").textContent);
  const at = Object.fromEntries(columns.map((name, number) => [name, number]));
  const texts = cases.map((each) => `${each[at.case]} ${each[at.cause]}`.toLowerCase());
  const body = document.querySelector(".cases tbody");
  const field = (id) => document.getElementById(id);
  let order = cases.map((_, number) => number);
  let most = FEW;
  let waiting = 0;

  const cell = (text, name) => {
    const made = document.createElement("td");
    if (name) made.className = name;
    made.textContent = text;
    return made;
  };
  const named = (each) => {
    const made = document.createElement("td");
    const code = document.createElement("code");
    code.textContent = each[at.case];
    const detail = each[columns.length];
    if (!detail) { made.append(code); return made; }
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.append(code);
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.children.length > 1) return;
      const text = document.createElement("pre");
      text.textContent = detail;
      details.append(text);
    });
    made.append(details);
    return made;
  };
  const badge = (word) => {
    const made = document.createElement("td");
    const mark = document.createElement("span");
    mark.className = `badge ${word.toLowerCase()}`;
    mark.textContent = word;
    made.append(mark);
    return made;
  };
  const row = (each) => {
    const made = document.createElement("tr");
    made.dataset.word = each[at.status];
    columns.forEach((name, number) => {
      if (name === "case") made.append(named(each));
      else if (name === "status") made.append(badge(each[number]));
      else made.append(cell(each[number], name === "cause" ? "cause" : typeof each[number] === "number" ? "n" : ""));
    });
    return made;
  };

  const apply = () => {
    waiting = 0;
    const wanted = field("filter").value.trim().toLowerCase();
    const word = field("word").value;
    const change = field("change") ? field("change").value : "";
    const fits = (number) => (!word || cases[number][at.status] === word) && texts[number].includes(wanted)
      && (!change || cases[number][at.change].startsWith(change));
    const found = order.filter(fits);
    body.replaceChildren(...found.slice(0, most).map((number) => row(cases[number])));
    const left = found.length - Math.min(found.length, most);
    field("count").textContent = left ? `${most} of ${found.length} shown` : `${found.length} shown`;
    field("more").hidden = !left;
  };
  const soon = () => { most = FEW; if (!waiting) waiting = requestAnimationFrame(apply); };
  ["filter", "word", "change"].forEach((id) => field(id) && field(id).addEventListener("input", soon));
  field("more").addEventListener("click", () => { most += 1000; apply(); });
  document.querySelectorAll(".cases th").forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const down = header.getAttribute("aria-sort") === "ascending";
      document.querySelectorAll(".cases th").forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (number) => cases[number][column];
      order.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (down ? -1 : 1));
      apply();
    });
  });
  apply();
})();
