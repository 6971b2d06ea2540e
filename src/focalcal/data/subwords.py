"""A joint subword vocabulary of two languages, learnt from training text by sentencepiece and kept in the cache."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from focalcal.base.files import atomic_writer, make_folder, read_bytes
from focalcal.base.optional import import_optional
from focalcal.data.data_files import cache_folder

if TYPE_CHECKING:
    pass

Kind = Literal["bpe", "unigram"]

PADDING, UNKNOWN, BEGIN, END = range(4)  # the first subwords of every vocabulary
FIRST_SUBWORD = 4
# Part of the cache's key: to be raised when the way vocabularies are learnt changes.
_VERSION = 1


class SubwordVocabulary:
    """Turns sentences into numbers of subwords and back.

    Args:
        model: The bytes of a sentencepiece model whose first four subwords are padding, unknown, begin and end.

    Examples:
        >>> vocabulary = learn_vocabulary(["a small dog", "a small cat", "the dog"], 24)
        >>> numbers = vocabulary.encode(["a small dog"])
        >>> vocabulary.decode(numbers), len(vocabulary)
        (['a small dog'], 24)
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        try:
            self._processor = _sentencepiece().SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError("The vocabulary is damaged: it is not a sentencepiece model.") from error
        special = (
            self._processor.pad_id(),
            self._processor.unk_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
        )
        if special != (PADDING, UNKNOWN, BEGIN, END):
            raise ValueError("The vocabulary was not made by focalcal: its first subwords are not padding, unknown, …")

    def __len__(self) -> int:
        return int(self._processor.vocab_size())

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of the vocabulary."""
        return hashlib.sha256(self.model).hexdigest()

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the numbers of each sentence's subwords, without begin and end."""
        if isinstance(sentences, str | bytes):
            raise TypeError("Sentences must be a sequence of texts; for a single one give a list with it.")
        texts = list(sentences)
        for number, text in enumerate(texts, 1):
            if not isinstance(text, str):
                raise TypeError(f"Sentence {number} is {type(text).__name__}, not text.")
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                raise ValueError(f"Sentence {number} holds half a character (a surrogate); decode it as UTF-8.")
        numbers: list[list[int]] = self._processor.encode(texts)
        return numbers

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the sentences that subwords stand for; those before the first real one are left out."""
        real = [[number for number in row if number >= FIRST_SUBWORD] for row in rows]
        return list(self._processor.decode(real)) if real else []  # it takes an empty list for an empty sentence

    def subwords(self) -> list[str]:
        """Return every subword as text, in the order of their numbers; ▁ is the start of a word."""
        return [str(self._processor.id_to_piece(number)) for number in range(len(self))]

    def save(self, path: Path) -> None:
        """Write the vocabulary as a sentencepiece model."""
        with atomic_writer(path) as file:
            file.write(self.model)

    @classmethod
    def load(cls, path: Path) -> SubwordVocabulary:
        """Read what `save` has written."""
        content = read_bytes(path)
        try:
            return cls(content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def learn_vocabulary(sentences: Iterable[str], size: int, *, kind: Kind = "bpe") -> SubwordVocabulary:
    """Learn a vocabulary of ``size`` subwords, or take it from the cache if it was learnt before.

    Args:
        sentences: Sentences of both languages, of the training split only.
        size: Number of subwords, the four special ones included.
        kind: Byte-pair encoding, or a unigram language model.

    Raises:
        ValueError: The text has too few different subwords, or sentencepiece is not installed.
    """
    texts = list(sentences)
    digest = hashlib.sha256(f"{_VERSION} {_sentencepiece().__version__} {kind} {size}\n".encode())
    for text in texts:
        digest.update(text.encode() + b"\n")
    place = cache_folder() / "vocabularies" / f"{digest.hexdigest()}.model"
    if place.is_file():
        try:
            return SubwordVocabulary.load(place)
        except ValueError:
            pass  # it is learnt again
    vocabulary = SubwordVocabulary(_learn(texts, size, kind))
    try:
        make_folder(place.parent)
        vocabulary.save(place)
    except (OSError, ValueError):
        pass  # without a cache it is learnt every time
    return vocabulary


def _learn(texts: list[str], size: int, kind: Kind) -> bytes:
    model = io.BytesIO()
    longest = max((len(text.encode()) for text in texts), default=0)
    try:
        _sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            vocab_size=size,
            model_type=kind,
            character_coverage=1.0,
            max_sentence_length=longest + 1,
            num_threads=1,
            minloglevel=2,
            pad_id=PADDING,
            unk_id=UNKNOWN,
            bos_id=BEGIN,
            eos_id=END,
        )
    except (RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())[-200:]
        raise ValueError(
            f"No vocabulary of {size:,} subwords can be learnt from {len(texts):,} sentences; set data.vocabulary to "
            f"another size (sentencepiece says: {reason})."
        ) from None
    return model.getvalue()


def _sentencepiece() -> Any:
    return import_optional("sentencepiece", extra="translation", what="Subwords")
