"""The drawings of recurrent networks and of the first attention."""

from drawings import BLUE, GREEN, GREY, ORANGE, SOFT, Drawing

DIRECT, SCORED = "#1f5fd0", "#c2410c"  # the colors of two paths


def stacked() -> Drawing:
    """Two recurrent layers over three words."""
    d = Drawing(600, 350)
    rows = ((210, "1", BLUE), (110, "2", GREEN))
    for y, layer, fill in rows:
        d.text(54, y + 20, f"layer {layer}", bold=True)
        for n in range(3):
            x = 130 + 160 * n
            d.box(x, y, 80, 40, f"h^{{({layer})}}_{{{n + 1}}}", fill=fill)
            d.arrow((x + 40, y + 100), (x + 40, y + 40))
            d.text(x + 50, y + 70, f"W^{{({layer})}}", size=13, anchor="start")
            if n:
                d.arrow((x - 80, y + 20), (x, y + 20))
                d.text(x - 40, y + 6, f"R^{{({layer})}}", size=13)
    for n, word in enumerate(("the", "cats", "that")):
        x = 130 + 160 * n
        d.box(x, 310, 80, 28, word, fill=GREY, size=13)
        d.arrow((x + 40, 110), (x + 40, 50))
        d.text(x + 50, 80, "W_{y}", size=13, anchor="start")
        d.text(x + 40, 34, f"p(y_{{{n + 2}}} | …)", size=13)
    d.text(54, 324, "read", color=SOFT)
    d.text(54, 34, "predicted", color=SOFT)
    return d


def lstm() -> Drawing:
    """One step of an LSTM, with the cell state along the top."""
    d = Drawing(740, 350)
    d.box(110, 40, 540, 240, fill="#fafafa")
    # The cell state: times f, plus i times the new value.
    d.arrow((30, 80), (166, 80))
    d.text(60, 64, "m_{t-1}")
    d.box(166, 64, 32, 32, "×", fill=ORANGE, size=18)
    d.arrow((198, 80), (334, 80))
    d.box(334, 64, 32, 32, "+", fill=ORANGE, size=18)
    d.arrow((366, 80), (710, 80))
    d.text(690, 64, "m_{t}")
    d.box(334, 130, 32, 32, "×", fill=ORANGE, size=18)
    d.arrow((350, 130), (350, 96))
    # The gates and the new value, from x and the state before.
    gates = (
        (150, "f_{t}: σ", "forget"),
        (266, "i_{t}: σ", "write"),
        (366, "tanh", "new value"),
        (466, "o_{t}: σ", "show"),
    )
    for x, name, role in gates:
        d.box(x, 190, 68, 32, name, fill=BLUE)
        d.text(x + 34, 235, role, size=12, color=SOFT)
        d.arrow((x + 34, 258), (x + 34, 244))
    d.arrow((30, 258), (500, 258), head=False)
    d.text(60, 242, "h_{t-1}")
    d.arrow((130, 320), (130, 258), head=False)
    d.box(90, 314, 80, 30, "x_{t}", fill=GREY)
    d.arrow((182, 190), (182, 96))
    d.arrow((300, 190), (300, 146), (334, 146))
    d.arrow((400, 190), (400, 146), (366, 146))
    # What the cell shows.
    d.box(560, 120, 60, 30, "tanh", fill=BLUE)
    d.arrow((590, 80), (590, 120))
    d.box(574, 190, 32, 32, "×", fill=ORANGE, size=18)
    d.arrow((590, 150), (590, 190))
    d.arrow((534, 206), (574, 206))
    d.arrow((606, 206), (710, 206))
    d.text(690, 190, "h_{t}")
    d.text(430, 328, "× and + : number by number", size=13, color=SOFT)
    return d


def encoder_decoder() -> Drawing:
    """Two networks without attention: one vector carries the sentence."""
    d = Drawing(740, 250)
    _encoder(d, 120, both_ways=False)
    d.arrow((330, 140), (420, 140))
    d.text(375, 124, "s_{0} = h_{S}", size=13)
    _decoder(d, 120)
    d.text(170, 20, "encoder", bold=True)
    d.text(570, 20, "decoder", bold=True)
    return d


def attention() -> Drawing:
    """The same with attention: for each output word a sum of all states."""
    d = Drawing(740, 360)
    d.text(170, 20, "encoder, in both directions", bold=True)
    d.text(570, 20, "decoder", bold=True)
    _encoder(d, 200, both_ways=True)
    # The weights of one step and their sum.
    shares = ("0.1", "0.8", "0.1")
    for n, share in enumerate(shares):
        x = 60 + 100 * n
        d.arrow((x, 200), (x, 152))
        d.matrix(x - 22, 126, [[float(share)]], cell=(44, 26))
        d.text(x, 139, share, size=12)
        d.arrow((x, 126), (140 + 20 * n, 92))
    d.text(8, 139, "α_{2j}", size=13, anchor="start")
    d.box(100, 58, 120, 34, "c_{2} = Σ α_{2j} h_{j}", fill=ORANGE, size=13)
    d.arrow((220, 75), (380, 75), (380, 262), (532, 262), (532, 240))
    d.text(390, 90, "c_{2}", size=13, anchor="start")
    d.arrow((330, 220), (420, 220))
    d.text(400, 234, "s_{0}", size=13)
    _decoder(d, 200)
    # The query: the state before.
    d.path("M420 208C385 204,400 139,292 139", dashed=True)
    d.text(292, 122, "the query s_{1}", size=12, color=SOFT, anchor="start")
    d.text(
        370,
        344,
        "z_{2j} = score(s_{1}, h_{j}), then α_{2} = softmax(z_{2})",
        size=13,
        color=SOFT,
    )
    return d


def two_paths() -> Drawing:
    """The way back from the context to the states, in two colors."""
    d = Drawing(600, 370)
    d.box(490, 130, 100, 40, "c = Σ α_{j} h_{j}", fill=ORANGE, size=13)
    d.arrow((555, 82), (555, 130))
    d.text(553, 70, "from the loss", size=13)
    d.text(30, 20, "the linear path", anchor="start", color=DIRECT, bold=True)
    d.arrow((500, 130), (500, 44), (70, 44), head=False, color=DIRECT)
    d.text(
        30, 352, "the path through the softmax", anchor="start", color=SCORED, bold=True
    )
    d.arrow((540, 170), (540, 312), (460, 312), color=SCORED)
    d.box(20, 296, 440, 32, "α = softmax(z)")
    for n in range(3):
        x = 20 + 160 * n
        d.box(x, 130, 100, 40, f"h_{{{n + 1}}}", fill=BLUE)
        d.arrow((x + 50, 44), (x + 50, 130), color=DIRECT)
        d.text(x + 58, 88, f"× α_{{{n + 1}}}", size=13, anchor="start", color=DIRECT)
        d.box(x + 20, 220, 60, 30, f"z_{{{n + 1}}}")
        d.arrow((x + 50, 296), (x + 50, 250), color=SCORED)
        d.arrow((x + 50, 220), (x + 50, 170), color=SCORED)
        if n:
            d.arrow((x, 150), (x - 60, 150), dashed=True, color=SOFT)
            d.text(x - 30, 273, "× ∂α_{j}/∂z_{i}", size=13, color=SCORED)
    d.text(590, 352, "dashed: from state to state", size=13, color=SOFT, anchor="end")
    return d


def _encoder(d: Drawing, y: int, both_ways: bool) -> None:
    """Adds three states above the words that they read."""
    for n, word in enumerate(("jane", "visite", "l'afrique")):
        x = 30 + 100 * n
        d.box(x, y, 60, 40, f"h_{{{n + 1}}}", fill=BLUE)
        d.arrow((x + 30, y + 90), (x + 30, y + 40))
        d.box(x - 10, y + 90, 80, 28, word, fill=GREY, size=13)
        if n:
            d.arrow((x - 40, y + 14), (x, y + 14))
            if both_ways:
                d.arrow((x, y + 28), (x - 40, y + 28))


def _decoder(d: Drawing, y: int) -> None:
    """Adds three states, between the words read and the words written."""
    words = ("(start)", "jane", "visits", "africa")
    for n in range(3):
        x = 420 + 100 * n
        d.box(x, y, 60, 40, f"s_{{{n + 1}}}", fill=GREEN)
        d.arrow((x + 30, y + 90), (x + 30, y + 40))
        d.box(x - 10, y + 90, 80, 28, words[n], fill=GREY, size=13)
        d.arrow((x + 30, y), (x + 30, y - 38))
        d.box(x - 10, y - 66, 80, 28, words[n + 1], fill=GREY, size=13)
        if n:
            d.arrow((x - 40, y + 20), (x, y + 20))


DRAWINGS = {
    "guides/stacked-rnn.svg": stacked,
    "guides/lstm.svg": lstm,
    "guides/encoder-decoder.svg": encoder_decoder,
    "guides/attention.svg": attention,
    "guides/two-paths.svg": two_paths,
}
