"""What the tests of pictures have in common."""

import io


def assert_saved(figure):
    stream = io.BytesIO()
    figure.savefig(stream)
    assert stream.getvalue()[:4] == b"\x89PNG"


def assert_in_sight(figure, artists=None, slack=0):
    """Nothing is cut off, and no two artists overlap by more than `slack` pixels.

    Args:
        figure: of matplotlib.
        artists: its axes and what else is in them; by default the axes and the texts
            outside of them.
        slack: in pixels.
    """
    assert_saved(figure)
    artists = [*figure.axes, *figure.texts] if artists is None else artists
    width, height = figure.canvas.get_width_height()
    renderer = figure.canvas.get_renderer()
    boxes = [artist.get_tightbbox(renderer) for artist in artists]
    for index, box in enumerate(boxes):
        assert 0 <= box.x0 <= box.x1 <= width
        assert 0 <= box.y0 <= box.y1 <= height
        inner = box.padded(-slack / 2)
        others = (other.padded(-slack / 2) for other in boxes[index + 1 :])
        assert not any(map(inner.overlaps, others))
