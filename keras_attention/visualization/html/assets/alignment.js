// The words of two texts, and the attention of each target word to the source.
views.alignment = (root, data, choices) => {
  const holder = make("div");
  const say = make("p", { role: "status" });
  const [bar, draw] = headChoices(data, choices, (map, group) => {
    const rows = [];
    const columns = group.keys.map((key) => make("th", { scope: "col", text: key }));
    const point = (t) => {
      rows.forEach((row, n) => row.classList.toggle("is-dim", n !== t));
      const order = map[t]
        .map((w, s) => [w, s])
        .sort((a, b) => b[0] - a[0])
        .slice(0, 3);
      say.textContent =
        `“${group.queries[t]}” attends to ` +
        order
          .filter(([w]) => w >= 0.005)
          .map(([w, s]) => `“${group.keys[s]}” ${percent(w)} %`)
          .join(", ");
    };
    const clear = () => {
      rows.forEach((row) => row.classList.remove("is-dim"));
      say.textContent = "Point at a row.";
    };
    const table = make(
      "table",
      { class: "alignment" },
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("td", { text: `${data.query_label} ↓ ${data.key_label} →` }),
          ...columns,
        ),
      ),
    );
    const body = make("tbody", { onpointerleave: clear });
    const words = group.queries.map((word, t) =>
      pointable(make("button", { type: "button", text: word }), t, point),
    );
    map.forEach((weights, t) => {
      const row = make(
        "tr",
        { onpointerenter: () => point(t) },
        make("th", { scope: "row" }, words[t]),
        ...weights.map((w) => cell(w)),
      );
      rows.push(row);
      body.append(row);
    });
    arrows(words);
    table.append(body);
    holder.replaceChildren(frame("The alignment, in per cent", table));
    mark();
    clear();
  });
  const [maps, mark, count] = overview(data, choices, () => draw());
  root.append(bar);
  for (const [label, text] of [
    [data.key_label, data.key_text],
    [data.query_label, data.query_text],
  ]) {
    if (text) root.append(make("p", {}, make("b", { text: `${label}: ` }), text));
  }
  root.append(
    holder,
    say,
    make("p", {
      class: "note",
      text: [
        "Cells: the attention of the row's word to the column's word, in per cent.",
        ...data.notes,
      ].join(" "),
    }),
  );
  if (count > 1) root.append(make("h3", { text: "All layers and heads" }), maps);
  draw();
};
