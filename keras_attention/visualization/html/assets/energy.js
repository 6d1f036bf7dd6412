// A Hopfield retrieval: the state at each step, its energy, and the weight of each
// stored pattern. Images are flat lists of numbers, row by row.
views.energy = (root, data) => {
  const { rows, columns, low, high } = data;
  const count = data.states.length;
  const image = (values, label) => picture(values, rows, columns, low, high, label);
  const now = make("div", {});
  now.style.width = "170px";
  const say = make("p", { role: "status" });
  const [curve, mark] = energyCurve(data.energies, (step) => go(step));
  const strip = make("div", { class: "strip" });
  const buttons = data.states.map((state, step) =>
    make(
      "button",
      { type: "button", "aria-label": `step ${step}`, onclick: () => go(step) },
      image(state, ""),
      make("span", { text: step ? `step ${step}` : "query" }),
    ),
  );
  strip.append(...buttons);
  arrows(buttons);
  const bars = [];
  const stored = make("div", { class: "strip" });
  data.patterns.forEach((pattern, s) => {
    const bar = make("span", { class: "bar", weight: 0 });
    const label = make("span", { text: "" });
    bars.push([bar, label]);
    stored.append(
      make(
        "figure",
        {},
        image(pattern, data.names[s]),
        make("figcaption", {}, data.names[s], make("br"), label),
        bar,
      ),
    );
  });
  const [controls, go] = stepper(
    "Step",
    count,
    (step) => (step ? `${step} of ${count - 1}` : "the query"),
    (step) => {
      now.replaceChildren(image(data.states[step], `state at step ${step}`));
      buttons.forEach((button, n) => button.setAttribute("aria-current", n === step));
      mark(step);
      const energy = `Energy ${data.energies[step].toPrecision(4)}.`;
      let most = "";
      if (data.weights.length) {
        const weights = data.weights[step];
        weights.forEach((weight, s) => {
          bars[s][0].style.setProperty("--w", weight);
          bars[s][1].textContent = `${percent(weight)} %`;
        });
        const best = weights.indexOf(Math.max(...weights));
        most = ` Most alike: ${data.names[best]}, weight ${percent(weights[best])} %.`;
      }
      say.textContent = energy + most;
    },
  );
  root.append(
    controls,
    make(
      "div",
      { class: "columns" },
      make("div", {}, make("h3", { text: "The state" }), now),
      make(
        "div",
        { class: "grow" },
        make("h3", { text: "Its energy falls" }),
        curve,
        say,
      ),
    ),
  );
  if (count > 1) root.append(make("h3", { text: "All steps" }), strip);
  if (data.patterns.length) {
    root.append(
      make("h3", { text: "Stored patterns, and their weight in the next step" }),
      stored,
      make("p", {
        class: "note",
        text: "The next state is the mean of the stored patterns by these weights: attention.",
      }),
    );
  }
  for (const note of data.notes) root.append(make("p", { class: "note", text: note }));
  go(0);
};

// A curve of one number a step; returns [svg, mark].
function energyCurve(values, change) {
  const svg = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes))
      node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const [width, height, left, right, top, bottom] = [400, 190, 62, 14, 12, 34];
  const least = Math.min(...values),
    most = Math.max(...values);
  const x = (step) =>
    left +
    (width - left - right) * (values.length > 1 ? step / (values.length - 1) : 0.5);
  const y = (value) =>
    top +
    (height - top - bottom) * (most > least ? (most - value) / (most - least) : 0.5);
  const figure = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `Energy at each step: ${values.map((v) => v.toPrecision(4)).join(", ")}`,
  });
  figure.append(
    svg("line", { class: "axis", x1: left, y1: top, x2: left, y2: height - bottom }),
    svg("line", {
      class: "axis",
      x1: left,
      y1: height - bottom,
      x2: width - right,
      y2: height - bottom,
    }),
    svg(
      "text",
      { x: left - 6, y: y(most) + 4, "text-anchor": "end" },
      most.toPrecision(3),
    ),
    svg(
      "text",
      { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" },
      "step",
    ),
  );
  if (most > least)
    figure.append(
      svg(
        "text",
        { x: left - 6, y: y(least) + 4, "text-anchor": "end" },
        least.toPrecision(3),
      ),
    );
  const every = Math.ceil(values.length / 10);
  values.forEach((_, step) => {
    if (step % every === 0)
      figure.append(
        svg(
          "text",
          { x: x(step), y: height - bottom + 14, "text-anchor": "middle" },
          step,
        ),
      );
  });
  figure.append(
    svg("polyline", {
      class: "curve",
      points: values.map((v, n) => `${x(n)},${y(v)}`).join(" "),
    }),
  );
  const dots = values.map((value, step) => {
    const dot = svg("circle", { class: "dot", cx: x(step), cy: y(value), r: 4 });
    dot.addEventListener("click", () => change(step));
    figure.append(dot);
    return dot;
  });
  const mark = (step) =>
    dots.forEach((dot, n) => {
      dot.setAttribute("r", n === step ? 7 : 4);
      dot.classList.toggle("now", n === step);
    });
  return [figure, mark];
}
