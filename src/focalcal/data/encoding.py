"""New texts in the words of a data set, as its network takes them."""

from collections.abc import Sequence

import numpy as np
import torch

from focalcal.data.samples import DataSet
from focalcal.data.text_tokens import keep_words, number_texts
from focalcal.data.token_samples import TextBatch, TokenSamples


def encode_texts(texts: Sequence[str], data: DataSet) -> TextBatch:
    """Texts as the input of a network that was trained on a data set: what it does not know is left out.

    Args:
        texts: N texts; one without a known word is one unknown word.
        data: ``text`` or ``newsgroups`` as it was trained with: the same file, split seed and options.

    Examples:
        >>> from focalcal.data import load_data
        >>> data = load_data("text", path="my.csv")  # doctest: +SKIP
        >>> logits = network(encode_texts(["What a film"], data))  # doctest: +SKIP
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError("texts must be a list of texts, such as ['What a film'].")
    if not len(texts):
        raise ValueError("There is no text to encode; give at least one.")
    samples = data.train
    if not isinstance(samples, TokenSamples) or not samples.vocabulary:
        raise ValueError(f"{data.name} has no vocabulary of words in a row; texts are for newsgroups and text.")
    numbered, words = number_texts(texts)
    place = {word: number for number, word in enumerate(words)}
    # Each known word gets the number that it has in the data set; those that do not occur here need none.
    known = [(row, place[word]) for row, word in enumerate(samples.vocabulary) if word in place]
    kept = keep_words(numbered, [number for _, number in known], len(words))
    rows = np.array([0, 1, *(row + 2 for row, _ in known)], dtype=np.int64)
    numbers = type(numbered)(rows[kept.numbers], kept.starts)
    every = torch.arange(len(texts))
    own = TokenSamples(numbers, torch.zeros_like(every), every, samples.tokens, samples.trim)
    batch: TextBatch = own.batch(every, device=torch.device("cpu"), generator=None).inputs
    return batch
