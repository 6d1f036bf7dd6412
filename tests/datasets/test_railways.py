"""Maps of railways: parts of a map, directions of its lines, and names."""

import numpy as np
import pytest
from calling import needs_data

from keras_attention.datasets import DataNotFoundError, graphs

STATIONS = """"id","latitude","longitude","name","display_name","zone"
1,51.5,-0.3,"West",NULL,2
2,51.5,-0.2,"Middle",NULL,1
3,51.51,-0.1,"Passed",NULL,1
4,51.5,0.0,"East",NULL,1
5,51.6,-0.2,"North",NULL,1.5
"""
LINES = """line,name,colour
1,Long Line,AE6017
2,Short Line,FFE02B
"""
CONNECTIONS = """station1,station2,line,time
1,2,1,2
2,3,1,1
3,4,1,1
4,2,2,9
5,2,2,1
5,4,2,1
"""


def read(folder, stations=STATIONS, lines=LINES, connections=CONNECTIONS, **part):
    given = {"stations": stations, "lines": lines, "connections": connections}
    for name, text in given.items():
        (folder / name).write_text(text, "utf-8")
    return graphs.read_railway(*(folder / name for name in given), **part)


def test_a_map_has_directions_positions_and_colors(tmp_path):
    network = read(tmp_path)
    assert network.stations == ("West", "Middle", "Passed", "East", "North")
    assert len(network.links) == 12
    assert ("West", "Long Line eastbound", "Middle") in network.edges
    assert ("Passed", "Long Line westbound", "Middle") in network.edges
    # The Short Line is wider than high: 0.2 degrees of longitude are 0.124 of latitude.
    assert ("North", "Short Line eastbound", "East") in network.edges
    by_name = dict(zip(network.lines, network.colors, strict=True))
    assert by_name["Long Line westbound"] == "#AE6017"
    np.testing.assert_array_equal(network.positions[0], [-0.3, 51.5])


def test_a_part_of_a_map_joins_what_follows_each_other(tmp_path):
    network = read(tmp_path, max_zone=1, min_lines=2)
    assert set(network.edges) == {
        ("Middle", "Long Line eastbound", "East"),  # past a station of one line
        ("East", "Long Line westbound", "Middle"),
        ("Middle", "Short Line eastbound", "East"),
        ("East", "Short Line westbound", "Middle"),
    }
    assert len(read(tmp_path, max_zone=1.5).stations) == 4
    # A loop of passed stations ends, and a station is not its own neighbor.
    loop = CONNECTIONS + "3,5,1,1\n2,5,1,1\n"
    assert read(tmp_path, connections=loop, min_lines=2).stations == (
        *("Middle", "East", "North"),
    )


def test_labels_are_told_by_name(tmp_path):
    network = read(tmp_path)
    drawn = network.graphs(5, seed=1)
    for graph in range(5):
        triples = drawn.triples(graph)
        assert sorted(network.names(drawn, graph, triples)) == sorted(network.edges)
    blank = network.names(drawn, 0, np.array([[-1, triples[0, 1], -1]]))
    assert blank[0][0] == blank[0][2] == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stations": "id,name\n"}, r"stations: the first line must name the columns"),
        ({"stations": STATIONS + "1,1,1,A,,1\n"}, r"line 7: id '1' is there twice"),
        (
            {"stations": STATIONS + "6,x,1,A,,1\n"},
            r"line 7: `latitude` must be a number\. Received: 'x'",
        ),
        ({"lines": LINES + "3,,FFFFFF\n"}, r"lines, line 4: a line must have values"),
        (
            {"connections": CONNECTIONS + "1,7,1,1\n"},
            r"connections, line 8: a connection must be two stations .*'1,7,1'",
        ),
        ({"connections": CONNECTIONS + "1,1,1,1\n"}, r"line 8: a connection must be"),
        ({"max_zone": 0.5}, r"no connection joins two of the selected stations"),
        ({"min_lines": 0}, r"`min_lines` must be"),
        (
            {"stations": STATIONS.replace("Passed", "East")},
            r"two stations are named 'East'",
        ),
    ],
)
def test_files_that_are_no_map(tmp_path, given, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, **given)


def test_a_missing_file(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"There is no file .*nowhere\.csv"):
        graphs.read_railway(*[tmp_path / "nowhere.csv"] * 3)


@needs_data
def test_the_underground():
    network = graphs.load_underground(max_zone=1, min_lines=3)
    assert (len(network.stations), len(network.links)) == (19, 110)
    assert ("Bank", "Central Line eastbound", "Liverpool Street") in network.edges
    edges = set(network.edges)
    assert all(  # each line runs in both directions
        any((end, start) == (a, b) for a, _, b in edges) for start, _, end in edges
    )
    walk = graphs.traversal(20, length=7, network=network, seed=1)
    path = graphs.shortest_path(20, length=4, network=network, seed=1)
    assert (walk["answer_mask"].sum(1) == 7).all()
    assert (path["distance"] == 4).all()
    triples = graphs.decode(walk["targets"])[0][walk["answer_mask"][0]]
    assert set(network.names(walk["graphs"], 0, triples)) <= edges
    assert len(graphs.load_underground(None, 1).stations) == 302
