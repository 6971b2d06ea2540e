"""The paper's 17 tables: what each prints, of which methods, and where its numbers stand in ``published.csv``."""

from dataclasses import dataclass

from focalcal.base.suggestions import did_you_mean

METHOD_TITLES = {
    "cross-entropy": "Cross-entropy",
    "brier": "Brier",
    "mmce": "MMCE",
    "ls-0.05": "LS-0.05",
    "ls-0.1": "LS-0.1",
    "fl-1": "FL-1",
    "fl-2": "FL-2",
    "fl-3": "FL-3",
    "flsc-531": "FLSc-531",
    "flsc-532": "FLSc-532",
    "flsd-532": "FLSD-532",
    "flsd-53": "FLSD-53",
}
MAIN = ("cross-entropy", "brier", "mmce", "ls-0.05", "fl-3", "flsd-53")
FOCAL_VARIANTS = ("fl-1", "fl-2", "fl-3", "flsc-531", "flsc-532", "flsd-532", "flsd-53")
ALL_METHODS = ("cross-entropy", "brier", "mmce", "ls-0.05", *FOCAL_VARIANTS)

_SCALED = (("pre", "pre T"), ("post", "post T"))


@dataclass(frozen=True)
class TableName:
    """One table of the paper.

    Attributes:
        name: On the command line: ``ece``; ``ece-variants`` and ``nll-pre`` are what options choose.
        printed: In ``published.csv``.
        title: The heading.
        methods: Columns, in the paper's order.
        columns: Metric, scaling and heading below each method.
        is_ood: Whether its data sets are pairs such as ``CIFAR-10/SVHN``.
    """

    name: str
    printed: str
    title: str
    methods: tuple[str, ...]
    columns: tuple[tuple[str, str, str], ...]
    is_ood: bool = False


def _calibration(name: str, metric: str, printed: str, title: str) -> list[TableName]:
    columns = tuple((metric, scaling, heading) for scaling, heading in _SCALED)
    return [
        TableName(name, f"{printed}_tab1", f"{title} (%)", MAIN, columns),
        TableName(f"{name}-variants", f"{printed}_tab2", f"{title} (%), focal variants", FOCAL_VARIANTS, columns),
    ]


def _one_scaling(name: str, title: str) -> list[TableName]:
    return [
        TableName(f"{name}-{scaling}", f"{name}_tab{number}", f"{title} {when}", ALL_METHODS, ((name, scaling, ""),))
        for number, (scaling, when) in enumerate(
            (("pre", "before temperature scaling"), ("post", "after temperature scaling")), 1
        )
    ]


_TABLES = (
    *_calibration("ece", "ece", "ece", "ECE"),
    TableName("error", "error_tab1", "Test error (%)", MAIN, (("error", "", ""),)),
    TableName("error-variants", "error_tab2", "Test error (%), focal variants", FOCAL_VARIANTS, (("error", "", ""),)),
    *_calibration("ada-ece", "ada_ece", "ada_ece", "AdaECE"),
    *_calibration("classwise-ece", "classwise_ece", "sce", "Classwise-ECE"),
    *_one_scaling("nll", "NLL × 100"),
    *_one_scaling("mce", "MCE (%)"),
    TableName(
        "top5",
        "top5",
        "Top-1 and top-5 accuracy (%)",
        ("cross-entropy", "brier", "mmce", "ls-0.05", "flsd-53"),
        (("top1_accuracy", "", "top-1"), ("top5_accuracy", "", "top-5")),
    ),
    TableName(
        "ood-auroc",
        "auroc_tab1",
        "AUROC (%) of telling out-of-distribution data apart, by entropy",
        MAIN,
        tuple(("ood_auroc", scaling, heading) for scaling, heading in _SCALED),
        is_ood=True,
    ),
    TableName(
        "s99",
        "side_table",
        "Predictions with a confidence of 0.99 or more: their share and accuracy (%)",
        ("cross-entropy", "mmce", "flsd-53"),
        tuple(
            (metric, scaling, f"{what} {heading}")
            for scaling, heading in _SCALED
            for metric, what in (("s99_share", "|S99|"), ("s99_accuracy", "accuracy"))
        ),
    ),
    TableName(
        "early-stopping",
        "early_stopping",
        "Early stopping: the epoch that each criterion chooses on validation, and its test error and ECE (%)",
        ("cross-entropy", "flsd-53"),
        (("epoch", "pre", "epoch"), ("error", "pre", "error"), ("ece", "pre", "ECE")),
    ),
    TableName(
        "translation",
        "mt_table",
        "Translation, WMT14 English to German: ECE (%) and BLEU",
        ("cross-entropy", "ls-0.1", "fl-1"),
        tuple(
            (metric, scaling, f"{what} {heading}")
            for metric, what in (("ece", "ECE"), ("bleu", "BLEU"))
            for scaling, heading in _SCALED
        ),
    ),
)
TABLES = {table.name: table for table in _TABLES}
# What the command line takes; options choose between the tables of one name.
COMMAND_NAMES = tuple(dict.fromkeys(name.removesuffix("-variants").removesuffix("-pre") for name in TABLES))
COMMAND_NAMES = tuple(name for name in COMMAND_NAMES if not name.endswith("-post"))


def named_tables(name: str, *, variants: bool = False) -> list[TableName]:
    """Return the tables that a name on the command line stands for: one, or before and after scaling.

    Examples:
        >>> [table.printed for table in named_tables("ece", variants=True)], len(named_tables("nll"))
        (['ece_tab2'], 2)
    """
    known = dict.fromkeys([*COMMAND_NAMES, *TABLES])
    if name not in known:
        raise ValueError(f"There is no table {name!r}{did_you_mean(name, known)}")
    if variants:
        if f"{name}-variants" not in TABLES:
            raise ValueError(f"The table {name} has no variants; ece, error, ada-ece and classwise-ece have.")
        return [TABLES[f"{name}-variants"]]
    return [TABLES[name]] if name in TABLES else [TABLES[f"{name}-pre"], TABLES[f"{name}-post"]]
