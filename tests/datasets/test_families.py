"""Families, relations by name, and the family tree task."""

import numpy as np
import pytest

from keras_attention.datasets import graphs
from keras_attention.datasets.graphs import KINDS, relation_name

MOTHER, FATHER, HUSBAND, WIFE, SON, DAUGHTER, BROTHER, SISTER = range(8)
FEMALE = {MOTHER, WIFE, DAUGHTER, SISTER}


def test_relations_of_a_family_agree():
    families = graphs.random_families(60, people=(6, 12), seed=1)
    sizes = (families.graphs.nodes >= 0).sum(1)
    assert sizes.min() >= 6
    assert sizes.max() == 13
    for family in range(60):
        ends, female = families.graphs.ends[family], families.female[family]
        leads = {}
        for person, row in enumerate(ends):
            for kind, other in enumerate(row):
                if other >= 0:
                    leads[person, kind] = other
                    assert female[other] == (kind in FEMALE)
                    assert other != person
        for (person, kind), other in leads.items():
            if kind in (MOTHER, FATHER):
                assert leads[other, DAUGHTER if female[person] else SON] == person
                spouse = leads[other, HUSBAND if kind == MOTHER else WIFE]
                assert leads[person, MOTHER + FATHER - kind] == spouse
            elif kind in (HUSBAND, WIFE):
                assert leads[other, WIFE if female[person] else HUSBAND] == person
            elif kind in (BROTHER, SISTER):
                assert leads[other, SISTER if female[person] else BROTHER] == person
                assert leads[other, MOTHER] == leads[person, MOTHER]
        np.testing.assert_array_equal(
            families.graphs.edges[family] >= 0, ends >= 0
        )  # an edge has a label


def test_kinship_has_four_hundred_relations_without_detours():
    table = graphs.kinship()
    lengths = [len(path) for label, path in table.items() if label >= 10]
    assert [lengths.count(n) for n in (2, 3, 4, 5)] == [28, 96, 138, 138]
    assert len(set(table.values())) == len(table) == 408
    assert [*table][8:] == [*range(10, 410)]
    # No relation leads back to the person, or to someone that a shorter one reaches.
    families = graphs.random_families(40, people=(14, 20), seed=2)
    met = 0
    for family in range(40):
        ends = families.graphs.ends[family]
        for path in table.values():
            for start in range(len(ends)):
                seen = [start]
                for kind in path:
                    here = ends[seen[-1], kind]
                    if here < 0:
                        break
                    seen.append(here)
                else:
                    met += 1
                    assert len(set(seen)) == len(seen)
    assert met > 5000


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((SISTER,), "sister"),
        ((MOTHER, FATHER, BROTHER), "maternal great uncle"),
        ((FATHER, MOTHER, MOTHER, SISTER), "paternal great great aunt"),
        ((FATHER, FATHER), "paternal grandfather"),
        ((MOTHER, FATHER, MOTHER), "maternal great grandmother"),
        ((SON, DAUGHTER, SON), "great grandson"),
        ((BROTHER, DAUGHTER), "niece"),
        ((SISTER, SON, DAUGHTER), "great niece"),
        ((MOTHER, SISTER, SON), "maternal cousin"),
        ((WIFE, FATHER), "father-in-law"),
        ((HUSBAND, SISTER), "sister-in-law"),
        ((SISTER, HUSBAND), "brother-in-law"),
        ((SON, WIFE), "daughter-in-law"),
        ((WIFE, MOTHER, BROTHER), "mother-in-law's brother"),
        ((FATHER, SISTER, HUSBAND, MOTHER), "paternal aunt's mother-in-law"),
    ],
)
def test_relations_have_names(path, name):
    assert relation_name(path) == name
    assert relation_name([*path]) == relation_name(np.array(path)) == name


def test_all_relations_have_names_and_wrong_ones_are_refused():
    assert all(relation_name(label) for label in graphs.kinship())
    for wrong in (8, 410, (), (3, 8), [3, 8], [[0, 1]], "mother", None):
        with pytest.raises(ValueError, match="`relation` must be a label of `kinship`"):
            relation_name(wrong)


def test_the_table_of_relations_cannot_be_changed():
    with pytest.raises(TypeError):
        graphs.kinship()[0] = (1,)
    assert graphs.kinship()[0] == (0,)


def test_families_of_the_largest_size():
    families = graphs.random_families(1, people=999)
    assert (families.graphs.nodes >= 0).sum() in (999, 1000)
    with pytest.raises(ValueError, match="`people` must be below 1000"):
        graphs.random_families(1, people=1000)


def test_questions_about_families_have_true_answers():
    data = graphs.family_tree(30, (12, 16), (2, 5), queries=2, planning=3, seed=3)
    table, asked = graphs.kinship(), []
    for row in range(30):
        triples = data["graphs"].triples(row).tolist()
        leads = {(a, kind): b for a, kind, b in triples}
        where = np.flatnonzero(data["answer_mask"][row])
        np.testing.assert_array_equal(where, data["questions"][row] + 4)
        for query, step in enumerate(where):
            person, relation, relative = graphs.decode(data["targets"][row, step])
            asked.append(relation)
            here, path = person, []
            for kind in table[relation]:
                path.append([here, kind, leads[here, kind]])
                here = leads[here, kind]
            assert here == relative
            found = data["paths"][row, query]
            assert found[found[:, 0] >= 0].tolist() == path
            question = data["inputs"][row, step - 4, :90]
            assert not question[60:].any()
            person_read, relation_read, _ = graphs.decode(question)
            assert (person_read, relation_read) == (person, relation)
        assert len(triples) == data["questions"][row, 0]
    assert {len(table[relation]) for relation in asked} == {2, 3, 4, 5}


def test_people_have_names():
    families = graphs.random_families(3, people=20, seed=4)
    names = graphs.given_names(families, 1, seed=5)
    labels = families.graphs.nodes[1]
    assert set(names) == set(labels[labels >= 0].tolist())
    assert len(set(names.values())) == len(names)
    assert names == graphs.given_names(families, 1, seed=5)
    many = graphs.random_families(1, people=200, seed=4)
    with pytest.raises(ValueError, match="`family` must have at most 46 women"):
        graphs.given_names(many, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: graphs.random_families(2, 1000), "`people` must be below 1000"),
        (lambda: graphs.random_families(2, 2), "`people` must be"),
        (lambda: graphs.family_tree(2, length=6), "`length` must be at most 5"),
        (lambda: graphs.family_tree(2, planning=-1), "`planning` must not be negative"),
        (
            lambda: graphs.family_tree(2, people=3, length=5),
            r"`length` must be one that such families have\. Received: length=5",
        ),
    ],
)
def test_what_does_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_same_by_seed():
    one, two = (graphs.family_tree(4, seed=7) for _ in range(2))
    np.testing.assert_array_equal(one["inputs"], two["inputs"])
    assert len(KINDS) == 8
