// Words, and what a word attends to, for each layer and head.
// A group is a layer: {name, queries, keys, weights: (H, T, S)}.

// Choices of the group and the head; `change(map, group)` gets the chosen (T, S).
function headChoices(data, choices, change) {
  const fit = (index, count) => (index < count ? index : count - 1);
  choices.group = fit(choices.group ?? data.groups.length - 1, data.groups.length);
  choices.head = fit(choices.head ?? 0, data.groups[choices.group].weights.length + 1);
  const bar = make("div", { class: "controls" });
  const draw = () => {
    const group = data.groups[choices.group];
    const heads = group.weights.length;
    choices.head = heads === 1 ? 0 : fit(choices.head, heads + 1); // 0: the mean
    bar.replaceChildren(
      choice(
        "Layer",
        data.groups.map((g) => g.name),
        choices.group,
        (n) => {
          choices.group = n;
          draw();
        },
      ),
      choice(
        "Head",
        heads === 1
          ? ["1"]
          : ["mean of all heads", ...group.weights.map((_, h) => `head ${h + 1}`)],
        choices.head,
        (n) => {
          choices.head = n;
          draw();
        },
      ),
    );
    change(choices.head ? group.weights[choices.head - 1] : mean(group.weights), group);
  };
  return [bar, draw];
}

// A small map for each layer and head; pressing one chooses it.
function overview(data, choices, draw) {
  const most = Math.max(...data.groups.map((group) => group.weights.length));
  const grid = make("div", { class: "maps" });
  grid.style.gridTemplateColumns = `minmax(3rem, auto) repeat(${most}, auto)`;
  grid.append(make("span"));
  for (let h = 0; h < most; h++)
    grid.append(make("span", { text: most > 1 ? `head ${h + 1}` : "" }));
  const buttons = [];
  data.groups.forEach((group, g) => {
    grid.append(make("span", { class: "row", text: group.name }));
    for (let h = 0; h < most; h++) {
      if (h >= group.weights.length) {
        grid.append(make("span"));
        continue;
      }
      const button = make(
        "button",
        {
          type: "button",
          "aria-label": `${group.name}, head ${h + 1}`,
          onclick: () => {
            choices.group = g;
            choices.head = group.weights.length === 1 ? 0 : h + 1;
            draw();
          },
        },
        thumbnail(group.weights[h], 56),
      );
      buttons.push([button, g, group.weights.length === 1 ? 0 : h + 1]);
      grid.append(button);
    }
  });
  const mark = () =>
    buttons.forEach(([button, g, h]) =>
      button.setAttribute(
        "aria-current",
        g === choices.group && (choices.head === h || choices.head === 0),
      ),
    );
  return [frame("All layers and heads", grid), mark, buttons.length];
}

// The numbers of one map, built when they are asked for.
function numbers(map, group) {
  const table = make("table", { class: "alignment" });
  table.append(
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        make("td", { text: "word ↓ attends to →" }),
        ...group.keys.map((key) => make("th", { scope: "col", text: key })),
      ),
    ),
  );
  table.append(
    make(
      "tbody",
      {},
      ...map.map((row, t) =>
        make(
          "tr",
          {},
          make("th", { scope: "row", text: group.queries[t] }),
          ...row.map((w) => cell(w)),
        ),
      ),
    ),
  );
  return frame("The numbers, in per cent", table);
}

views.heads = (root, data, choices) => {
  const tokens = JSON.stringify(
    data.groups.map((group) => [group.queries, group.keys]),
  );
  if (choices.tokens !== tokens) choices.word = data.word;
  choices.tokens = tokens;
  choices.reverse ??= false;
  let current = null;
  const asked = make("div", { class: "words" });
  const found = make("div", { class: "words" });
  const heading = make("h3", { text: "Point at a word" });
  const keyHeading = make("h3", { text: "It attends to" });
  const say = make("p", { role: "status" });
  const details = make(
    "details",
    {},
    make("summary", { text: "The numbers, as a table" }),
  );
  let table = null; // fills `details` when it is open
  details.addEventListener("toggle", () => fill());
  const fill = () => {
    if (!details.open || table) return;
    table = numbers(...current);
    details.append(table);
  };
  const shadeWords = () => {
    const [map, group] = current;
    const same =
      group.queries === group.keys ||
      group.queries.join("\n") === group.keys.join("\n");
    const length = choices.reverse ? group.keys.length : group.queries.length;
    choices.word = Math.min(choices.word, length - 1);
    const n = choices.word;
    const shares = choices.reverse ? map.map((row) => row[n]) : map[n];
    const from = choices.reverse ? group.keys : group.queries;
    const to = choices.reverse ? group.queries : group.keys;
    const targets = same ? [...asked.children] : [...found.children];
    targets.forEach((node, s) => {
      shade(node, shares[s]);
      node.querySelector("small").textContent = `${percent(shares[s])} %`;
    });
    [...asked.children].forEach((node, t) => {
      node.classList.toggle("is-marked", t === n);
      node.setAttribute("aria-pressed", t === n);
    });
    const order = shares
      .map((w, s) => [w, s])
      .sort((a, b) => b[0] - a[0])
      .slice(0, 3);
    const list = order
      .filter(([w]) => w >= 0.005)
      .map(([w, s]) => `“${to[s]}” ${percent(w)} %`)
      .join(", ");
    say.textContent =
      (choices.reverse ? `Who attends to “${from[n]}”: ` : `“${from[n]}” attends to `) +
      (list || "nothing");
  };
  const [bar, draw] = headChoices(data, choices, (map, group) => {
    current = [map, group];
    table?.remove();
    table = null;
    const same = group.queries.join("\n") === group.keys.join("\n");
    const from = choices.reverse ? group.keys : group.queries;
    const to = choices.reverse ? group.queries : group.keys;
    const small = () => make("small", { text: "" });
    asked.replaceChildren(
      ...from.map((word, n) =>
        pointable(
          make(
            "button",
            { type: "button", class: "word", "aria-pressed": "false" },
            make("span", { text: word }),
            same ? small() : null,
          ),
          n,
          (n) => {
            choices.word = n;
            shadeWords();
          },
        ),
      ),
    );
    arrows([...asked.children]);
    found.replaceChildren(
      ...(same
        ? []
        : to.map((word) =>
            make("span", { class: "word" }, make("span", { text: word }), small()),
          )),
    );
    keyHeading.hidden = same;
    keyHeading.textContent = choices.reverse
      ? "It gets attention from"
      : "It attends to";
    shadeWords();
    fill();
    mark();
  });
  const directions = ["what the word attends to", "which words attend to it"];
  const way = make(
    "div",
    { class: "controls" },
    choice("Show", directions, choices.reverse ? 1 : 0, (n) => {
      choices.reverse = n === 1;
      draw();
    }),
  );
  const [maps, mark, count] = overview(data, choices, () => draw());
  root.append(bar, way, heading, asked, keyHeading, found, say);
  if (count > 1)
    root.append(
      make("h3", { text: "All layers and heads" }),
      maps,
      make("p", {
        class: "note",
        text: "One small map each: rows are the words that attend, columns those attended to. Press a map to choose it.",
      }),
    );
  root.append(
    details,
    make("p", {
      class: "note",
      text: [
        "Darker (in the dark: lighter) means more attention; the attention of a word adds up to 100 %.",
        ...data.notes,
      ].join(" "),
    }),
  );
  draw();
};
