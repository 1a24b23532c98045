"use strict";
// Draws the figures of a page as SVG: maps, slices and ladders, with ticks, hovering, zoom and the keyboard.
// Colours are classes of the style sheet, so a figure follows when the scheme changes. Texts are set as text only.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const make = (parent, name, attributes = {}, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const known = (value) => value !== null && value !== undefined;
  const short = (value, digits = 6) => {
    const number = Number(value.toPrecision(digits)), size = Math.abs(number);
    return (size >= 1e6 || (size && size < 1e-4) ? number.toExponential().replace("e+", "e") : String(number)).replaceAll("-", "\u2212");
  };

  // Round numbers between two ends, about `count` of them; whole ones if they are indices.
  const linearTicks = ([low, high], count, whole) => {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((k) => k * power).find((k) => (high - low) / k <= count + 1);
    if (whole) step = Math.max(1, Math.round(step));
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9 && ticks.length < 50; k++) ticks.push(k * step);
    const digits = Math.max(1, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / step + 1e-300)) + 1);
    return ticks.map((at) => [at, short(Math.abs(at) < step * 1e-9 ? 0 : at, Math.min(17, Math.max(digits, 2)))]);
  };
  // Powers of ten between two ends, given as logarithms.
  const logTicks = ([low, high], count) => {
    const step = Math.max(1, Math.ceil((high - low) / count));
    const ticks = [];
    for (let k = Math.ceil(low - 1e-9); k <= high + 1e-9; k++) if (k % step === 0) ticks.push([k, "10", String(k).replace("-", "\u2212")]);
    return ticks.length > 1 ? ticks : [low, high].map((at) => [at, "10", short(at, 2)]);
  };

  const label = (parent, attributes, [, text, power]) => {
    const node = make(parent, "text", attributes, text);
    if (power !== undefined) make(node, "tspan", { dy: -5, "font-size": 9 }, power);
    return node;
  };

  class Plot {
    constructor(figure) {
      this.figure = figure;
      this.data = JSON.parse(figure.querySelector("script").textContent);
      this.canvas = figure.querySelector(".canvas");
      this.tip = figure.querySelector(".tip");
      this.at = -1;
      this.items = this.data.kind === "heat" ? this.cells() : this.points();
      this.home = this.data.kind === "heat" ? this.whole() : this.extent();
      this.view = this.home;
      this.buttons();
      this.keys();
      this.pointer();
      new ResizeObserver(() => this.draw()).observe(this.canvas);
      this.draw();
      figure.classList.add("drawn");
    }

    // what there is to show

    cells() {
      const { runs, power, count, columns, rows, ends, known: values } = this.data;
      const numbers = [];
      for (let k = 0; k < runs.length; k += 2) for (let n = 0; n < runs[k + 1]; n++) numbers.push(runs[k] + n);
      return numbers.map((number, k) => {
        const row = Math.floor(number / columns.length), column = number % columns.length;
        const counted = Array.isArray(count) ? count[k] : count;
        const excess = power[k] === null ? "not finite" : "worst " + short(10 ** power[k], 2) + " \u00d7 allowed";
        const lines = [rows[row], columns[column], (known(counted) ? counted + " wrong, " : "") + excess];
        if (values[number]) lines.push(...values[number].split("\n"));
        const share = power[k] === null || !ends ? 1 : (power[k] - ends[0]) / (ends[1] - ends[0] || 1);
        return { row, column, share, lines };
      });
    }

    whole() {
      const [rows, columns] = this.data.shape;
      return { x: [-0.5, columns - 0.5], y: [-0.5, rows - 0.5] };
    }

    across(x) { return this.data.log ? Math.log10(x) : x; }

    // Where hovering stops: every abscissa of a series that was measured.
    points() {
      const main = this.data.series[0];
      const ends = (line) => line.x.map((x, k) => [x, line.y[k]]).filter(([x, y]) => known(x) && known(y));
      const along = (line, x) => {
        const places = ends(line);
        if (places.length < 2) return null;
        const [[x0, y0], [x1, y1]] = [places[0], places[places.length - 1]];
        return x1 === x0 ? y0 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
      };
      return main.x.flatMap((x, k) => {
        const y = main.y[k];
        if (!known(x) || (this.data.log && !(x > 0))) return [];
        const bar = main.error && known(main.error[k]) ? " \u00b1 " + short(main.error[k], 2) : "";
        const lines = [(this.data.log ? "step " : "at ") + short(x, 9), main.name + " " + (known(y) ? short(y, 9) + bar : "not finite")];
        for (const line of this.data.series.slice(1)) {
          const height = along(line, x);
          if (known(height)) lines.push(line.name + " " + short(height, 9));
        }
        return [{ x: this.across(x), y, lines }];
      });
    }

    extent() {
      const places = this.data.series.flatMap((line) => line.x.map((x, k) => [x, line.y[k], line.error ? line.error[k] : 0]));
      const xs = places.map(([x]) => x).filter((x) => known(x) && (!this.data.log || x > 0)).map((x) => this.across(x));
      const ys = places.flatMap(([, y, bar]) => (known(y) ? (bar < 10 * Math.abs(y) ? [y - bar, y + bar] : [y]) : []));
      const span = (values, room) => {
        const low = Math.min(...values), high = Math.max(...values);
        if (!Number.isFinite(high - low)) return [0, 1];
        const more = (high - low) * room || Math.abs(high) * 0.1 || 1;
        return [low - more, high + more];
      };
      const x = span(xs, 0.04);
      return { x: this.data.log ? [x[1], x[0]] : x, y: (this.data.range || span(ys, 0.12)).slice().reverse() };
    }

    // drawing

    draw() {
      const width = this.canvas.clientWidth, heat = this.data.kind === "heat";
      if (!width || (this.width === width && this.drawn === this.view)) return;
      [this.width, this.drawn] = [width, this.view];
      const height = heat ? Math.min(420, Math.max(170, 110 + 26 * this.data.rows.length)) : 280;
      this.canvas.querySelector("svg")?.remove();
      const svg = make(this.canvas, "svg", { width, height, viewBox: "0 0 " + width + " " + height, "aria-hidden": "true" });
      const many = Math.max(3, Math.floor((height - 60) / 45));
      const sides = { x: this.ordered("x"), y: this.ordered("y") };
      const yTicks = linearTicks(sides.y, many, heat);
      const left = 30 + 7 * Math.max(2, ...yTicks.map(([, text]) => text.length));
      this.box = { left, right: width - (heat && this.data.ends ? 66 : 12), top: heat ? 8 : 30, bottom: height - 42 };
      const room = this.box.right - left;
      const xTicks = this.data.log ? logTicks(sides.x, Math.max(2, room / 60)) : linearTicks(sides.x, Math.max(2, Math.floor(room / 80)), heat);
      this.axes(svg, xTicks, yTicks, width, height);
      const { left: l, right: r, top: t, bottom: b } = this.box;
      const clip = "clip-" + (Plot.count = (Plot.count || 0) + 1);
      make(make(svg, "clipPath", { id: clip }), "rect", { x: l, y: t, width: r - l, height: b - t });
      this.marks = make(svg, "g", { "clip-path": "url(#" + clip + ")" });
      if (heat) this.map(svg); else this.lines(svg);
      this.mark = make(this.marks, "rect", { class: "mark", visibility: "hidden" });
      this.drag = make(svg, "rect", { class: "drag", visibility: "hidden" });
      this.point(-1);
    }

    ordered(axis) { return this.view[axis].slice().sort((a, b) => a - b); }
    px(x) { const [a, b] = this.view.x; return this.box.left + ((x - a) / (b - a)) * (this.box.right - this.box.left); }
    py(y) { const [a, b] = this.view.y; return this.box.top + ((y - a) / (b - a)) * (this.box.bottom - this.box.top); }

    axes(svg, xTicks, yTicks, width, height) {
      const { left, right, top, bottom } = this.box;
      make(svg, "rect", { class: "field", x: left, y: top, width: right - left, height: bottom - top });
      const group = make(svg, "g", { class: "ticks" });
      for (const tick of xTicks) {
        const at = this.px(tick[0]);
        if (this.data.kind !== "heat") make(group, "line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom });
        make(group, "line", { class: "tick", x1: at, x2: at, y1: bottom, y2: bottom + 4 });
        label(group, { class: "xtick", x: at, y: bottom + 16, "text-anchor": "middle" }, tick);
      }
      for (const tick of yTicks) {
        const at = this.py(tick[0]);
        if (this.data.kind !== "heat") make(group, "line", { class: "grid", x1: left, x2: right, y1: at, y2: at });
        make(group, "line", { class: "tick", x1: left - 4, x2: left, y1: at, y2: at });
        label(group, { class: "ytick", x: left - 7, y: at + 4, "text-anchor": "end" }, tick);
      }
      const fit = (text, space) => { const most = Math.floor(space / 6.3); return text.length > most ? text.slice(0, most - 1) + "\u2026" : text; };
      make(svg, "text", { class: "title", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, fit(this.data.x, right - left + left));
      const middle = (top + bottom) / 2;
      make(svg, "text", { class: "title", x: 0, y: 0, "text-anchor": "middle", transform: "translate(12 " + middle + ") rotate(-90)" }, fit(this.data.y, bottom - top + 40));
    }

    map(svg) {
      const [height, width] = this.data.cell, [rows, columns] = this.data.shape;
      this.items.forEach((item) => {
        const x0 = this.px(item.column * width - 0.5), x1 = this.px(Math.min((item.column + 1) * width, columns) - 0.5);
        const y0 = this.py(item.row * height - 0.5), y1 = this.py(Math.min((item.row + 1) * height, rows) - 0.5);
        const gap = x1 - x0 > 6 && y1 - y0 > 6 ? 1 : 0;
        item.box = [x0, y0, x1 - x0, y1 - y0];
        const cell = make(this.marks, "rect", { class: "cell", x: x0, y: y0, width: Math.max(x1 - x0 - gap, 0.5), height: Math.max(y1 - y0 - gap, 0.5) });
        cell.style.setProperty("--share", Math.round(100 * item.share) + "%");
      });
      if (this.data.ends) this.key(svg);
    }

    // The bar of colours, with the powers of ten that its ends mean.
    key(svg) {
      const { right, top, bottom } = this.box, [low, high] = this.data.ends, x = right + 12;
      const count = 24, step = (bottom - top - 18) / count, start = top + 18;
      make(svg, "text", { class: "title", x: x - 6, y: top + 8 }, "\u00d7 allowed");
      for (let k = 0; k < count; k++) {
        const part = make(svg, "rect", { class: "cell", x, y: start + k * step, width: 12, height: step + 0.5 });
        part.style.setProperty("--share", Math.round(100 * (1 - k / (count - 1))) + "%");
      }
      for (const tick of logTicks([low, high], Math.max(2, (bottom - start) / 22))) {
        const at = bottom - ((tick[0] - low) / (high - low || 1)) * (bottom - start);
        label(svg, { class: "ktick", x: x + 17, y: at + 4 }, tick);
      }
    }

    lines(svg) {
      const legend = make(svg, "g", { class: "legend" });
      let x = this.box.left;
      for (const line of this.data.series) {
        let path = "", pen = "M";
        const places = line.x.map((at, k) => [at, line.y[k], line.error && line.error[k]]);
        for (const [at, y] of places) {
          if (!known(at) || !known(y) || (this.data.log && !(at > 0))) { pen = "M"; continue; }
          path += pen + this.px(this.across(at)).toFixed(2) + " " + this.py(y).toFixed(2);
          pen = "L";
        }
        make(this.marks, "path", { class: "line " + line.style, d: path });
        if (line.error) {
          for (const [at, y, bar] of places) {
            if (!known(at) || !known(y) || !(at > 0)) continue;
            const px = this.px(this.across(at)), edge = (value) => Math.max(-1e4, Math.min(1e4, this.py(value)));
            if (known(bar)) make(this.marks, "path", { class: "bar", d: "M" + px + " " + edge(y - bar) + "V" + edge(y + bar) + "M" + (px - 4) + " " + edge(y - bar) + "h8M" + (px - 4) + " " + edge(y + bar) + "h8" });
            make(this.marks, "circle", { class: "dot " + line.style, cx: px, cy: this.py(y), r: 3.5 });
          }
        }
        make(legend, "line", { class: "line " + line.style, x1: x, x2: x + 18, y1: 14, y2: 14 });
        const text = make(legend, "text", { x: x + 23, y: 18 }, line.name);
        x += 36 + text.getComputedTextLength();
      }
      const most = this.width - 6, needed = x - 12;
      if (needed > most) legend.setAttribute("transform", "translate(" + (this.box.left * 0.1) + " 3) scale(" + Math.max(0.6, (most - 6) / needed) + ")");
      const [at, y] = this.data.point || [];
      if (known(at) && known(y)) make(this.marks, "circle", { class: "dot plain", cx: this.px(at), cy: this.py(y), r: 4 });
    }

    // hovering, by pointer and by keyboard

    point(number) {
      this.at = number;
      const item = this.items[number];
      this.tip.hidden = !item;
      this.mark.setAttribute("visibility", item ? "visible" : "hidden");
      if (!item) return;
      const box = item.box || [this.px(item.x) - 0.5, this.box.top, 1, this.box.bottom - this.box.top];
      ["x", "y", "width", "height"].forEach((name, k) => this.mark.setAttribute(name, box[k]));
      this.tip.replaceChildren(...item.lines.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
      const x = Math.max(this.box.left, Math.min(box[0] + box[2] / 2, this.box.right));
      const y = item.box ? Math.max(this.box.top, Math.min(box[1] + box[3], this.box.bottom)) : this.box.top + 12;
      const room = this.width - this.tip.offsetWidth;
      this.tip.style.left = Math.max(0, Math.min(item.box ? x - this.tip.offsetWidth / 2 : x + 10 > room ? x - 10 - this.tip.offsetWidth : x + 10, room)) + "px";
      this.tip.style.top = y + 6 + this.canvas.offsetTop + "px";
    }

    nearest(x, y) {
      if (this.data.kind !== "heat") {
        let best = -1, least = Infinity;
        this.items.forEach((item, k) => {
          const off = Math.abs(this.px(item.x) - x);
          if (off < least) [best, least] = [k, off];
        });
        return best;
      }
      return this.items.findIndex(({ box: [left, top, width, height] }) => x >= left && x <= left + Math.max(width, 1) && y >= top && y <= top + Math.max(height, 1));
    }

    inside(event) {
      const edge = this.canvas.getBoundingClientRect();
      const x = event.clientX - edge.left, y = event.clientY - edge.top, { left, right, top, bottom } = this.box;
      return { x, y, hit: x >= left && x <= right && y >= top && y <= bottom };
    }

    pointer() {
      let from = null;
      this.canvas.addEventListener("pointermove", (event) => {
        const { x, y, hit } = this.inside(event);
        if (!from) return this.point(hit ? this.nearest(x, y) : -1);
        const { left, right, top, bottom } = this.box;
        const [a, b] = [from.x, Math.max(left, Math.min(x, right))].sort((p, q) => p - q);
        const [c, d] = [from.y, Math.max(top, Math.min(y, bottom))].sort((p, q) => p - q);
        [["x", a], ["y", c], ["width", b - a], ["height", d - c], ["visibility", "visible"]].forEach(([key, value]) => this.drag.setAttribute(key, value));
        from.area = [a, b, c, d];
      });
      this.canvas.addEventListener("pointerdown", (event) => {
        const { x, y, hit } = this.inside(event);
        if (!hit || event.pointerType === "touch" || event.button) return;
        from = { x, y };
        this.canvas.setPointerCapture(event.pointerId);
        event.preventDefault();
      });
      this.canvas.addEventListener("pointerup", () => {
        const area = from && from.area;
        from = null;
        this.drag.setAttribute("visibility", "hidden");
        if (area && area[1] - area[0] > 5 && area[3] - area[2] > 5) this.zoomTo(...area);
      });
      this.canvas.addEventListener("pointerleave", () => this.point(-1));
      this.canvas.addEventListener("dblclick", () => this.show(this.home));
    }

    keys() {
      this.canvas.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (move && this.items.length) this.point((this.at + move + this.items.length) % this.items.length);
        else if (event.key === "Escape") this.point(-1);
        else if (event.key === "+" || event.key === "=") this.zoom(0.5);
        else if (event.key === "-") this.zoom(2);
        else if (event.key === "0") this.show(this.home);
        else return;
        event.preventDefault();
      });
      this.canvas.addEventListener("blur", () => this.point(-1));
    }

    // zoom

    zoomTo(a, b, c, d) {
      const { left, right, top, bottom } = this.box, [x0, x1] = this.view.x, [y0, y1] = this.view.y;
      const x = (p) => x0 + ((p - left) / (right - left)) * (x1 - x0), y = (p) => y0 + ((p - top) / (bottom - top)) * (y1 - y0);
      this.show({ x: [x(a), x(b)], y: [y(c), y(d)] });
    }

    zoom(factor) {
      const about = ([a, b]) => [(a + b) / 2 + (factor * (a - b)) / 2, (a + b) / 2 + (factor * (b - a)) / 2];
      const wider = Math.abs(about(this.view.x)[1] - about(this.view.x)[0]) >= Math.abs(this.home.x[1] - this.home.x[0]);
      this.show(wider ? this.home : { x: about(this.view.x), y: about(this.view.y) });
    }

    show(view) {
      this.view = view;
      this.figure.classList.toggle("zoomed", view !== this.home);
      this.draw();
    }

    buttons() {
      const bar = this.figure.querySelector(".zoom");
      const actions = [["+", "zoom in", () => this.zoom(0.5)], ["\u2212", "zoom out", () => this.zoom(2)], ["reset", "show all of it", () => this.show(this.home)]];
      for (const [text, name, action] of actions) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: text, title: name });
        button.setAttribute("aria-label", name);
        button.addEventListener("click", action);
        bar.append(button);
      }
    }
  }

  // Figures are drawn when they come near the window: a page of a thousand reports opens at once.
  const draw = (figure) => figure.classList.contains("drawn") || new Plot(figure);
  const near = new IntersectionObserver((seen, observer) => {
    for (const { isIntersecting, target } of seen) {
      if (isIntersecting) {
        observer.unobserve(target);
        draw(target);
      }
    }
  }, { rootMargin: "400px" });
  document.querySelectorAll("figure.plot").forEach((figure) => near.observe(figure));
  addEventListener("beforeprint", () => document.querySelectorAll("figure.plot").forEach(draw));
})();
