"""The presets of sentences, messages and images: strings go in and come out."""

import numpy as np
import pytest
from calling import refused

from keras_attention import models, presets
from keras_attention.datasets import DataNotFoundError, canvases
from keras_attention.text import Vocabulary

LONG = "I am here . " * 2500  # 10,000 words and marks
loaded = {}


def preset(name):
    """Loads each preset once."""
    if name not in loaded:
        loaded[name] = presets.load(name)
    return loaded[name]


@pytest.mark.slow
@pytest.mark.backends("all")
def test_a_translation():
    model = models.Transformer.from_preset("transformer_nl_en")
    loaded["transformer_nl_en"] = model
    assert model.translate("Ik heb honger.") == "I'm hungry."
    found = model.translate(["Waar is mijn boek?", "Hij is mijn broer."])
    assert found == ["Where's my book?", "He's my brother."]


def test_a_translation_of_bad_texts():
    model = preset("transformer_nl_en")
    refused(lambda: model.translate(""), "`text` must be a text with", "text=''")
    refused(lambda: model.translate(["Ja.", "?"]), "`text[1]` must", "text[1]='?'")
    refused(lambda: model.translate("qwerty uiop"), "`text` must have a word that")
    refused(lambda: model.translate(LONG), "at most 16 words", "Received: 10000")
    refused(lambda: model.translate(3), "must be a string or a list", "text=3")
    refused(lambda: model.translate([]), "at least one string", "text=[]")
    said = "`text` has words that the network has not learned.*: 'qwerty', 'zqxv'$"
    with pytest.warns(UserWarning, match=said):
        found = model.translate("Ik ken qwerty niet, qwerty, zqxv.")
    assert found.startswith("I don't know")


@pytest.mark.slow
def test_a_completion():
    model = preset("causal_lm_tatoeba")
    text = "She wants to learn"
    found = model.complete(text)
    assert found.startswith(text + " ")
    assert found[-1] in ".?!"
    # Words are random, but the seed decides.
    some = [model.complete(text, "random", 6, seed) for seed in (1, 1, 2)]
    assert some[0] == some[1] != some[2]
    assert model.complete([text, "I am."], max_length=1)[0].count(" ") == 4
    refused(lambda: model.complete(" "), "`text` must be a text with at least one")
    refused(lambda: model.complete("qwerty"), "`text` must have a word")
    refused(lambda: model.complete(LONG), "at most 16 words")


def test_a_filled_blank():
    model = preset("masked_lm_tatoeba")
    found = model.fill("Tom wants ___ go home.")
    assert found[0][0] == "to"
    assert found[0][1] > 0.5
    chances = [chance for _, chance in found]
    assert len(found) == 5
    assert chances == sorted(chances, reverse=True)
    every = model.fill("Tom wants ___ go home.", count=10**6)
    assert len(every) == len(model.preprocessor.vocabulary) - 4
    assert 0.9 < sum(chance for _, chance in every) <= 1.0001
    refused(lambda: model.fill("Tom is here."), "must have one blank, ___")
    refused(lambda: model.fill("___ is ___."), "must have one blank, ___")
    refused(lambda: model.fill("___"), "must be a text with at least one word")
    refused(lambda: model.fill("___ qwerty"), "must have a word that")
    refused(lambda: model.fill(["___ is", 7]), "`text` must be a string", "text=7")
    refused(lambda: model.fill(LONG + "___"), "at most 16 words")
    refused(lambda: model.fill("Tom ___ me.", count=0), "`count` must be")


def test_near_words():
    model = preset("skip_gram_tatoeba")
    near = [word for word, _ in model.nearest("dog")]
    assert {"cat", "dogs"} & {*near}
    refused(lambda: model.nearest("qwerty"), "must be one of the model's", "'qwerty'")
    refused(lambda: model.nearest("<unk>"), "must be one of the model's")


def test_classes_of_messages():
    model = preset("classifier_sms")
    spam = "Congratulations! You have won a free holiday. Call 08001234567 to claim now"
    mine = "I will be home at 7, can you buy some milk?"
    found = model.classify([spam, mine])
    assert [name for name, _ in found] == ["spam", "ham"]
    assert all(0.8 < chance <= 1 for _, chance in found)
    alone = model.classify(mine)
    assert alone[0] == "ham"
    assert np.isclose(alone[1], found[1][1], atol=1e-5)
    refused(lambda: model.classify(""), "`texts` must be a text with", "texts=''")
    refused(lambda: model.classify([mine, "qwertyuiop"]), "`texts[1]` must have a word")
    refused(lambda: model.classify(LONG), "at most 100 words", "Received: 10000")


def drawn(*boxes):
    """A canvas with a vertical stroke, the digit 1, in each place."""
    canvas = np.zeros((64, 64), "float32")
    for top, left in boxes:
        canvas[top : top + 18, left : left + 3] = 1
    return canvas


def test_captions():
    model = preset("image_captioner_digits")
    assert model.caption(drawn((20, 30))) == "a 1"
    several = np.stack([drawn((20, 10), (22, 45)), drawn((5, 30), (40, 31))])
    assert model.caption(several) == ["a 1 left of a 1", "a 1 above a 1"]
    assert model.caption(several[..., None]) == model.caption(several)
    refused(
        lambda: model.caption(np.zeros((63, 64))), "(64, 64, 1) or (64, 64)", "(63, 64)"
    )
    refused(lambda: model.caption(np.zeros((0, 64, 64))), "`images` must be numbers")
    refused(lambda: model.caption(several * 255), "from 0 to 1", "from 0 to 255")
    refused(lambda: model.caption(several * np.nan), "`images` must have pixels")


def test_captions_of_canvases_never_seen():
    try:
        test = canvases.generate(40, 7, "test")
    except DataNotFoundError:
        pytest.skip("KERAS_ATTENTION_DATA names no folder with MNIST")
    written = preset("image_captioner_digits").caption(test.images)
    assert np.mean([a == b for a, b in zip(written, test.captions)]) > 0.8


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("transformer_nl_en", models.Transformer),
        ("causal_lm_tatoeba", models.CausalLM),
        ("masked_lm_tatoeba", models.MaskedLM),
        ("skip_gram_tatoeba", models.SkipGram),
        ("image_captioner_digits", models.ImageCaptioner),
        ("classifier_sms", models.TransformerClassifier),
    ],
)
def test_a_preset_is_saved_and_comes_back(tmp_path, name, kind):
    assert type(preset(name)) is kind
    preset(name).save_to_preset(tmp_path / "mine", "float16")
    again = kind.from_preset(tmp_path / "mine")
    for old, new in zip(preset(name).get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    tools, others = preset(name).preprocessor, again.preprocessor
    assert type(tools) is type(others)
    if tools is not None:
        assert tools.get_config() == others.get_config()


def test_bad_preprocessors():
    words, letters = Vocabulary(["a"]), Vocabulary("ab", level="character")
    make = presets.TranslationPreprocessor
    refused(lambda: make(letters, words, 5), "`source_vocabulary` must be", "character")
    refused(lambda: make(words, ["a"], 5), "`target_vocabulary` must be")
    refused(lambda: make(words, words, 0), "`max_words` must be")
    make = presets.ClassificationPreprocessor
    refused(lambda: make(words, ["a", "a"], 5), "`classes` must be", "['a', 'a']")
    refused(lambda: make(words, "ab", 5), "`classes` must be")
    make = presets.CaptionPreprocessor
    refused(lambda: make(words, (64, 64), 5), "`image_shape` must be rows")
    refused(lambda: make(words, (4, 4, 1), 5, 1, 0), "`low` must be below `high`")
    refused(lambda: presets.CompletionPreprocessor(None, 5), "`vocabulary` must be")
    refused(lambda: presets.BlankPreprocessor(words, -1), "`max_words` must be")


def test_a_word_keeps_its_place_in_a_vocabulary_of_lower_case():
    vocabulary = Vocabulary(["the", "city", "is", "nice"])
    tools = presets.BlankPreprocessor(vocabulary, 8)
    with pytest.warns(UserWarning, match=": 'İstanbul'$"):  # not the blank
        found = tools.encode("İstanbul ___ the city")  # its "İ".lower() is two letters
    assert found["tokens"].tolist() == [[2, 1, tools.mask_token_id, 4, 5, 3]]
    assert found["mask_positions"].tolist() == [[2]]
