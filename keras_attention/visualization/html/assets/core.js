// What all views share. Each view is a function (root, data, element) in `views`, which
// fills `root`. User text enters the page by `textContent` alone, so it is never markup.
"use strict";
const views = {};
const kept = {}; // what the reader chose in a view, for the next view of its kind

// make("td", {class: "cell", text: "5"}, child, …); "on…" adds a listener.
function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "weight") node.style.setProperty("--w", value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const percent = (w) => (w > 0 && w < 0.005 ? "<1" : String(Math.round(100 * w)));
const mean = (maps) =>
  maps[0].map((row, t) =>
    row.map((_, s) => maps.reduce((sum, map) => sum + map[t][s], 0) / maps.length),
  );

// Colours a node by a weight, with text that stays readable in the light and the dark.
function shade(node, weight) {
  node.style.setProperty("--w", weight);
  node.classList.add("cell");
  node.classList.toggle("strong", weight > 0.55);
  node.classList.toggle("strongest", weight > 0.66);
  return node;
}

const cell = (weight, tag = "td") =>
  shade(
    make(tag, { text: percent(weight), title: `${(100 * weight).toFixed(2)} %` }),
    weight,
  );

function frame(label, ...children) {
  return make(
    "div",
    { class: "frame", tabindex: 0, role: "region", "aria-label": label },
    ...children,
  );
}

// A choice by name; `change` gets the index. Not shown if there is nothing to choose.
function choice(label, names, index, change) {
  const select = make(
    "select",
    { "aria-label": label, onchange: () => change(select.selectedIndex) },
    ...names.map((name, n) => make("option", { text: name, selected: n === index })),
  );
  return make("label", { text: label, hidden: names.length < 2 }, select);
}

// Weights (T, S) as an image, one pixel a weight, drawn by opacity: the same in both themes.
function thumbnail(weights, size) {
  const rows = weights.length,
    columns = weights[0].length;
  const canvas = make("canvas", {
    width: columns,
    height: rows,
    "aria-hidden": "true",
  });
  const scale = size / Math.max(rows, columns);
  canvas.style.width = `${Math.max(6, columns * scale)}px`;
  canvas.style.height = `${Math.max(6, rows * scale)}px`;
  paint(canvas, weights.flat(), [70, 130, 210]);
  return canvas;
}

function paint(canvas, values, colour) {
  const pixels = new ImageData(canvas.width, canvas.height);
  values.forEach((value, n) => pixels.data.set([...colour, 255 * value], 4 * n));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

// An image of numbers, the smallest black and the largest white, as in print on a screen.
function picture(values, rows, columns, low, high, label) {
  const canvas = make("canvas", {
    width: columns,
    height: rows,
    class: "image",
    role: "img",
    "aria-label": label,
  });
  const pixels = new ImageData(columns, rows);
  values.forEach((value, n) => {
    const gray = 255 * Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
    pixels.data.set([gray, gray, gray, 255], 4 * n);
  });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas;
}

// A slider over steps with a button that plays them; returns [nodes, set].
function stepper(label, count, names, change) {
  let timer = null;
  const shown = make("span", {});
  const range = make("input", {
    type: "range",
    min: 0,
    max: count - 1,
    step: 1,
    value: 0,
    "aria-label": label,
    oninput: () => {
      stop();
      set(Number(range.value));
    },
  });
  const play = make("button", {
    type: "button",
    text: "Play",
    onclick: () => {
      if (timer !== null) return stop();
      if (Number(range.value) === count - 1) set(0);
      play.textContent = "Stop";
      timer = setInterval(() => {
        if (!range.isConnected || Number(range.value) === count - 1) return stop();
        set(Number(range.value) + 1);
      }, 700);
    },
  });
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  function set(step) {
    range.value = step;
    shown.textContent = `${label}: ${names(step)}`;
    range.setAttribute("aria-valuetext", names(step));
    change(step);
  }
  const field = make("label", { class: "wide" }, shown, range);
  const bar = make("div", { class: "controls" }, play, field);
  bar.hidden = count < 2;
  return [
    bar,
    (step) => {
      stop();
      set(step);
    },
  ];
}

// Runs `change(n)` when the pointer or the keyboard comes to the n-th node.
function pointable(node, n, change) {
  for (const event of ["pointerenter", "focus", "click"]) {
    node.addEventListener(event, () => change(n));
  }
  return node;
}

// The arrow keys go to the next of several nodes.
function arrows(nodes) {
  nodes.forEach((node, n) =>
    node.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[
        event.key
      ];
      const next = move && nodes[n + move];
      if (next) {
        event.preventDefault();
        next.focus();
      }
    }),
  );
}

// Saves the view as the file that `visualization.to_html` writes: the page fills the
// same template, which a live page holds and a saved file does not.
const escaped = (text) =>
  text.replace(
    /[&<>"']/g,
    (character) =>
      ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" })[
        character
      ],
  );

function save(element, template) {
  const kind = element.getAttribute("kind");
  const source = element.getAttribute("data");
  const data = JSON.parse(source);
  const attribute = source.replace(
    /[&<']/g,
    (character) => ({ "&": "&amp;", "<": "&lt;", "'": "&#x27;" })[character],
  );
  const parts = {
    title: escaped(data.title),
    caption: data.caption ? `<p class="caption">${escaped(data.caption)}</p>\n` : "",
    views: `<attention-view kind="${kind}" data='${attribute}'></attention-view>`,
  };
  const page = template.replace(
    /\{\{(title|caption|views)\}\}/g,
    (_, name) => parts[name],
  );
  const url = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  const link = make("a", { href: url, download: `${kind}.html` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

class AttentionView extends HTMLElement {
  static observedAttributes = ["kind", "data"];
  connectedCallback() {
    this.draw();
  }
  // A live page may give an element other data.
  attributeChangedCallback() {
    if (!this.shadowRoot || this.waiting) return;
    this.waiting = true;
    queueMicrotask(() => {
      this.waiting = false;
      this.draw();
    });
  }
  draw() {
    const kind = this.getAttribute("kind");
    const data = JSON.parse(this.getAttribute("data"));
    const body = make("div", {});
    const root = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    root.replaceChildren(make("style", { text: viewStyle }), body);
    if (this.hasAttribute("heading")) {
      body.append(make("h2", { text: data.title }));
      if (data.caption) body.append(make("p", { class: "note", text: data.caption }));
    }
    views[kind](body, data, (kept[`${kind} ${data.title}`] ??= {}));
    const template = document.getElementById("attention-view-template");
    if (template) {
      const text = "Save as one HTML file";
      const onclick = () => save(this, JSON.parse(template.textContent));
      root.append(make("button", { type: "button", class: "save", text, onclick }));
    }
  }
}
