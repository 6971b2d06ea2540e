"""The Transformer: against PyTorch's own layers, its cache, its masks, its size, and what it refuses."""

import pytest
import torch
from torch import nn

from focalcal.data.sentence_pairs import PairBatch
from focalcal.models.model_registry import build_model
from focalcal.models.transformer import DecoderLayer, EncoderLayer, Transformer

SUBWORDS = 17
NORMS = pytest.mark.parametrize("norm", ["pre", "post"])


def network(norm="post", **options):
    torch.manual_seed(0)
    options = {"layers": 2, "width": 16, "feedforward": 24, "heads": 4, "dropout": 0.0} | options
    return Transformer(SUBWORDS, norm=norm, **options).double()


def pairs(sources, targets):
    """A batch of lists of subwords, padded with 0; every target position is asked for that is not padding."""
    source, target = (
        torch.tensor([row + [0] * (max(map(len, rows)) - len(row)) for row in rows]) for rows in (sources, targets)
    )
    return PairBatch(source, target, torch.nonzero(target.flatten()).flatten())


def copy_attention(theirs, ours):
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)


def copy_rest(theirs, ours):
    with torch.no_grad():
        for name, part in (("linear1", ours.feedforward[0]), ("linear2", ours.feedforward[2])):
            getattr(theirs, name).load_state_dict(part.state_dict())
        for number, around in enumerate(ours.around, start=1):
            around.norm.weight.uniform_(0.5, 1.5)
            getattr(theirs, f"norm{number}").load_state_dict(around.norm.state_dict())


@NORMS
def test_the_encoder_layer_is_that_of_pytorch(norm):
    torch.manual_seed(1)
    ours = EncoderLayer(16, 24, 4, 0.0, norm == "pre").double()
    theirs = nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=True, norm_first=norm == "pre").double()
    copy_attention(theirs.self_attn, ours.attention)
    copy_rest(theirs, ours)
    x, real = torch.randn(3, 5, 16).double(), torch.arange(5) < torch.tensor([[5], [3], [1]])
    expected = theirs(x, src_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, real[:, None, None])[real], expected[real])


@NORMS
def test_the_decoder_layer_is_that_of_pytorch(norm):
    torch.manual_seed(2)
    ours = DecoderLayer(16, 24, 4, 0.0, norm == "pre").double()
    theirs = nn.TransformerDecoderLayer(16, 4, 24, 0.0, batch_first=True, norm_first=norm == "pre").double()
    copy_attention(theirs.self_attn, ours.attention)
    copy_attention(theirs.multihead_attn, ours.cross)
    copy_rest(theirs, ours)
    x, memory = torch.randn(2, 4, 16).double(), torch.randn(2, 6, 16).double()
    real = torch.arange(6) < torch.tensor([[6], [2]])
    causal = nn.Transformer.generate_square_subsequent_mask(4).bool()
    expected = theirs(x, memory, tgt_mask=causal, memory_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, *ours.cross.project(memory), real[:, None, None]), expected)


@NORMS
def test_the_cache_gives_what_the_whole_prefix_gives(norm):
    net = network(norm).eval()
    batch = pairs([[5, 6, 7, 3], [8, 3]], [[2, 9, 10, 11], [2, 12, 13, 14]])
    whole = net(batch).reshape(2, 4, SUBWORDS)
    state = net.start(batch.source)
    steps = [net.step(batch.target[:, place : place + 1], state) for place in range(4)]
    torch.testing.assert_close(torch.cat(steps, 1), whole)
    assert state.length == 4


def test_several_hypotheses_share_a_sentence():
    net = network().eval()
    state = net.start(torch.tensor([[5, 6, 3], [7, 3, 0]]))
    net.step(torch.full((2, 1), 2), state)
    state.select(torch.tensor([0, 0, 1, 1]))
    found = net.step(torch.tensor([[9, 10], [11, 12]]), state)
    for row, sentence in enumerate(([5, 6, 3], [7, 3])):
        for column, word in enumerate(((9, 10), (11, 12))[row]):
            expected = net(pairs([sentence], [[2, word]]))[-1]
            torch.testing.assert_close(found[row, column], expected)


def test_a_sentence_that_is_dropped_leaves_the_others_as_they_were():
    net = network().eval()
    state = net.start(torch.tensor([[5, 6, 3], [7, 3, 0]]))
    net.step(torch.full((2, 1), 2), state)
    state.keep_sentences(torch.tensor([1]))
    state.select(torch.tensor([1]))
    torch.testing.assert_close(net.step(torch.tensor([[9]]), state)[0, 0], net(pairs([[7, 3]], [[2, 9]]))[-1])


def test_padding_changes_nothing():
    net = network().eval()
    together = net(pairs([[5, 3], [6, 7, 8, 9, 3]], [[2, 9], [2, 10, 11, 12]]))
    alone = torch.cat([net(pairs([[5, 3]], [[2, 9]])), net(pairs([[6, 7, 8, 9, 3]], [[2, 10, 11, 12]]))])
    torch.testing.assert_close(together, alone)


def test_no_position_looks_ahead():
    net = network().eval()
    one, other = net(pairs([[5, 3]], [[2, 9, 10]])), net(pairs([[5, 3]], [[2, 9, 11]]))
    torch.testing.assert_close(one[:2], other[:2])
    assert not torch.allclose(one[2], other[2])


def test_embedding_and_last_layer_are_one_weight():
    net = network()
    assert net.classifier.weight is net.embedding.weight
    assert sum(parameter is net.embedding.weight for parameter in net.parameters()) == 1
    net(pairs([[5, 3]], [[2, 9]])).sum().backward()
    assert bool((net.embedding.weight.grad[5] != 0).any())


@pytest.mark.parametrize(
    ("name", "least", "most"), [("transformer_tiny", 2.55e6, 2.65e6), ("transformer_base", 48e6, 50e6)]
)
def test_sizes(name, least, most):
    net = build_model(name, 10_000)
    assert least < sum(parameter.numel() for parameter in net.parameters()) < most


def test_logits_at_the_beginning_are_small():
    torch.manual_seed(0)
    net = build_model("transformer_tiny", 10_000).eval()
    logits = net(pairs([[50, 60, 3]], [[2, 90, 100]]))
    assert float(logits.detach().std()) < 2.0


def test_logits_are_in_full_precision_under_autocast():
    net = network().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert net(pairs([[5, 3]], [[2, 9]])).dtype == torch.float32


def test_a_sentence_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="has 5 subwords or more, and this network takes 4"):
        network(max_length=4)(pairs([[5, 6, 7, 8, 3]], [[2]]))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"width": 12}, "width must be an even multiple of heads and is 12 for 4 heads"),
        ({"norm": "both"}, "norm must be pre or post and is 'both'"),
        ({"layers": 0}, "layers must be a whole number of at least 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        network(**options)
