"""A loss that is no number stops the run with a sentence, and nothing good is lost."""

import math

import pytest
import torch

from focalcal.training import Diverged
from tiny_runs import Net, data, run


class BreaksAt:
    """Cross-entropy that becomes something else at one call."""

    def __init__(self, call, value):
        self.calls, self.call, self.value = 0, call, value

    def __call__(self, logits, targets):
        self.calls += 1
        loss = torch.nn.functional.cross_entropy(logits, targets)
        return loss * self.value if self.calls == self.call else loss


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_loss(tmp_path, value):
    """100 samples in batches of 16 are 7 steps: the tenth is the third of the second epoch."""
    out = tmp_path / "a"
    with pytest.raises(Diverged) as stopped:
        run(out, criterion=BreaksAt(10, value), checkpoint={"every_steps": 2}, epochs=3)
    said = str(stopped.value)
    from focalcal.training.batches import epoch_batches

    ids = data().train.ids[epoch_batches(data().train, 16, seed=0, epoch=1)[2]].tolist()
    assert f"epoch 2, step 3 (samples {', '.join(map(str, ids[:8]))} and 8 more)" in said
    assert "optimizer.lr" in said
    assert "\n" not in said
    assert sorted(file.name for file in (out / "checkpoints").iterdir()) == [
        "epoch-00001-step-0000000.safetensors",
        "epoch-00001-step-0000002.safetensors",
    ]
    assert len((out / "history.jsonl").read_text().splitlines()) == 1
    assert not (out / "evaluation.json").exists()
    assert len(run(out, criterion=BreaksAt(0, 1), epochs=3, checkpoint={"every_steps": 2}, resume=True).history) == 3


def test_weights_that_break_in_the_last_step_of_an_epoch(tmp_path):
    """The loss is finite, the gradient is not: the outputs on validation show it, before anything is written."""

    class Breaking(Net):
        def forward(self, x):
            logits = super().forward(x)
            if self.training and len(x) == 4:  # the last batch of 100 in sixteens
                logits.register_hook(lambda gradient: gradient * math.inf)
            return logits

    with pytest.raises(Diverged, match="output for sample 100 of split val is not finite"):
        run(tmp_path / "a", network=Breaking())
    assert not (tmp_path / "a/history.jsonl").exists()
    assert not (tmp_path / "a/checkpoints").exists()


def test_inputs_with_nan(tmp_path):
    def breaking(inputs, source):
        return torch.full_like(inputs, math.nan)

    with pytest.raises(Diverged, match=r"epoch 1, step 1 \(samples .*\b"):
        run(tmp_path / "a", samples=data(transform=breaking))
