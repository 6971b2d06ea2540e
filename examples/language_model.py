"""Calibration of a language model: of every next token, and of answers to multiple-choice questions.

    python examples/language_model.py [--quick]

Needs `pip install 'focalcal[transformers]'`. The model is a tiny GPT-2, built from a configuration and trained here on
comparisons of digits with wrong results among them; nothing is downloaded. With a model of your own, keep
`token_predictions` and `choice_predictions`.
"""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import focalcal as fc

QUICK = "--quick" in sys.argv
AND, GIVES, PADDING = 10, 11, 12  # after the digits 0 to 9
IGNORED = -100
WRONG = 0.2  # share of comparisons whose result is a random digit


def write_lines(count: int, seed: int) -> torch.Tensor:
    """Write lines of one to four comparisons, `3 and 9 gives 9`, padded to (N, 20) tokens."""
    generator = torch.Generator().manual_seed(seed)
    first, second, noise = torch.randint(10, (3, count, 4), generator=generator)
    is_wrong = torch.rand((count, 4), generator=generator) < WRONG
    result = torch.where(is_wrong, noise, torch.maximum(first, second))
    signs = torch.tensor([AND, GIVES]).expand(count, 4, 2)
    tokens = torch.stack([first, signs[..., 0], second, signs[..., 1], result], dim=2).flatten(1)
    lengths = 5 * torch.randint(1, 5, (count, 1), generator=generator)
    return tokens.masked_fill(torch.arange(20) >= lengths, PADDING)


def next_tokens(tokens: torch.Tensor) -> torch.Tensor:
    """Return the token that follows each position; padding is nobody's next token."""
    return tokens[:, 1:].masked_fill(tokens[:, 1:] == PADDING, IGNORED)


def train(model: torch.nn.Module, tokens: torch.Tensor, epochs: int) -> None:
    """Train with the focal loss on (N, vocabulary, length) logits."""
    criterion = fc.FocalLoss(gamma=1.0, ignore_index=IGNORED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(epochs):
        for batch in tokens[torch.randperm(len(tokens))].split(32):
            optimizer.zero_grad()
            criterion(model(batch).logits[:, :-1].transpose(1, 2), next_tokens(batch)).backward()
            optimizer.step()
    model.eval()


@torch.no_grad()
def token_predictions(model: torch.nn.Module, tokens: torch.Tensor, split: str) -> fc.Predictions:
    """Keep one prediction per token; ids name the line and the position."""
    logits = model(tokens).logits[:, :-1].transpose(1, 2)
    return fc.Predictions.from_logits(
        logits, next_tokens(tokens), ids=range(len(tokens)), split=split, ignore_index=IGNORED
    )


@torch.no_grad()
def choice_predictions(model: torch.nn.Module, count: int, seed: int, split: str) -> fc.Predictions:
    """Ask `a and b gives` with four choices; the score of a choice is the log-probability of its token."""
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randint(10, (2, count), generator=generator)
    right = torch.maximum(first, second)
    others = (right[:, None] + 1 + torch.rand(count, 9, generator=generator).argsort(dim=1)[:, :3]) % 10
    choices = torch.cat([right[:, None], others], dim=1)
    order = torch.rand(count, 4, generator=generator).argsort(dim=1)
    questions = torch.stack([first, torch.full_like(first, AND), second, torch.full_like(first, GIVES)], dim=1)
    scores = model(questions).logits[:, -1].log_softmax(dim=1).gather(1, choices.gather(1, order))
    # Four log-probabilities are logits: their softmax is the confidence among the choices.
    return fc.Predictions.from_logits(
        scores, (order == 0).int().argmax(dim=1), class_names=("A", "B", "C", "D"), split=split
    )


def show(title: str, val: fc.Predictions, test: fc.Predictions) -> None:
    """Fit a temperature on validation predictions and print the metrics before and after."""
    scaler = fc.TemperatureScaling().fit(val)
    print(f"{title}: {len(test):,} predictions, T = {scaler.temperature_:.2f} by validation NLL")
    for name, predictions in (("uncalibrated", test), ("calibrated", scaler.transform(test))):
        result = fc.evaluate(predictions, metrics=["error", "ece", "nll"], intervals=False)
        print(f"{name:>13}: error {result['error']:.3f}, ECE {result['ece']:.4f}, NLL {result['nll']:.4f}")


def main() -> None:
    """Train, then measure tokens and choices."""
    torch.manual_seed(0)
    lines, epochs, questions = (200, 2, 100) if QUICK else (600, 40, 1000)
    config = GPT2Config(vocab_size=13, n_positions=20, n_embd=64, n_layer=2, n_head=4, bos_token_id=12, eos_token_id=12)
    model = GPT2LMHeadModel(config)
    train(model, write_lines(lines, seed=0), epochs)
    show(
        "tokens",
        *(token_predictions(model, write_lines(lines, seed), split) for seed, split in ((1, "val"), (2, "test"))),
    )
    show(
        "multiple choice",
        *(choice_predictions(model, questions, seed, split) for seed, split in ((3, "val"), (4, "test"))),
    )


if __name__ == "__main__":
    main()
