"""The drawing of several heads, whose outputs are concatenated and projected."""

from drawings import SOFT, Drawing

BLUE, ORANGE = (70, 120, 220), (225, 130, 30)
GREY, MIXED = (120, 120, 120), (150, 110, 150)
SHADES = [[0.5, 0.2, 0.7], [0.3, 0.6, 0.2], [0.6, 0.4, 0.5]]
CELL = (18, 18)


def multi_head() -> Drawing:
    """Two heads of width 3 on three words of width 6, with the shapes of all parts."""
    d = Drawing(740, 310)
    both = [row + row[::-1] for row in SHADES]
    d.matrix(16, 138, both, CELL, GREY)
    d.text(70, 124, "X", bold=True)
    d.text(70, 206, "3 words × D = 6", size=12, color=SOFT)
    for number, (color, y) in enumerate(((BLUE, 46), (ORANGE, 216)), 1):
        d.arrow((128, 165), (150, 165), (150, y + 27), (172, y + 27))
        for place, letter in enumerate("QKV"):
            x = 176 + 62 * place
            d.matrix(x, y, SHADES, (16, 18), color)
            d.text(x + 24, y - 14, f"{letter}_{{{number}}}", size=13)
        d.text(262, y + 72, f"X times three matrices of head {number}", size=12)
        d.arrow((354, y + 27), (388, y + 27))
        d.matrix(394, y, SHADES, CELL, color)
        below = 84 * (number - 1)  # where no arrow passes
        d.text(421, y - 14 + below, f"head_{{{number}}}", bold=True)
    d.text(352, 136, "softmax(Q Kᵀ / √E) V", size=12)
    d.text(352, 154, "in each head, E = 3", size=12, color=SOFT)
    # Side by side, and times the matrix whose rows meet the columns of the heads.
    d.arrow((421, 102), (421, 126), (468, 126), (468, 152), (480, 152))
    d.arrow((421, 214), (421, 178), (480, 178))
    d.matrix(484, 138, SHADES, CELL, BLUE)
    d.matrix(538, 138, SHADES, CELL, ORANGE)
    d.text(538, 100, "concatenated", bold=True)
    d.text(538, 118, "[head_{1}, head_{2}]", size=12)
    d.text(538, 206, "3 × H·E = 6", size=12, color=SOFT)
    d.text(603, 165, "·", size=18)
    d.matrix(612, 111, [row + row for row in SHADES[::-1]], (9, 18), BLUE)
    d.matrix(612, 165, [row + row for row in SHADES], (9, 18), ORANGE)
    d.text(639, 97, "W_{o}", bold=True)
    d.text(639, 233, "6 × 6", size=12, color=SOFT)
    d.text(675, 165, "=", size=16)
    d.matrix(684, 138, both, (8, 18), MIXED)
    d.text(708, 124, "O", bold=True)
    d.text(708, 206, "3 × 6", size=12, color=SOFT)
    return d


DRAWINGS = {"guides/multi-head.svg": multi_head}
