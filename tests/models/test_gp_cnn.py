"""The global-pooling CNN: its layers, its options, and that padding that is left out changes nothing."""

import numpy as np
import pytest
import torch
from torch import nn

from focalcal.data.text_tokens import NumberedTexts, TokenSamples
from focalcal.models.gp_cnn import GlobalPoolingCNN
from focalcal.models.model_registry import build_model

CPU = torch.device("cpu")
WORDS = 40


def network(**options):
    torch.manual_seed(0)
    net = GlobalPoolingCNN(6, embeddings=torch.randn(WORDS, 10), **{"channels": 12} | options)
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):  # at 0, padding would be invisible
            nn.init.normal_(parameter, std=0.3)
    return net.double()


def plain_network(net, words):
    """The same layers in torch's own containers, on texts padded to all positions."""
    first, second, third = net.convolutions
    pool = nn.MaxPool1d(5, net.pool_stride)
    maps = nn.Sequential(first, nn.ReLU(), pool, second, nn.ReLU(), pool, third, nn.ReLU(), nn.AdaptiveMaxPool1d(1))
    x = maps(net.embedding(words).transpose(1, 2)).squeeze(2)
    return net.classifier(torch.relu(net.dense(x)))


def batches(longest, tokens):
    """The same three texts with and without the padding that can be left out."""
    generator = np.random.default_rng(longest)
    lengths = generator.integers(1, longest + 1, size=3)
    lengths[1] = longest
    texts = NumberedTexts(generator.integers(2, WORDS, size=lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))
    samples = (TokenSamples(texts, torch.zeros(3, dtype=torch.int64), torch.arange(3), tokens, trim=t) for t in (1, 0))
    return [some.batch(torch.arange(3), device=CPU, generator=None).inputs for some in samples]


@pytest.mark.parametrize("stride", [5, 1])
@pytest.mark.parametrize("tokens", [1000, 403, 149, 60, 159, 512, 173])
def test_left_out_padding_changes_neither_logits_nor_gradients(stride, tokens):
    net = network(pool_stride=stride, freeze=False)
    for longest in (1, 3, 9, 16, 17, 18, 40, 60, 149, 240, 403, 700, 842, 843, 960, 992, 1000):
        trimmed, full = batches(min(longest, tokens), tokens)
        missing = max(0, net.least_positions - tokens)
        expected = plain_network(net, torch.nn.functional.pad(full.words, (missing, 0)))
        actual = net(trimmed)
        torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)
        torch.testing.assert_close(net(full), expected, atol=1e-12, rtol=0)
        ours, theirs = (torch.autograd.grad(z.square().sum(), list(net.parameters())) for z in (actual, expected))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("stride", [5, 1])
def test_in_single_precision_logits_are_the_same_to_the_last_bit(stride):
    net = network(pool_stride=stride, channels=128).float()
    for longest in (5, 100, 500, 900):
        trimmed, full = batches(longest, 1000)
        assert trimmed.words.shape[1] < full.words.shape[1]
        assert torch.equal(net(trimmed), net(full))


def test_one_text_alone_has_the_same_logits_to_the_last_bit():
    net = network(channels=128).float()
    for longest in (5, 100, 900):
        trimmed, full = (texts._replace(words=texts.words[1:2]) for texts in batches(longest, 1000))
        assert torch.equal(net(trimmed), net(full))


def test_short_texts_are_padded_to_what_the_last_map_sees():
    net = network()
    words = torch.randint(2, WORDS, (4, 7))
    padded = torch.cat([torch.zeros(4, 142, dtype=torch.int64), words], dim=1)
    torch.testing.assert_close(net(words), plain_network(net, padded))


@pytest.mark.parametrize(("stride", "seen"), [(5, 149), (1, 21)])
def test_how_far_the_windows_reach_is_the_network_s_own(stride, seen):
    net = network(pool_stride=stride)
    trimmed, _ = batches(longest=7, tokens=10)
    padded = torch.nn.functional.pad(trimmed.words, (seen - 7, 0))
    assert (net.least_positions, trimmed.words.shape[1], trimmed.left_out) == (seen, 7, 3)
    torch.testing.assert_close(net(trimmed), plain_network(net, padded))


def test_an_empty_batch_has_no_logits():
    assert network()(torch.zeros(0, 200, dtype=torch.int64)).shape == (0, 6)


def test_second_derivatives():
    net, words = network(), torch.randint(2, WORDS, (3, 150))
    weight = net.convolutions[0].weight

    def squared_gradient(logits):
        (gradient,) = torch.autograd.grad(logits.logsumexp(1).sum(), weight, create_graph=True)
        (again,) = torch.autograd.grad(gradient.square().sum(), weight)
        return again

    torch.testing.assert_close(squared_gradient(net(words)), squared_gradient(plain_network(net, words)))


def test_functional_gradients():
    net, words = network(), torch.randint(2, WORDS, (3, 150))
    parameters = dict(net.named_parameters())
    found = torch.func.grad(lambda p: torch.func.functional_call(net, p, (words,)).square().sum())(parameters)
    (expected,) = torch.autograd.grad(net(words).square().sum(), net.convolutions[0].weight)
    torch.testing.assert_close(found["convolutions.0.weight"], expected)


def test_half_precision_adds_up_many_gradients():
    """A word that occurs thousands of times: a sum in bfloat16 would stop at 256."""
    net = network().to(torch.bfloat16)
    words = torch.full((8, 1000), 3)
    words[:, ::7] = 4
    (found,) = torch.autograd.grad(net(words).float().square().sum(), net.convolutions[0].weight)
    exact = network()
    (expected,) = torch.autograd.grad(exact(words).square().sum(), exact.convolutions[0].weight)
    assert float((found.double() - expected).norm() / expected.norm()) < 0.05


def test_the_network_of_the_paper():
    net = build_model("gp_cnn", 20, embeddings=torch.randn(WORDS, 100))
    trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
    convolutions = (100 * 5 + 1) * 128 + 2 * (128 * 5 + 1) * 128
    assert trained == convolutions + (128 + 1) * 128 + (128 + 1) * 20
    assert net.features(torch.randint(WORDS, (2, 1000))).shape == (2, 128)
    assert all((layer.bias == 0).all() for layer in (*net.convolutions, net.dense, net.classifier))


def test_weights_can_start_as_pytorchs_layers_do():
    torch.manual_seed(3)
    embeddings = torch.randn(WORDS, 8)
    state = torch.get_rng_state()
    net = build_model("gp_cnn", 6, embeddings=embeddings, channels=7, initialization="pytorch")
    torch.set_rng_state(state)
    layers = [nn.Conv1d(8, 7, 5), nn.Conv1d(7, 7, 5), nn.Conv1d(7, 7, 5), nn.Linear(7, 7), nn.Linear(7, 6)]
    for ours, fresh in zip((*net.convolutions, net.dense, net.classifier), layers, strict=True):
        assert torch.equal(ours.weight, fresh.weight)
        assert torch.equal(ours.bias, fresh.bias)
    with pytest.raises(ValueError, match="initialization must be glorot or pytorch and is 'keras'"):
        network(initialization="keras")


def test_frozen_vectors_stay_and_others_are_trained():
    words = torch.randint(2, WORDS, (2, 200))
    for freeze in (True, False):
        net = network(freeze=freeze)
        net(words).sum().backward()
        assert (net.embedding.weight.grad is None) == freeze


def test_dropout_acts_in_training_alone():
    net, words = network(dropout=0.5), torch.randint(2, WORDS, (8, 200))
    assert not torch.equal(net(words), net(words))
    assert torch.equal(net.eval()(words), net(words))


def test_a_stride_that_would_not_keep_the_windows():
    with pytest.raises(ValueError, match=r"pool_stride must be 5 .* or 1 and is 3"):
        network(pool_stride=3)
