"""Studies of the paper: for each the numbers, and claim by claim what they say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from focalcal.base.markdown import markdown_table
from focalcal.base.suggestions import did_you_mean
from focalcal.paper.calibration import calibration_claims, confident_claims
from focalcal.paper.claims import Claim, claims_table
from focalcal.paper.early_stopping import early_stopping_claims
from focalcal.paper.focal_training import focal_training_claims
from focalcal.paper.large_gamma import large_gamma_claims, large_gamma_records
from focalcal.paper.linear_model import linear_claims
from focalcal.paper.miscalibration import miscalibration_claims
from focalcal.paper.out_of_distribution import ood_claims, ood_records, severity_records
from focalcal.paper.result_folders import ResultSet
from focalcal.paper.temperature_choice import temperature_claims, temperature_records
from focalcal.paper.theory import check_theory
from focalcal.paper.translation import difference_records, translation_claims, translation_records

Records = list[dict[str, Any]]
_SMALL = 0.005
Results = Sequence[ResultSet]


@dataclass(frozen=True)
class Study:
    """One study.

    Attributes:
        name: On the command line, and of its page.
        title: The heading.
        about: What it is about, in a sentence or two.
        claims: Judges the paper's claims.
        records: The numbers by heading, where they are not in a table of the paper.
        tables: Tables of the paper that belong to it.
        figures: Figures of the paper that belong to it.
    """

    name: str
    title: str
    about: str
    claims: Callable[[Results], list[Claim]]
    records: Callable[[Results], dict[str, Records]] = lambda results: {}
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


def _ood(results: Results) -> dict[str, Records]:
    return {
        "AUROC and false alarms when 95% are found (%)": ood_records(results),
        "Growing noise: CIFAR-10-C by severity (%)": severity_records(results),
    }


_STUDIES = (
    Study(
        "miscalibration",
        "What causes miscalibration?",
        "Cross-entropy from epoch to epoch, on the test set where it was measured after every epoch and on validation "
        "otherwise. A claim holds in a result where it does with every seed; numbers are of the first.",
        miscalibration_claims,
        figures=("training", "reliability-training"),
    ),
    Study(
        "focal-training",
        "Focal loss against cross-entropy during training",
        "The same quantities for focal losses with a fixed γ; norms of weights, features and gradients. A claim holds "
        "in a result where it does with every seed; numbers are of the first.",
        focal_training_claims,
        figures=("focal-training", "gradient-factor", "feature-norms"),
    ),
    Study(
        "calibration",
        "Calibration and accuracy of all losses",
        "Several seeds (mean ± their standard deviation) are compared by Welch's t-test at 90%, one seed by its 90% "
        "interval [in brackets], at the same level; intervals know nothing of the spread over seeds. A difference that "
        "may be chance is undecided.",
        calibration_claims,
        tables=(
            "ece",
            "ece-variants",
            "error",
            "error-variants",
            "ada-ece",
            "ada-ece-variants",
            "classwise-ece",
            "classwise-ece-variants",
            "nll-pre",
            "nll-post",
            "mce-pre",
            "mce-post",
            "top5",
        ),
        figures=("bars",),
    ),
    Study(
        "early-stopping",
        "Early stopping",
        "The epochs that criteria on validation choose, from the histories of runs that measured the test set after "
        "every epoch; one criterion, the NLL after temperature scaling, is not in the paper. Figures are of the first "
        "seed, and histories hold no intervals: small differences may be chance.",
        early_stopping_claims,
        tables=("early-stopping",),
    ),
    Study(
        "ood",
        "Out-of-distribution data",
        "Networks trained on CIFAR-10 against SVHN and against CIFAR-10-C (Gaussian noise). Networks with an error "
        "above 30% are left out of the verdicts: their entropy tells nothing. AUROCs of one seed have DeLong's 90% "
        "interval [in brackets], from the kept predictions; a difference that may be chance is undecided (by intervals "
        "of one AUROC each, which is cautious: all losses see the same samples).",
        ood_claims,
        _ood,
        tables=("ood-auroc",),
        figures=("ood-roc",),
    ),
    Study(
        "confident",
        "Confident and calibrated",
        "|S99|: the share of test samples with a confidence of 0.99 or more, and how many of them are right.",
        confident_claims,
        tables=("s99",),
        figures=("qualitative",),
    ),
    Study(
        "temperature",
        "T by validation NLL, or by a grid on validation ECE?",
        "Every run, scaled both ways; differences are grid − NLL, mean with 90% interval over runs.",
        temperature_claims,
        lambda results: {"Every run": temperature_records(results)},
    ),
    Study(
        "large-gamma",
        "Large γ",
        "γ = 7 and 10, where the paper expects gradients to die.",
        large_gamma_claims,
        lambda results: {"Results with a large γ": large_gamma_records(results)},
    ),
    Study(
        "theory",
        "Theory, and the linear model",
        "Every statement on a fine grid, and the appendix's linear model over 20 draws of its data (median and the "
        "middle 90% of the draws).",
        lambda results: [*check_theory(), *linear_claims()],
        figures=("optimum", "linear-model"),
    ),
    Study(
        "translation",
        "Translation",
        "The paper trains three Transformers on WMT14 English to German; Multi30k is other data, short captions, "
        "with a far smaller network. Tokens are predicted from the true ones before them; BLEU is of beam search. "
        "ECEs of one seed are compared by their 90% intervals, BLEUs by the 90% interval of their difference (paired "
        "bootstrap over sentences; p is two-sided, sacrebleu's own is about half of it).",
        translation_claims,
        lambda results: {
            "Temperatures, on the curves from 0.5 to 2": translation_records(results),
            "Differences of BLEU, paired bootstrap over sentences": difference_records(results),
        },
        tables=("translation",),
        figures=("bleu-temperature",),
    ),
)
STUDIES = {study.name: study for study in _STUDIES}


def find_study(name: str) -> Study:
    """Return the study of that name."""
    if name not in STUDIES:
        raise ValueError(f"There is no study {name!r}{did_you_mean(name, STUDIES)}")
    return STUDIES[name]


def study_markdown(study: Study, results: Results, claims: Sequence[Claim]) -> str:
    """Write a study: claims with verdicts, then the numbers."""
    sections = [f"# {study.title}\n", f"{study.about}\n", claims_table(claims) + "\n"]
    for heading, records in study.records(results).items():
        if records:
            sections += [f"## {heading}\n", records_table(records) + "\n"]
    return "\n".join(sections)


def records_table(records: Records) -> str:
    """Write records as a Markdown table."""
    rows = [[_show(value) for value in record.values()] for record in records]
    left = sum(isinstance(value, str) for value in records[0].values())
    return markdown_table([name.replace("_", " ") for name in records[0]], rows, left=min(left, 2))


def _show(value: object) -> str:
    if not isinstance(value, float):
        return "–" if value is None else str(value)
    return f"{value:.1e}" if 0 < abs(value) < _SMALL else f"{value:.2f}"  # gradients die by orders of magnitude


def study_records(study: Study, results: Results) -> dict[str, Any]:
    """Return a study for JSON."""
    return {
        "name": study.name,
        "title": study.title,
        "claims": [vars(claim) for claim in study.claims(results)],
        "records": study.records(results),
    }
