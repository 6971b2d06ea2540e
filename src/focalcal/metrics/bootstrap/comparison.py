"""Comparison of models on the same samples, or of sets of different samples: intervals, p-values and a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from focalcal.base.measures import MEASURES
from focalcal.metrics.arguments import prepare_predictions
from focalcal.metrics.binning import check_bins
from focalcal.metrics.bootstrap.differences import Comparison, Difference, holm
from focalcal.metrics.bootstrap.interval_methods import Method, check_method
from focalcal.metrics.bootstrap.intervals import (
    DEFAULT_METHOD,
    Replicates,
    check_names,
    check_resampling,
    replicate,
    without_loss_parts,
)
from focalcal.metrics.bootstrap.pairing import match_samples
from focalcal.metrics.bootstrap.permutation import p_values
from focalcal.metrics.bootstrap.replicates import INTERVAL_METRICS, RESAMPLED_METRICS
from focalcal.metrics.bootstrap.unpaired import UnpairedSet, check_alike, unpaired_differences
from focalcal.metrics.catalogue import METRICS, names_for
from focalcal.metrics.clusters import cluster_numbers, count_clusters, note_on_clusters
from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.predictions import Predictions

COMPARED_METRICS = ("error", "nll", "brier", "ece", "ada_ece", "classwise_ece")


@dataclass(frozen=True)
class _Options:
    paired: bool
    bins: int
    method: Method | None
    bootstrap: int
    permutations: int
    level: float
    seed: int

    def check(self) -> None:
        check_resampling(self.bootstrap, self.level, self.seed)
        if self.permutations < 1:
            raise ValueError(
                f"the number of permutations must be at least 1, not {self.permutations}: pass for example 1000."
            )
        check_bins(self.bins)
        check_method(self.interval_method)

    @property
    def interval_method(self) -> Method:
        return DEFAULT_METHOD if self.method is None else self.method


@dataclass(frozen=True)
class _Model:
    name: str
    preds: Predictions
    statistics: SampleStatistics
    replicates: Replicates


def compare(
    a: Predictions,
    b: Predictions,
    *,
    metrics: Sequence[str] | None = None,
    paired: bool = True,
    bins: int = 15,
    method: Method | None = None,
    bootstrap: int = 1000,
    permutations: int = 1000,
    level: float = 0.90,
    seed: int = 0,
    names: tuple[str, str] = ("a", "b"),
) -> Comparison:
    """Compare two models on the same samples, or (``paired=False``) two sets of different samples, such as two months.

    On the same samples the bootstrap draws samples, each with both predictions, and gives the interval of
    metric(a) − metric(b). The test swaps the two predictions of samples at random and counts how often the difference
    becomes as large as it is: p = (1 + hits) / (1 + permutations), or exact where all swaps, or the binomial
    distribution, can be had. It asks whether the predictions are interchangeable, which is more than equal metrics: two
    models that err in opposite directions fail it. A difference is therefore significant only if the interval
    excludes 0 as well.

    Sets of different samples are measured each on its own. The difference of means comes from resamples of both; that
    of calibration errors, which are the larger the fewer samples there are, from the two honest intervals:
    [low(a) − high(b), high(a) − low(b)]. The p-values are corrected for the number of metrics (Holm). Sets of fewer
    than 10 samples are not tested.

    Args:
        a: N predictions of K classes.
        b: Predictions of the same samples: matched by id if both have ids, else by position. Where not paired, any
            predictions of the same classes.
        metrics: Names of metrics that have intervals; of paired samples no parts of losses, and by default error, NLL,
            Brier, ECE, AdaECE and classwise-ECE, whose p-values are not corrected for their number. Where not paired,
            all that have intervals by default.
        paired: Whether both are of the same samples.
        bins: Number of bins of the binned metrics.
        method: Method of the interval, as in `bootstrap`; None for ``"basic"``.
        bootstrap: Number of resamples.
        permutations: Number of swaps.
        level: Level of the interval, and 1 − the level of the test.
        seed: Seed for the draws; the same seed gives the same result.
        names: Names of the two models.

    Examples:
        >>> import torch
        >>> probs = torch.linspace(0.05, 0.95, 400)
        >>> labels = torch.rand(400, generator=torch.Generator().manual_seed(0)) < probs
        >>> good = Predictions.from_probs(probs, labels)
        >>> compare(good, good)["nll"].verdict
        'no significant difference'
        >>> compare(good, Predictions.from_probs(probs**4, labels), names=("good", "poor"))["nll"].verdict
        'good has the lower nll'
    """
    if names[0] == names[1]:
        raise ValueError(f"both models are called {names[0]!r}: pass two names.")
    options = _Options(paired, bins, method, bootstrap, permutations, level, seed)
    return _compare({names[0]: a, names[1]: b}, [names], metrics, options)[0]


def compare_many(
    models: Mapping[str, Predictions],
    *,
    reference: str | None = None,
    metrics: Sequence[str] | None = None,
    paired: bool = True,
    bins: int = 15,
    method: Method | None = None,
    bootstrap: int = 1000,
    permutations: int = 1000,
    level: float = 0.90,
    seed: int = 0,
) -> list[Comparison]:
    """Compare several models or sets of samples, pair by pair, with p-values corrected for the number of pairs.

    Holm's correction keeps the chance that any pair is wrongly called different, in one metric (in any metric, where
    not paired), at 1 − level. The intervals are those of single pairs.

    Args:
        models: Predictions by name.
        reference: Compare every other model with this one, as model − reference; None compares all pairs.
        metrics: As in `compare`, as are the other arguments.
        paired: Whether all are of the same samples.
        bins: Number of bins of the binned metrics.
        method: Method of the interval.
        bootstrap: Number of resamples.
        permutations: Number of swaps; with many pairs, take more, as no p-value is below 1 / (1 + permutations).
        level: Level of intervals and tests.
        seed: Seed for the draws.

    Returns:
        One comparison per pair.
    """
    if reference is not None and reference not in models:
        raise ValueError(f"there is no model called {reference!r}: the reference must be one of {', '.join(models)}.")
    others = [name for name in models if name != reference]
    pairs = list(combinations(models, 2)) if reference is None else [(name, reference) for name in others]
    options = _Options(paired, bins, method, bootstrap, permutations, level, seed)
    return _compare(models, pairs, metrics, options)


def _compare(
    models: Mapping[str, Predictions],
    pairs: list[tuple[str, str]],
    metrics: Sequence[str] | None,
    options: _Options,
) -> list[Comparison]:
    masked = any(preds.masked_classes for preds in models.values() if isinstance(preds, Predictions))
    models = {name: prepare_predictions(preds) for name, preds in models.items()}
    names = _check_metrics(models, metrics, options)
    if options.paired:
        return _compare_pairs(_evaluate(models, names, options), pairs, names, options)
    if masked:
        names = without_loss_parts(names, metrics is not None)
    return _compare_sets(models, pairs, names, options)


def _check_metrics(
    models: Mapping[str, Predictions], metrics: Sequence[str] | None, options: _Options
) -> tuple[str, ...]:
    """Check models and options, and return the names of the metrics that are compared."""
    if len(models) < 2:
        raise ValueError(f"there are {len(models)} models to compare: give at least 2.")
    options.check()
    first = next(iter(models.values()))
    if any(preds.of != first.of for preds in models.values()):
        kinds = ", ".join(f"{name} by {MEASURES[preds.of].title}" for name, preds in models.items())
        raise ValueError(f"Models are compared by the same measure, but they are measured {kinds}; pass of= to agree.")
    by_default = metrics is None and options.paired
    compared = names_for(COMPARED_METRICS, first.num_classes, first.of) if by_default else metrics
    known = RESAMPLED_METRICS if options.paired else INTERVAL_METRICS
    return check_names(compared, first.num_classes, known, first.of)


def _evaluate(models: Mapping[str, Predictions], names: tuple[str, ...], options: _Options) -> dict[str, _Model]:
    """Evaluate every model, its samples in the order of the first one's, on the same resamples."""
    first, *others = models
    matched = {first: models[first]}
    matched |= {name: match_samples(models[first], models[name], (first, name)) for name in others}
    found = {}
    for name, preds in matched.items():
        statistics = sample_statistics(preds)
        replicates = replicate(
            preds, names, options.bootstrap, options.seed, options.interval_method, options.bins, statistics
        )
        found[name] = _Model(name, preds, statistics, replicates)
    return found


def _compare_sets(
    models: Mapping[str, Predictions], pairs: list[tuple[str, str]], names: tuple[str, ...], options: _Options
) -> list[Comparison]:
    """Compare sets of different samples; Holm's correction is over all pairs and metrics."""
    check_alike(models)
    method = options.interval_method
    sets = {
        name: UnpairedSet(name, preds, names, options.bins, method, options.bootstrap, seed=options.seed + place)
        for place, (name, preds) in enumerate(models.items())
    }
    each = [unpaired_differences(sets[a], sets[b], names, method, options.level) for a, b in pairs]
    adjusted = iter(holm([one.p_value for differences in each for one in differences.values()]))
    return [
        Comparison(
            pair,
            {name: replace(one, adjusted_p_value=next(adjusted)) for name, one in differences.items()},
            paired=False,
            notes=_notes_on_clusters({name: models[name] for name in pair}),
        )
        for pair, differences in zip(pairs, each, strict=True)
    ]


def _compare_pairs(
    models: dict[str, _Model], pairs: list[tuple[str, str]], names: tuple[str, ...], options: _Options
) -> list[Comparison]:
    each = [_differences(models[a], models[b], names, options) for a, b in pairs]
    for metric in names:
        adjusted = holm([differences[metric].p_value for differences in each])
        for differences, p_value in zip(each, adjusted, strict=True):
            differences[metric] = replace(differences[metric], adjusted_p_value=p_value)
    # Paired samples are of the same clusters, those of the first model.
    notes = _notes_on_clusters({"": next(iter(models.values())).preds})
    return [Comparison(pair, differences, notes=notes) for pair, differences in zip(pairs, each, strict=True)]


def _notes_on_clusters(sets: Mapping[str, Predictions]) -> tuple[str, ...]:
    numbers = {name: cluster_numbers(preds) for name, preds in sets.items()}
    counts = {name: count_clusters(found, sets[name].weights) for name, found in numbers.items() if found is not None}
    return tuple(f"{name}: {note_on_clusters(count)}".removeprefix(": ") for name, count in counts.items())


def _differences(a: _Model, b: _Model, names: tuple[str, ...], options: _Options) -> dict[str, Difference]:
    both = a.statistics, b.statistics
    p = p_values(a.preds, b.preds, names, options.permutations, options.seed, options.bins, both)
    difference = a.replicates - b.replicates
    found = {}
    for metric in names:
        low, high = METRICS[metric].range
        found[metric] = Difference(
            metric=metric,
            names=(a.name, b.name),
            values=(a.replicates.estimates[metric], b.replicates.estimates[metric]),
            difference=difference.estimates[metric],
            interval=difference.interval(metric, options.interval_method, options.level, (low - high, high - low)),
            p_value=p[metric],
            adjusted_p_value=p[metric],
            level=options.level,
        )
    return found
