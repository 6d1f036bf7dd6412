// An external memory at each step: contents, write and read weights, usage.
views.memory = (root, data, choices) => {
  const steps = data.steps;
  const slots = data.slots; // numbers of the slots shown
  const width = data.memory[0][0].length;
  const columns = []; // the numbers beside the contents: [heading, values (T, M)]
  data.write.forEach((values, h) =>
    columns.push([data.write.length > 1 ? `write ${h + 1}` : "write", values]),
  );
  data.read.forEach((values, r) =>
    columns.push([data.read.length > 1 ? `read ${r + 1}` : "read", values]),
  );
  if (data.usage.length) columns.push(["in use", data.usage]);
  const head = make(
    "tr",
    {},
    make("th", { scope: "col", class: "slot", text: "slot" }),
    ...columns.map(([name]) =>
      make("th", { scope: "col", class: "number", text: name }),
    ),
    make("td", { class: "gap" }),
    make("th", {
      scope: "colgroup",
      colspan: width,
      text: `contents: ${width} numbers a slot`,
    }),
  );
  const body = make("tbody");
  const cells = slots.map((slot) => {
    const values = Array.from({ length: width }, () => make("td", { class: "value" }));
    const shares = columns.map(() => make("td", { class: "number cell" }));
    body.append(
      make(
        "tr",
        {},
        make("th", { scope: "row", text: slot }),
        ...shares,
        make("td", { class: "gap" }),
        ...values,
      ),
    );
    return [values, shares];
  });
  const scale = Math.max(...data.memory.flat(2).map(Math.abs)) || 1;
  const buttons = steps.map((name, t) =>
    make("button", {
      type: "button",
      text: name || String(t + 1),
      "aria-label": `step ${t + 1}: ${name}`,
      onclick: () => go(t),
    }),
  );
  const list = make("div", { class: "steps" }, ...buttons);
  arrows(buttons);
  const say = make("p", { role: "status" });
  const top = (values) => {
    const best = values.indexOf(Math.max(...values));
    return values[best] < 0.05
      ? null
      : `slot ${slots[best]} (${percent(values[best])} %)`;
  };
  const named = (t) =>
    `${t + 1} of ${steps.length}` + (steps[t] ? `, ${steps[t]}` : "");
  const [controls, go] = stepper("Step", steps.length, named, (t) => {
    choices.step = t;
    cells.forEach(([values, shares], m) => {
      values.forEach((node, w) => {
        const value = data.memory[t][m][w];
        node.style.setProperty("--w", Math.abs(value) / scale);
        node.classList.toggle("positive", value >= 0);
        node.classList.toggle("negative", value < 0);
        node.title = `slot ${slots[m]}, number ${w + 1}: ${value}`;
      });
      shares.forEach((node, c) => {
        const share = columns[c][1][t][m];
        shade(node, share);
        node.textContent = share >= 0.005 ? percent(share) : "";
      });
    });
    buttons.forEach((button, n) => button.setAttribute("aria-current", n === t));
    const parts = [];
    const wrote = data.write.map((values) => top(values[t])).filter((x) => x);
    parts.push(
      wrote.length ? `Writes to ${wrote.join(", ")}.` : "Writes almost nothing.",
    );
    const reads = data.read.map((values) => top(values[t])).filter((x) => x);
    parts.push(reads.length ? `Reads ${reads.join(", ")}.` : "Reads almost nothing.");
    if (data.outputs[t]) parts.push(`Output: ${data.outputs[t]}.`);
    say.textContent = parts.join(" ");
    choices.now = t;
    drawTimes(t);
  });
  // All steps at once: an image (M, T) for each column; a click goes to the step.
  const times = columns.map(([name, values]) => {
    const canvas = make("canvas", {
      width: steps.length,
      height: slots.length,
      role: "img",
      "aria-label": `${name}, all steps`,
    });
    const flat = slots.flatMap((_, m) => values.map((row) => row[m]));
    paint(canvas, flat, name.startsWith("write") ? [214, 110, 40] : [70, 130, 210]);
    const size = Math.max(3, Math.min(10, Math.floor(320 / steps.length)));
    canvas.style.width = `${size * steps.length}px`;
    canvas.style.height = `${Math.max(40, Math.min(6 * slots.length, 120))}px`;
    canvas.style.border = "1px solid var(--line)";
    canvas.addEventListener("click", (event) =>
      go(Math.min(steps.length - 1, Math.floor(event.offsetX / size))),
    );
    const line = make("div", {});
    line.style.cssText = `height:4px;width:${size}px;background:var(--warm)`;
    return [
      make("figure", {}, make("figcaption", { text: name }), canvas, line),
      line,
      size,
    ];
  });
  const drawTimes = (t) =>
    times.forEach(([, line, size]) => {
      line.style.marginLeft = `${size * t}px`;
    });
  const table = make("table", { class: "memory" }, make("thead", {}, head), body);
  // The contents take what is left of the width: no column is out of sight.
  table.style.width = `min(100%, ${50 + 50 * columns.length + 17 * width}px)`;
  root.append(
    controls,
    list,
    say,
    frame("The memory at this step", table),
    make("p", {
      class: "note",
      text: [
        "Contents: blue is above 0, orange below. Write, read, in use: per cent.",
        ...data.notes,
      ].join(" "),
    }),
    make("h3", {
      text: "All steps: slots from top to bottom, steps from left to right",
    }),
    frame(
      "All steps",
      make("div", { class: "columns" }, ...times.map(([figure]) => figure)),
    ),
  );
  go(0);
};
