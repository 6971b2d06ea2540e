"""Sentences to translations: subwords, batches of similar length, beam search, and text again."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from focalcal.base.progress import track
from focalcal.data.sentence_pairs import add_ends, pad
from focalcal.data.subwords import UNKNOWN, SubwordVocabulary
from focalcal.models.transformer import Transformer
from focalcal.translation.beam_search import Hypothesis, search_beams

# Subwords of the sources of a batch, times the beam: enough to keep a core busy.
_BATCH_TOKENS = 8192


@dataclass(frozen=True)
class Translations:
    """Translations of some sentences.

    Attributes:
        texts: The translations; "" for an empty line.
        hypotheses: What the search found for each; None for an empty line.
        empty_lines: Lines without a subword.
        cut_lines: Lines that were cut to the model's longest sentence.
        unknown_subwords: Subwords that the vocabulary does not know.
    """

    texts: list[str]
    hypotheses: list[Hypothesis | None]
    empty_lines: int
    cut_lines: int
    unknown_subwords: int

    def notes(self) -> list[str]:
        """Say in one sentence each what a user may not expect."""
        about = (
            (self.empty_lines, "Empty lines, whose translations are empty"),
            (self.cut_lines, "Lines longer than the network can read, which were cut"),
            (self.unknown_subwords, "Subwords unknown to the vocabulary"),
        )
        return [f"{what}: {count:,}." for count, what in about if count]


def translate(
    model: Transformer,
    vocabulary: SubwordVocabulary,
    sentences: Sequence[str],
    *,
    beam: int = 5,
    length_penalty: float = 0.6,
    temperature: float = 1.0,
    batch_tokens: int = _BATCH_TOKENS,
) -> Translations:
    """Translate sentences, those of similar length together.

    Args:
        model: In evaluation mode.
        vocabulary: What the model was trained with.
        sentences: Lines of text.
        beam: Hypotheses that are followed per sentence; 1 is greedy decoding.
        length_penalty: α of Wu et al.
        temperature: What the logits of every step are divided by.
        batch_tokens: Subwords of a batch, padding and beams included.

    Returns:
        The translations in the order of the sentences, and counts of what was empty, cut or unknown.

    Raises:
        ValueError: The vocabulary is not the model's.
    """
    if len(vocabulary) != model.embedding.num_embeddings:
        raise ValueError(
            f"The vocabulary has {len(vocabulary):,} subwords and the network {model.embedding.num_embeddings:,}: use "
            "the vocabulary that the network was trained with."
        )
    numbers = vocabulary.encode(sentences)
    longest = model.max_length - 1  # the end takes a place
    cut = [row[:longest] for row in numbers]
    found: list[Hypothesis | None] = [None] * len(sentences)
    batches = _batches([len(row) for row in cut], max(1, batch_tokens // beam))
    with track(batches, "translating", total=len(batches)) as shown:
        for batch in shown:
            source = torch.from_numpy(pad(add_ends([cut[place] for place in batch])))
            best = search_beams(
                model,
                source.to(model.embedding.weight.device),
                beam=beam,
                length_penalty=length_penalty,
                temperature=temperature,
            )
            for place, hypothesis in zip(batch, best, strict=True):
                found[place] = hypothesis
    return Translations(
        vocabulary.decode([() if one is None else one.tokens for one in found]),
        found,
        empty_lines=sum(not row for row in numbers),
        cut_lines=sum(len(row) > longest for row in numbers),
        unknown_subwords=sum(row.count(UNKNOWN) for row in cut),
    )


def _batches(lengths: list[int], most: int) -> list[list[int]]:
    """Group places of sentences that are not empty by length, up to a number of subwords with padding (or one).

    Examples:
        >>> _batches([3, 0, 5, 1], most=8)
        [[3, 0], [2]]
    """
    batches: list[list[int]] = []
    for place in sorted((i for i, length in enumerate(lengths) if length), key=lengths.__getitem__):
        if not batches or (len(batches[-1]) + 1) * (lengths[place] + 1) > most:
            batches.append([])
        batches[-1].append(place)
    return batches
