"""The drawings of the memory network, the DNC and the Transformer."""

import json

from drawings import BLUE, DOCS, GREEN, GREY, ORANGE, SOFT, Drawing

PICTURES = json.loads((DOCS / "pictures.json").read_text("utf-8"))


def memory_network() -> Drawing:
    """One hop in detail, and K hops on top of each other."""
    d = Drawing(740, 430)
    d.text(220, 16, "One hop", bold=True)
    d.text(610, 16, "Two hops, adjacent tying", bold=True)
    facts = [
        "mary went to the garden",
        "mary moved to the kitchen",
        "mary picked up the milk",
    ]
    for n, fact in enumerate(facts):
        d.box(10, 306 + 30 * n, 190, 26, fact, fill=GREY, size=12)
    d.text(105, 410, "the story", size=12, color=SOFT)
    d.box(290, 336, 150, 26, "where is the milk?", fill=GREY, size=12)
    d.text(365, 376, "the question", size=12, color=SOFT)
    # The memories, the weights and their sum.
    for n in range(3):
        d.box(40 + 44 * n, 232, 36, 44, f"m_{{{n + 1}}}", fill=BLUE)
        d.box(40 + 44 * n, 72, 36, 44, f"c_{{{n + 1}}}", fill=ORANGE)
    d.matrix(40, 160, [["p_{1}", "p_{2}", "p_{3}"]], cell=(44, 26))
    d.arrow((60, 306), (60, 276))
    d.text(82, 291, "A", size=13)
    d.arrow((24, 306), (24, 94), (40, 94))
    d.text(14, 200, "C", size=13)
    d.arrow((106, 232), (106, 186))
    d.text(112, 208, "softmax(u·m_{i})", size=12, anchor="start")
    d.arrow((106, 160), (106, 116))
    d.arrow((172, 94), (262, 94))
    d.text(216, 80, "o = Σ p_{i} c_{i}", size=12)
    d.box(330, 240, 70, 34, "u", fill=GREEN)
    d.arrow((365, 336), (365, 274))
    d.text(380, 305, "B", size=13)
    d.arrow((330, 257), (172, 257))
    d.box(262, 76, 36, 36, "+")
    d.arrow((365, 240), (365, 94), (298, 94))
    d.arrow((280, 76), (280, 40), (345, 40))
    d.text(312, 28, "u + o", size=12)
    d.box(345, 24, 90, 32, "W_{y}", fill="white")
    d.text(390, 70, "the answer", size=12, color=SOFT)
    # The stack: the output memory of a hop is the input memory of the next.
    d.arrow((460, 10), (460, 420), dashed=True, head=False)
    for n, (left, right) in enumerate((("A", "C^{1}"), ("C^{1}", "C^{2}"))):
        y = 268 - 130 * n
        d.box(560, y, 110, 76, f"hop {n + 1}", fill="white")
        d.arrow((520, y + 56), (560, y + 56))
        d.arrow((520, y + 20), (560, y + 20))
        d.text(540, y + 46, left, size=12)
        d.text(540, y + 10, right, size=12)
    d.box(480, 130, 40, 214, "story", fill=GREY, size=12)
    d.box(570, 382, 90, 28, "question", fill=GREY, size=12)
    d.arrow((615, 382), (615, 344))
    d.text(634, 364, "u^{1}, B = A", size=12, anchor="start")
    d.arrow((615, 268), (615, 214))
    d.text(625, 242, "u^{2} = u^{1} + o^{1}", size=12, anchor="start")
    d.arrow((615, 138), (615, 88))
    d.text(625, 114, "u^{3} = u^{2} + o^{2}", size=12, anchor="start")
    d.box(555, 48, 120, 40, "W_{y}^{⊤} = C^{2}", "kitchen", size=12)
    return d


def dnc() -> Drawing:
    """The controller, its heads and the memory, as in figure 1 of the paper."""
    d = Drawing(740, 430)
    d.box(20, 150, 130, 110, "controller", "(an LSTM)", fill=GREEN)
    d.arrow((60, 350), (60, 260))
    d.box(20, 350, 80, 34, "input x_{t}", fill=GREY, size=13)
    d.arrow((85, 150), (85, 76))
    d.box(30, 42, 110, 34, "output y_{t}", fill=GREY, size=13)
    d.text(290, 18, "interface: keys, gates, modes, words", size=13, color=SOFT)
    d.box(
        230,
        70,
        130,
        76,
        "write head",
        "e_{t}, v_{t}, k^{w}, β^{w}",
        "g^{a}, g^{w}",
        fill=ORANGE,
        size=13,
    )
    d.box(
        230, 186, 130, 60, "read head 1", "k^{r}, β^{r}, π, g^{f}", fill=BLUE, size=13
    )
    d.box(
        230, 262, 130, 60, "read head R", "k^{r}, β^{r}, π, g^{f}", fill=BLUE, size=13
    )
    d.arrow((150, 180), (190, 180), (190, 108), (230, 108))
    d.arrow((190, 180), (190, 216), (230, 216))
    d.arrow((190, 216), (190, 292), (230, 292))
    # The memory: a row is a slot; one is written, one is read.
    shades = [[0.5, 0.2, 0.6, 0.3], [0.7, 0.1, 0.3, 0.6], [0.2, 0.6, 0.4, 0.1]]
    shades += [[0, 0, 0, 0], [0.4, 0.5, 0.1, 0.7], [0, 0, 0, 0]]
    d.matrix(430, 80, shades, cell=(34, 36), color=(120, 120, 120))
    d.text(498, 62, "memory X (slots × width)", size=13)
    d.arrow((360, 108), (430, 98))
    d.text(396, 88, "w^{w}", size=13)
    d.arrow((430, 170), (360, 208))
    d.arrow((430, 242), (360, 286))
    d.text(400, 214, "w^{r}", size=13)
    d.matrix(
        600, 80, [[1.0], [0.9], [0.8], [0.05], [1.0], [0.0]], (26, 36), (225, 130, 30)
    )
    d.text(613, 62, "usage u", size=13)
    # The links: from each slot to the one that was written next.
    for first, then in ((2, 1), (1, 4), (4, 0)):
        a, b = 98 + 36 * first, 98 + 36 * then
        out = 664 + 12 * abs(first - then)
        d.path(f"M630 {a}C{out} {a},{out} {b},{632} {b}")
    d.text(640, 326, "links L: from a slot", size=12)
    d.text(640, 342, "to what was written next", size=12)
    d.arrow((230, 232), (212, 232), (212, 308), head=False)
    d.arrow((230, 308), (212, 308), (212, 367), (132, 367), (132, 260))
    d.text(
        300,
        384,
        "words read, r_{t}: into the output, and into the next step's controller",
        size=12,
    )
    d.arrow((150, 240), (168, 240), (168, 59), (140, 59), dashed=True)
    d.text(
        20,
        416,
        "orange: written · blue: read · dashed: r_{t} joins h_{t} in the output",
        size=12,
        anchor="start",
        color=SOFT,
    )
    return d


def transformer() -> Drawing:
    """The encoder and the decoder of the paper, each with its sublayers."""
    d = Drawing(700, 620)

    def sublayer(x, y, name, fill):
        d.box(x, y, 190, 34, name, fill=fill, size=13)
        d.box(x, y - 26, 190, 24, "add, norm", fill="#fff8c5", size=12)

    def around(x, below, y):  # the residual connection, past a sublayer
        d.arrow((x + 95, below), (x - 14, below), (x - 14, y - 14), (x, y - 14))

    d.box(36, 250, 236, 206, dashed=True)
    d.text(52, 268, "N ×", anchor="start", color=SOFT)
    sublayer(60, 394, "self-attention", BLUE)
    sublayer(60, 302, "MLP", GREEN)
    d.box(396, 112, 256, 344, dashed=True)
    d.text(640, 130, "N ×", anchor="end", color=SOFT)
    sublayer(430, 394, "masked self-attention", BLUE)
    sublayer(430, 284, "cross-attention", ORANGE)
    sublayer(430, 180, "MLP", GREEN)
    for x, words, name in (
        (60, "source", "Encoder"),
        (430, "target so far", "Decoder"),
    ):
        d.box(x + 20, 576, 150, 30, words, fill=GREY, size=13)
        d.arrow((x + 95, 576), (x + 95, 552))
        d.box(x + 20, 520, 150, 32, "√D · embedding", size=13)
        d.box(x + 77, 480, 36, 26, "+")
        d.arrow((x + 95, 520), (x + 95, 506))
        side = x - 40 if x > 100 else x + 200
        d.text(side if x > 100 else side - 4, 493, "positions", size=12)
        d.arrow((side + 30, 493), (x + 77, 493)) if x > 100 else d.arrow(
            (side - 32, 493), (x + 113, 493)
        )
        d.arrow((x + 95, 480), (x + 95, 428))
        d.text(*((84, 238) if x < 100 else (430, 100)), name, bold=True)
        around(x, 444, 394)
    d.arrow((155, 368), (155, 336))
    around(60, 352, 302)
    d.arrow((525, 368), (525, 318))
    around(430, 334, 284)
    d.arrow((525, 258), (525, 214))
    around(430, 230, 180)
    # The encoder's output is the memory of each cross-attention.
    d.arrow((155, 276), (155, 226), (336, 226), (336, 301), (430, 301))
    d.text(250, 212, "keys and values (B, S, D)", size=12)
    d.text(372, 314, "K, V", size=12)
    d.text(540, 327, "Q", size=12)
    d.arrow((525, 154), (525, 86))
    d.box(450, 54, 150, 32, "W_{y}, softmax", size=13)
    d.arrow((525, 54), (525, 34))
    d.text(525, 24, "the next word", size=13)
    return d


def queries_keys_values() -> Drawing:
    """The matrices of one head for two words, with the numbers of the guide."""
    d = Drawing(740, 350)
    blue, orange, green = (70, 120, 220), (225, 130, 30), (60, 160, 80)
    x = [[0.5, 0.2, 0.7, 0.3], [0.3, 0.6, 0.2, 0.5]]
    kernels = (("q", blue, 40), ("k", orange, 150), ("v", green, 260))
    for word, y in (("Thinking", 160), ("Machines", 178)):
        d.text(66, y, word, size=12, anchor="end")
    d.matrix(72, 150, x, color=(120, 120, 120))
    d.text(108, 136, "X", bold=True)
    for name, color, y in kernels:
        d.arrow((150, 168), (186, y + 36))
        d.matrix(
            192,
            y,
            [[0.3, 0.6, 0.2], [0.5, 0.2, 0.4], [0.2, 0.5, 0.6], [0.6, 0.3, 0.2]],
            color=color,
        )
        d.text(219, y - 12, f"W_{{{name}}}", bold=True)
        d.text(262, y + 36, "=", size=16)
        d.matrix(282, y + 18, [[0.6, 0.3, 0.5], [0.3, 0.5, 0.2]], color=color)
        d.text(309, y + 6, f"{name.upper()}", bold=True)
    d.arrow((344, 76), (384, 92))
    d.arrow((344, 186), (384, 116))
    d.matrix(392, 86, [["112", "96"], ["104", "112"]], cell=(40, 24))
    d.text(432, 72, "Q Kᵀ", bold=True)
    d.arrow((478, 110), (516, 110))
    d.text(497, 96, "÷ √64", size=12)
    d.matrix(522, 86, [["14", "12"], ["13", "14"]], cell=(40, 24))
    d.arrow((562, 140), (562, 176))
    d.text(570, 158, "softmax of each row", size=12, anchor="start")
    d.matrix(522, 184, [[".88", ".12"], [".27", ".73"]], cell=(40, 24))
    d.arrow((344, 296), (560, 296), (560, 236))
    d.text(640, 208, "=", size=16)
    d.text(612, 208, "· V", size=13)
    d.matrix(656, 190, [[0.55, 0.33, 0.45], [0.4, 0.4, 0.3]], color=green)
    d.text(683, 176, "O", bold=True)
    d.text(683, 244, ".88 v_{1} + .12 v_{2}", size=12)
    d.text(683, 260, "in the first row", size=11, color=SOFT)
    return d


def decoding() -> Drawing:
    """Four steps of a trained decoder, with the weights of one of its heads."""
    kept = PICTURES["guides/backwards.png"]
    weights, written, read = kept["arguments"]
    d = Drawing(740, 372)
    for place, step in enumerate((0, 1, 2, len(written) - 1)):
        x, y = 14 + 366 * (place % 2), 10 + 182 * (place // 2)
        d.box(x, y, 346, 166)
        d.text(x + 10, y + 16, f"step {step + 1}", size=12, anchor="start", bold=True)
        for n, word in enumerate(read):
            d.matrix(x + 8 + 36.6 * n, y + 32, [[weights[1][step][n]]], (36.6, 30))
            d.text(x + 26 + 36.6 * n, y + 47, word, size=11)
        d.text(
            x + 338,
            y + 72,
            "the source; darker: more weight",
            size=10,
            anchor="end",
            color=SOFT,
        )
        d.box(
            x + 8,
            y + 84,
            250,
            36,
            " ".join(["(start)", *written[:step]]),
            fill=GREY,
            size=11,
        )
        d.text(x + 133, y + 132, "what the decoder reads", size=10, color=SOFT)
        d.arrow((x + 258, y + 102), (x + 280, y + 102))
        d.box(x + 280, y + 84, 58, 36, written[step], fill=GREEN, size=13)
        d.text(x + 309, y + 132, "writes", size=10, color=SOFT)
        if step < len(written) - 1:
            note = f"“{written[step]}” joins the input of the next step"
            d.text(x + 173, y + 152, note, size=11)
        else:
            d.text(x + 173, y + 152, "the end token stops the loop", size=11)
    return d


DRAWINGS = {
    "guides/memory-network.svg": memory_network,
    "guides/dnc.svg": dnc,
    "guides/transformer.svg": transformer,
    "guides/queries-keys-values.svg": queries_keys_values,
    "guides/decoding.svg": decoding,
}
