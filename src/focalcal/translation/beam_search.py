"""Beam search over batches of sentences, with the decoder's keys and values kept from step to step."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from focalcal.data.subwords import BEGIN, END, PADDING, UNKNOWN
from focalcal.models.transformer import Transformer

# What a translation never holds: nobody can read an unknown subword.
_FORBIDDEN = [PADDING, UNKNOWN, BEGIN]
# α; far above what anybody takes, and far below where ((5 + length) / 6)^α is too large for a number.
_LARGEST_PENALTY = 20


@dataclass(frozen=True)
class Hypothesis:
    """A translation that has come to its end.

    Attributes:
        tokens: Its subwords, without the one that ends it.
        log_probability: Log-probability of all subwords and of its end, at the search's temperature.
        score: The log-probability over the length penalty, by which hypotheses are compared.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float


def search_beams(
    model: Transformer,
    source: Tensor,
    *,
    beam: int = 5,
    length_penalty: float = 0.6,
    temperature: float = 1.0,
    max_length: int | None = None,
) -> list[Hypothesis]:
    """Find a likely translation of each sentence.

    At each step the best ``beam`` continuations of a sentence's hypotheses are kept. A continuation that ends the
    sentence counts if it is among the best ``beam`` of all. A sentence is finished when ``beam`` hypotheses have ended,
    or when none that continues can still overtake the best of them. With a beam of 1 this is greedy decoding. Of
    equally likely continuations the subword of the lower number goes first.

    Args:
        model: In evaluation mode.
        source: (B, S) int64 subwords with the one that ends a sentence, padded at the end.
        beam: Hypotheses that are followed per sentence.
        length_penalty: α of Wu et al. (2016), at most 20: scores are log p / ((5 + length) / 6)^α, where the length
            counts the end.
        temperature: What the logits of every step are divided by.
        max_length: Longest translation, its end included; by default twice the source's length and 20, and never more
            than the model can read. At that length a translation is made to end.

    Returns:
        The best hypothesis of each sentence.

    Raises:
        ValueError: An option makes no sense, or the network's outputs are not finite.
    """
    _check(beam, length_penalty, temperature)
    search = _Search(model, source, beam, length_penalty, temperature, _limits(model, source, max_length))
    with torch.no_grad():
        while len(search.sentences):
            search.advance()
    return [max(found, key=lambda one: one.score) for found in search.ended]


def compute_penalty(length: int, alpha: float) -> float:
    """Compute the length penalty of Wu et al., ((5 + length) / 6)^α.

    Examples:
        >>> compute_penalty(7, 1.0)
        2.0
    """
    return float(((5 + length) / 6) ** alpha)


def _check(beam: int, length_penalty: float, temperature: float) -> None:
    if isinstance(beam, bool) or not isinstance(beam, int) or beam < 1:
        raise ValueError(f"beam must be a whole number of at least 1, got {beam!r}.")
    if not 0 <= length_penalty <= _LARGEST_PENALTY:
        raise ValueError(f"length_penalty must be a number from 0 to {_LARGEST_PENALTY}, got {length_penalty}.")
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be a number above 0, got {temperature}.")


def _limits(model: Transformer, source: Tensor, max_length: int | None) -> list[int]:
    """Limit the translation of each sentence in a way that does not depend on the sentences beside it."""
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}.")
    lengths = (source != PADDING).sum(1).tolist()
    return [min(model.max_length, 2 * length + 20 if max_length is None else max_length) for length in lengths]


class _Search:
    """The hypotheses that continue, H of each unfinished sentence, and those that have ended."""

    def __init__(
        self, model: Transformer, source: Tensor, beam: int, alpha: float, temperature: float, limits: list[int]
    ) -> None:
        self.model, self.beam, self.alpha, self.temperature = model, beam, alpha, temperature
        self.limits = torch.tensor(limits, device=source.device)
        self.sentences = torch.arange(len(source), device=source.device)  # the unfinished ones
        with torch.no_grad():
            self.state = model.start(source)
        self.tokens = torch.full((len(source), 1, 1), BEGIN, device=source.device)
        self.scores = torch.zeros(len(source), 1, dtype=torch.float64, device=source.device)
        self.ended: list[list[Hypothesis]] = [[] for _ in limits]

    def advance(self) -> None:
        """Add one more subword to every hypothesis."""
        length = self.tokens.shape[2]  # of a hypothesis that would end now: its end counts, its begin does not
        scores, parents, words = self._candidates(length)
        self._collect_ended(scores, parents, words, length)
        # Twice as many candidates as the beam has are enough: each hypothesis ends in one way only.
        kept, order = _largest(scores.masked_fill(words == END, -math.inf), self.beam)
        parents, words = parents.gather(1, order), words.gather(1, order)
        going_on = [row for row in range(len(kept)) if not self._is_finished(row, kept[row, 0].item())]
        self._go_on(torch.tensor(going_on, dtype=torch.int64, device=kept.device), kept, parents, words)

    def _candidates(self, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Find the best 2 · beam continuations of each sentence: score, hypothesis and subword, each (B, 2 · beam)."""
        logits = self.model.step(self.tokens[:, :, -1], self.state)
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        logits = logits / self.temperature if self.temperature != 1 else logits
        total = logits.logsumexp(-1, keepdim=True)
        if not bool(total.isfinite().all()):
            raise ValueError(
                f"The network's outputs, divided by a temperature of {self.temperature:g}, are not finite: take a "
                "higher temperature, or a network whose training did not diverge."
            )
        logits[..., _FORBIDDEN] = -math.inf
        must_end = self.limits[self.sentences] <= length
        if bool(must_end.any()):
            end = logits[must_end][..., END].clone()
            logits[must_end] = -math.inf
            logits[..., END][must_end] = end
        values, words = _largest(logits, 2 * self.beam)
        scores = (self.scores[:, :, None] + (values - total).double()).flatten(1)
        best, places = _largest(scores, 2 * self.beam)
        return best, places // values.shape[-1], words.flatten(1).gather(1, places)

    def _collect_ended(self, scores: Tensor, parents: Tensor, words: Tensor, length: int) -> None:
        ends = (words == END) & scores.isfinite()
        for row, column in ends[:, : self.beam].nonzero().tolist():
            log_p = scores[row, column].item()
            tokens = tuple(self.tokens[row, parents[row, column], 1:].tolist())
            hypothesis = Hypothesis(tokens, log_p, log_p / compute_penalty(length, self.alpha))
            self.ended[self.sentences[row]].append(hypothesis)

    def _is_finished(self, row: int, best_going_on: float) -> bool:
        sentence = int(self.sentences[row])
        ended = self.ended[sentence]
        if len(ended) >= self.beam or best_going_on == -math.inf:
            return True
        # Log-probabilities only fall; the longest translation has the mildest penalty.
        reachable = best_going_on / compute_penalty(int(self.limits[sentence]), self.alpha)
        return bool(ended) and max(one.score for one in ended) >= reachable

    def _go_on(self, rows: Tensor, scores: Tensor, parents: Tensor, words: Tensor) -> None:
        """Follow these continuations of the sentences at these rows."""
        before = self.tokens.shape[1]
        parents, words = parents[rows], words[rows]
        history = self.tokens[rows].gather(1, parents[:, :, None].expand(-1, -1, self.tokens.shape[2]))
        self.tokens = torch.cat([history, words[:, :, None]], 2)
        self.scores = scores[rows]
        self.state.select((rows[:, None] * before + parents).flatten())
        if len(rows) < len(self.sentences):
            self.state.keep_sentences(rows)
        self.sentences = self.sentences[rows]


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Find the largest values of each row and their places, of equal ones the first: topk takes any of them.

    Examples:
        >>> _largest(torch.tensor([1.0, 2.0, 0.0, 2.0, 2.0]), 2)
        (tensor([2., 2.]), tensor([1, 3]))
    """
    count = min(count, values.shape[-1])
    found, places = values.topk(min(count + 1, values.shape[-1]))
    is_tie = (found[..., 1:] == found[..., :-1]) & found[..., 1:].isfinite()
    if bool(is_tie.any()):  # between networks' outputs a rare thing, and a whole sort takes long
        found, places = values.sort(dim=-1, descending=True, stable=True)
    return found[..., :count], places[..., :count]
