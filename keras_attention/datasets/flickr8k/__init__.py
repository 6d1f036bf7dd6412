"""Reads images with captions in the format of Flickr8k.

Hodosh, Young & Hockenmaier, *Framing image description as a ranking task: data, models
and evaluation metrics* (2013): 8,000 photos with five captions each. The data may not
be redistributed and are for non-commercial research and education only. Ask for them at
http://hockenmaier.cs.illinois.edu/8k-pictures.html, and put the files into one folder:

    Flickr8k.token.txt          1000268201_693b08cb0e.jpg#0<TAB>A child in a pink …
    Flickr_8k.trainImages.txt   the names of the images of a split, one per line
    Flickr_8k.devImages.txt
    Flickr_8k.testImages.txt
    Flicker8k_Dataset/          the images

The variant of Kaggle has `captions.txt`, a CSV file with the header `image,caption`, no
splits, and the images in `Images/`. Both kinds of folders and files can be read, and so
can other data in these formats, such as Flickr30k's `results_20130124.token`.
"""

from keras_attention.datasets.flickr8k.captions import load, read_captions, read_split
from keras_attention.datasets.flickr8k.images import Captioned, pair
from keras_attention.datasets.flickr8k.vectors import Vectors, vectorize

__all__ = [
    "Captioned",
    "Vectors",
    "load",
    "pair",
    "read_captions",
    "read_split",
    "vectorize",
]
