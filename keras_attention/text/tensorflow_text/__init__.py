"""String inputs and outputs for models, with TensorFlow Text and KerasHub.

It needs the extra `text`: `python -m pip install "keras-attention-family[text]"`.
`keras_attention.text` has the same names.

```python
from keras_attention.datasets import translation
from keras_attention.text import Subwords, export_translator, translate

pairs = translation.load("multi30k", "train")
english = Subwords.from_sentences([pair.source for pair in pairs], size=4000)
german = Subwords.from_sentences([pair.target for pair in pairs], size=6000)
inputs, labels = translation.vectorize(pairs, english, german)
...
translate(model, english, german, ["A dog runs."], sampler="beam")
export_translator(model, english, german, "translator")  # on TensorFlow
```
"""

from keras_attention.text.tensorflow_text.generation import (
    complete,
    export_completer,
    export_translator,
    translate,
)
from keras_attention.text.tensorflow_text.masking import TokenMasking
from keras_attention.text.tensorflow_text.subwords import Subwords

__all__ = [
    "Subwords",
    "TokenMasking",
    "complete",
    "export_completer",
    "export_translator",
    "translate",
]
