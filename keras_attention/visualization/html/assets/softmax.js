// Vectors, and the attention of one to all of them. The page computes the weights:
// scores = q · k in each head, weights = softmax(β scores).
const EQUATION =
  '<math display="block"><msub><mi>p</mi><mi>i</mi></msub><mo>=</mo><mfrac><mrow><mi>exp</mi><mo>(</mo><mi>β</mi><mspace width="0.2em"/><mi>q</mi><mo>·</mo><msub><mi>k</mi><mi>i</mi></msub><mo>)</mo></mrow><mrow><munder><mo>∑</mo><mi>j</mi></munder><mi>exp</mi><mo>(</mo><mi>β</mi><mspace width="0.2em"/><mi>q</mi><mo>·</mo><msub><mi>k</mi><mi>j</mi></msub><mo>)</mo></mrow></mfrac><mo>,</mo><mspace width="0.8em"/><mi>T</mi><mo>=</mo><mfrac><mn>1</mn><mi>β</mi></mfrac></math>';

function softmax(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

views.softmax = (root, data, choices) => {
  const { words, vectors } = data;
  const width = vectors[0].length;
  const divisors = [];
  for (let h = 1; h <= Math.min(8, width); h++) if (width % h === 0) divisors.push(h);
  choices.query = Math.min(choices.query ?? 0, words.length - 1);
  choices.beta ??= Math.log10(data.beta);
  choices.heads = Math.min(choices.heads ?? 0, divisors.length - 1);
  const equation = make("div", { class: "equation" });
  equation.innerHTML = EQUATION; // a constant: no user text
  const slider = (label, least, most, step, value, change) => {
    const shown = make("span", {});
    const range = make("input", {
      type: "range",
      min: least,
      max: most,
      step,
      value,
      "aria-label": label,
    });
    const set = () => {
      const text = change(Number(range.value));
      shown.textContent = `${label}: ${text}`;
      range.setAttribute("aria-valuetext", text);
      draw();
    };
    range.addEventListener("input", set);
    return [make("label", { class: "wide" }, shown, range), set, range];
  };
  const bars = make("div", { class: "bars" });
  const say = make("p", { role: "status" });
  const tones = [
    "light-dark(#0b57a8,#8ec5ff)",
    "light-dark(#a63b00,#ffab70)",
    "light-dark(#23702f,#7fd48c)",
    "light-dark(#6b3fa0,#c9a6f5)",
  ];
  const rows = words.map((word, n) => {
    const button = make("button", {
      type: "button",
      text: word,
      "aria-pressed": "false",
      onclick: () => {
        choices.query = n;
        draw();
      },
    });
    const tracks = make("span", { class: "tracks" });
    const output = make("span", { class: "share" });
    bars.append(button, tracks, output);
    return [button, tracks, output];
  });
  arrows(rows.map(([button]) => button));
  const draw = () => {
    const heads = divisors[choices.heads],
      part = width / heads;
    const beta = 10 ** choices.beta;
    const weights = Array.from({ length: heads }, (_, h) =>
      softmax(
        vectors.map((key) => {
          let score = 0;
          for (let d = h * part; d < (h + 1) * part; d++)
            score += vectors[choices.query][d] * key[d];
          return beta * score;
        }),
      ),
    );
    const shares = words.map(
      (_, n) => weights.reduce((sum, head) => sum + head[n], 0) / heads,
    );
    bars.style.setProperty("--heads", heads);
    rows.forEach(([button, tracks, output], n) => {
      button.setAttribute("aria-pressed", n === choices.query);
      tracks.replaceChildren(
        ...weights.map((head, h) => {
          const bar = make("span", {
            class: "bar",
            weight: head[n],
            title: `head ${h + 1}: ${(100 * head[n]).toFixed(2)} %`,
          });
          bar.style.setProperty("--tone", tones[h % tones.length]);
          return bar;
        }),
      );
      output.textContent = `${(100 * shares[n]).toFixed(1)} %`;
    });
    const entropy = weights.map(
      (head) => -head.reduce((sum, p) => sum + (p > 0 ? p * Math.log(p) : 0), 0),
    );
    const spread = entropy.map((e) => Math.exp(e).toFixed(1)).join(", ");
    say.textContent =
      `“${words[choices.query]}” spreads its attention over ${spread} of ${words.length} words` +
      (heads > 1 ? " (each head)." : ".");
  };
  const [betaField, setBeta, betaRange] = slider(
    "β",
    -2,
    2,
    0.05,
    choices.beta,
    (value) => {
      choices.beta = value;
      const beta = 10 ** value;
      temperatureRange.value = -value;
      temperatureShown(`${Number((1 / beta).toPrecision(3))}`);
      return Number(beta.toPrecision(3)).toString();
    },
  );
  const temperatureLabel = make("span", {});
  const temperatureShown = (text) => {
    temperatureLabel.textContent = `Temperature T: ${text}`;
    temperatureRange.setAttribute("aria-valuetext", text);
  };
  const temperatureRange = make("input", {
    type: "range",
    min: -2,
    max: 2,
    step: 0.05,
    value: -choices.beta,
    "aria-label": "Temperature T",
    oninput: () => {
      betaRange.value = -temperatureRange.value;
      setBeta();
    },
  });
  const temperatureField = make(
    "label",
    { class: "wide" },
    temperatureLabel,
    temperatureRange,
  );
  const [headField, setHeads] = slider(
    "Heads",
    0,
    divisors.length - 1,
    1,
    choices.heads,
    (value) => {
      choices.heads = value;
      const heads = divisors[value];
      return `${heads} (each sees ${width / heads} of ${width} numbers)`;
    },
  );
  const presets = make(
    "div",
    { class: "controls" },
    ...[
      ["β → 0: the mean of all", -2],
      [`β = 1/√${width}`, -Math.log10(width) / 2],
      ["β = 1", 0],
      ["β large: the maximum", 2],
    ].map(([text, value]) =>
      make("button", {
        type: "button",
        text,
        onclick: () => {
          betaRange.value = value;
          setBeta();
        },
      }),
    ),
  );
  root.append(
    equation,
    make("div", { class: "controls" }, betaField, temperatureField, headField),
    presets,
    make("h3", { text: "Choose the word that asks; the bars show what it attends to" }),
    bars,
    say,
    make("p", {
      class: "note",
      text: [
        "With several heads, each bar is a head, which compares its own part of the vectors; the number is the mean.",
        ...data.notes,
      ].join(" "),
    }),
  );
  setHeads();
  setBeta();
};
