// A story, and the attention of each hop to its sentences.
views.hops = (root, data, choices) => {
  const hops = data.weights.length; // weights (K, M)
  const cells = []; // (M, K)
  const buttons = [];
  let chosen = null;
  const choose = (hop) => {
    chosen = chosen === hop ? null : hop;
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", k === chosen));
    cells.forEach((row) =>
      row.forEach((node, k) =>
        node.classList.toggle("is-dim", chosen !== null && k !== chosen),
      ),
    );
    say.textContent =
      chosen === null ? "Press a hop to see it alone." : described(chosen);
  };
  const described = (hop) => {
    const most = data.weights[hop].indexOf(Math.max(...data.weights[hop]));
    return (
      `Hop ${hop + 1} attends most to “${data.sentences[most]}”, ` +
      `${percent(data.weights[hop][most])} %.`
    );
  };
  if (data.question)
    root.append(make("p", {}, make("b", { text: "Question: " }), data.question));
  const head = make("tr", {}, make("th", { scope: "col", text: "Story" }));
  for (let k = 0; k < hops; k++) {
    buttons.push(
      make("button", {
        type: "button",
        "aria-pressed": "false",
        text: `hop ${k + 1}`,
        onclick: () => choose(k),
      }),
    );
    head.append(make("th", { scope: "col" }, buttons[k]));
  }
  const body = make("tbody");
  data.sentences.forEach((sentence, m) => {
    const fact = data.supporting.includes(m);
    const row = make(
      "tr",
      {},
      make("th", { scope: "row", text: (fact ? "▶ " : "") + sentence }),
    );
    cells.push(data.weights.map((weights) => cell(weights[m])));
    row.append(...cells[m]);
    body.append(row);
  });
  const table = make("table", { class: "hops" }, make("thead", {}, head), body);
  const say = make("p", { role: "status", text: "Press a hop to see it alone." });
  root.append(frame("Attention of each hop to each sentence", table), say);
  const notes = ["Cells: the attention of a hop to a sentence, in per cent."];
  if (data.supporting.length) notes.push("▶ The answer needs this sentence.");
  notes.push(...data.notes);
  root.append(make("p", { class: "note", text: notes.join(" ") }));
  if (data.answers.length) {
    const list = make("div", { class: "answers" });
    for (const [word, share] of data.answers) {
      list.append(
        make(list.childElementCount ? "span" : "b", { text: word }),
        make("span", { class: "track" }, make("span", { class: "bar", weight: share })),
        make("span", { class: "note", text: `${percent(share)} %` }),
      );
    }
    root.append(make("h3", { text: "Answer" }), list);
  }
};
