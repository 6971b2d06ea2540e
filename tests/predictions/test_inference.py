"""A network over batches: order, modes, devices, shapes of inputs, progress on a terminal only."""

import os
import pty
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from focalcal.predictions import Predictions, predict

torch.manual_seed(0)
INPUTS, LABELS = torch.randn(10, 4), torch.arange(10) % 3
BATCHES = [(INPUTS[i : i + 4], LABELS[i : i + 4]) for i in range(0, 10, 4)]


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))


def test_it_gives_what_the_network_gives_in_evaluation_mode():
    model = network()
    preds = predict(model, BATCHES, split="val", class_names=["a", "b", "c"], provenance={"model": "small"})
    model.eval()
    torch.testing.assert_close(preds.values, model(INPUTS).detach(), rtol=1e-6, atol=1e-6)
    assert preds.labels.tolist() == LABELS.tolist()
    assert (preds.kind, preds.split, preds.class_names) == ("logits", "val", ("a", "b", "c"))
    assert preds.provenance == {"model": "small"}
    assert not preds.values.requires_grad


def test_a_data_loader_gives_the_same_as_a_list():
    loader = DataLoader(TensorDataset(INPUTS, LABELS), batch_size=3)
    torch.testing.assert_close(predict(network(), loader).values, predict(network(), BATCHES).values)


def test_values_can_be_used_with_autograd_afterwards():
    preds = predict(network(), BATCHES)
    temperature = torch.ones((), requires_grad=True)
    torch.nn.functional.cross_entropy(preds.values / temperature, preds.labels).backward()
    assert temperature.grad is not None


def test_every_module_gets_its_own_mode_back():
    model = network()
    model.train()
    model[1].eval()  # frozen by hand
    before = [module.training for module in model.modules()]
    predict(model, BATCHES)
    assert [module.training for module in model.modules()] == before
    assert before == [True, True, False, True, True]


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
def test_modes_are_restored_after_an_error_and_gradients_are_on_again(problem):
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Dropout()

        def forward(self, x):
            assert not self.inner.training
            assert not torch.is_grad_enabled()
            raise problem

    model = Failing()
    with pytest.raises(problem):
        predict(model, BATCHES)
    assert model.training
    assert model.inner.training
    assert torch.is_grad_enabled()


def test_modes_are_restored_after_bad_output_and_the_row_is_named():
    def batches():
        yield INPUTS[:4], LABELS[:4]
        yield INPUTS[4:8] * torch.tensor([1, 1, float("nan"), 1])[:, None], LABELS[4:8]

    model = network()
    with pytest.raises(ValueError, match="The logits of row 6 hold NaN"):
        predict(model, batches())
    assert all(module.training for module in model.modules())


class TwoInputs(nn.Module):
    def forward(self, first, second):
        return torch.stack([first.sum(1), second.sum(1)], dim=1)


@pytest.mark.parametrize(
    "batch",
    [
        ((INPUTS, INPUTS * 2), LABELS % 2),
        [[INPUTS, INPUTS * 2], LABELS % 2],
        ({"first": INPUTS, "second": INPUTS * 2}, LABELS % 2),
        {"first": INPUTS, "second": INPUTS * 2, "labels": LABELS % 2},
    ],
)
def test_tuples_lists_and_dictionaries_of_inputs(batch):
    preds = predict(TwoInputs(), [batch])
    torch.testing.assert_close(preds.values, torch.stack([INPUTS.sum(1), 2 * INPUTS.sum(1)], dim=1))


@pytest.mark.parametrize("wrap", [lambda z: z, lambda z: {"logits": z}, lambda z: SimpleNamespace(logits=z)])
def test_outputs_that_carry_logits(wrap):
    assert torch.equal(predict(lambda x: wrap(x[:, :3]), BATCHES).values, INPUTS[:, :3])


@pytest.mark.parametrize("output", [None, (INPUTS, INPUTS), {"scores": INPUTS}])
def test_outputs_that_do_not(output):
    with pytest.raises(TypeError, match="must give a tensor, or something with logits"):
        predict(lambda x: output, BATCHES)


@pytest.mark.parametrize("batch", [INPUTS, (INPUTS,), (INPUTS, LABELS, LABELS), {"x": INPUTS}, "ab!"])
def test_batches_that_are_none(batch):
    with pytest.raises(TypeError, match=r"A batch must be \(inputs, labels\)"):
        predict(network(), [batch])


def test_no_batches_and_wrong_kind():
    with pytest.raises(ValueError, match="gave no batch"):
        predict(network(), [])
    with pytest.raises(ValueError, match="kind must be 'logits' or 'probs'"):
        predict(network(), BATCHES, kind="scores")


def test_probabilities_and_low_precision():
    model = nn.Sequential(network(), nn.Softmax(dim=1)).bfloat16()
    preds = predict(model, [(x.bfloat16(), y) for x, y in BATCHES], kind="probs")
    assert (preds.kind, preds.values.dtype) == ("probs", torch.float32)
    with pytest.raises(ValueError, match="use from_logits"):
        predict(network(), BATCHES, kind="probs")


def test_token_outputs_of_changing_length_with_padding():
    def batch(samples, length):
        return torch.randn(samples, 5, length), torch.randint(0, 5, (samples, length))

    batches = [batch(2, 3), batch(1, 7)]
    batches[0][1][:, 2] = -100
    batches.append((torch.randn(2, 5, 1), torch.full((2, 1), -100)))
    preds = predict(nn.Identity(), batches)
    assert len(preds) == 2 * 2 + 7
    assert torch.equal(preds.values[4:], batches[1][0][0].T)


def test_one_column_for_two_classes():
    preds = predict(nn.Linear(4, 1), [(INPUTS, LABELS % 2)])
    assert preds.num_classes == 2
    assert preds.values[:, 0].tolist() == [0.0] * 10


def test_inputs_go_where_the_network_is():
    class Where(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("here", torch.zeros(1, device="meta"))

        def forward(self, x):
            assert x.device.type == "meta"
            return torch.zeros(len(x), 2)

    assert len(predict(Where(), [(INPUTS, LABELS % 2)])) == 10


def test_the_device_can_be_said():
    seen = []

    def model(x):
        seen.append(x.device.type)
        return torch.zeros(len(x), 2)

    predict(model, [(INPUTS, LABELS % 2)], device="meta")
    assert seen == ["meta"]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(INPUTS, LABELS, strict=True))


def written_to_a_terminal(monkeypatch, run):
    """Run with a real terminal as stderr, and give what came out at its other end."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setenv("TERM", "xterm-256color")
        patched.setattr(sys, "stderr", terminal)
        run()
    written = b""
    with suppress(OSError), os.fdopen(ours, "rb", buffering=0) as other_end:  # an error: nobody writes
        while piece := other_end.read(100_000):
            written += piece
    return written.decode()


@pytest.mark.parametrize("loader", [BATCHES, DataLoader(Stream(), batch_size=4)])
def test_a_bar_on_a_terminal_also_where_the_length_is_unknown(monkeypatch, loader):
    assert "predict" in written_to_a_terminal(monkeypatch, lambda: predict(network(), loader))


def test_no_bar_when_it_is_not_wanted(monkeypatch):
    assert written_to_a_terminal(monkeypatch, lambda: predict(network(), BATCHES, progress=False)) == ""


def test_no_bar_where_stderr_is_no_terminal(capfd):
    predict(network(), BATCHES)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_what_is_predicted_can_be_saved(tmp_path):
    preds = predict(network(), BATCHES, split="test")
    preds.save(tmp_path / "test.safetensors")
    assert torch.equal(Predictions.load(tmp_path / "test.safetensors").values, preds.values)
