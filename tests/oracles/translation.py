"""Beam search one sentence at a time, every prefix computed again from its beginning."""

import torch

from focalcal.data.sentence_pairs import PairBatch


def next_log_probabilities(model, source, prefix, temperature=1.0):
    """log p of every next subword after a list of subwords (the begin first), without a cache."""
    target = torch.tensor([prefix])
    batch = PairBatch(torch.tensor([source]), target, torch.tensor([len(prefix) - 1]))
    with torch.no_grad():
        return torch.log_softmax(model(batch)[0] / temperature, 0).tolist()


def slow_beam_search(model, source, beam, alpha=0.6, temperature=1.0, limit=None):
    """(tokens, log p, score) of the best translation of one sentence, a list of subwords with its end (3)."""
    limit = min(model.max_length, 2 * len(source) + 20) if limit is None else limit
    alive, ended = [(0.0, [2])], []
    for length in range(1, limit + 1):
        candidates = []
        for log_p, prefix in alive:
            for word, gain in enumerate(next_log_probabilities(model, source, prefix, temperature)):
                if word > 2 and (length < limit or word == 3):
                    candidates.append((log_p + gain, [*prefix, word]))
        candidates.sort(key=lambda pair: -pair[0])
        ended += [(p / ((5 + length) / 6) ** alpha, p, words) for p, words in candidates[:beam] if words[-1] == 3]
        alive = [pair for pair in candidates if pair[1][-1] != 3][:beam]
        if len(ended) >= beam or not alive:
            break
        if ended and max(ended)[0] >= alive[0][0] / ((5 + limit) / 6) ** alpha:
            break
    score, log_p, words = max(ended, key=lambda one: one[0])
    return words[1:-1], log_p, score


def greedy(model, source, limit=None):
    """The likeliest next subword, again and again."""
    limit = min(model.max_length, 2 * len(source) + 20) if limit is None else limit
    words = [2]
    while len(words) < limit:
        log_p = next_log_probabilities(model, source, words)
        best = max(range(3, len(log_p)), key=log_p.__getitem__)
        if best == 3:
            break
        words.append(best)
    return words[1:]
