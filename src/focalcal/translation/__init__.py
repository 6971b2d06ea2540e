"""Translation: beam search, whole files of sentences, and BLEU."""

from focalcal.translation.beam_search import Hypothesis, search_beams
from focalcal.translation.bleu import BleuScore, compare_bleu, measure_bleu
from focalcal.translation.translating import Translations, translate

__all__ = [
    "BleuScore",
    "Hypothesis",
    "Translations",
    "compare_bleu",
    "measure_bleu",
    "search_beams",
    "translate",
]
