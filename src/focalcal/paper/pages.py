"""Pages of the documentation: every table, every figure and a page per study, from the results at hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from focalcal.base.files import atomic_writer, make_folder, read_text
from focalcal.base.markdown import markdown_table
from focalcal.base.progress import note
from focalcal.data.data_files import MissingDataError
from focalcal.paper.claims import Claim
from focalcal.paper.figures import FIGURES, WITHOUT_RUNS, PaperFigure
from focalcal.paper.result_folders import ResultSet
from focalcal.paper.run_groups import group_runs
from focalcal.paper.studies import STUDIES, Study, study_markdown
from focalcal.paper.table_formats import write_tables
from focalcal.paper.table_names import TABLES

_COMMAND = "focalcal paper pages --out docs/paper --readme README.md"
# The claims of the README, by their places in the studies.
_HEADLINES = {
    "miscalibration": (0, 1),
    "focal-training": (0,),
    "calibration": (2, 5, 8),
    "early-stopping": (0,),
    "ood": (0,),
    "confident": (1,),
    "temperature": (0,),
    "large-gamma": (0,),
    "translation": (0,),
}
_BEGIN, _END = "<!-- claims: made by focalcal paper pages -->", "<!-- end of claims -->"


def write_figures(results: Sequence[ResultSet], out: Path, ending: str = "png") -> dict[str, str]:
    """Draw every figure that can be drawn into a folder, which is made.

    Returns:
        A sentence for each figure: what it shows, or why it is missing.
    """
    make_folder(out)
    groups = group_runs(results)
    said = {}
    for name, build in FIGURES.items():
        try:
            figure: PaperFigure = build([] if name in WITHOUT_RUNS else groups)
        except MissingDataError as error:
            note(str(error))  # names folders of this machine, which a page should not
            said[name] = "not drawn: it needs the data set, which is not at hand (see focalcal data check)."
            continue
        except ValueError as error:
            said[name] = f"not drawn: {error}"
            continue
        figure.save(out / f"{name}.{ending}")
        said[name] = " ".join([f"{figure.title}.", *figure.notes])
    return said


def write_pages(results: Sequence[ResultSet], out: Path, *, progress: bool = True) -> tuple[list[Path], str]:
    """Write tables, figures and pages into a folder.

    Returns:
        The pages, and a table of the main claims for a README.
    """
    make_folder(out)
    write_tables(results, out / "tables")
    drawn = write_figures(results, out / "figures")
    pages, claims = [], {}
    for study in STUDIES.values():
        if progress:
            note(f"study {study.name}")
        claims[study.name] = study.claims(results)
        pages.append(out / f"{study.name}.md")
        _write(pages[-1], _page(study, results, claims[study.name], drawn))
    pages.append(out / "index.md")
    _write(pages[-1], _index(drawn))
    return pages, write_headlines(claims)


def update_readme(readme: Path, headlines: str) -> None:
    """Put the table of claims between the marks of a page.

    Raises:
        ValueError: The page has no such marks.
    """
    before, after = check_readme(readme)
    _write(readme, f"{before}{_BEGIN}\n{headlines}\n{_END}{after}")


def check_readme(readme: Path) -> tuple[str, str]:
    """Return what stands before and after the table of claims; refuse a page that has no such marks."""
    before, begin, rest = read_text(readme).partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{readme} has no place for the claims: it needs the lines {_BEGIN} and {_END}.")
    return before, after


def write_headlines(claims: Mapping[str, Sequence[Claim]]) -> str:
    """Write the main claims with a link to their page and an example."""
    chosen = [(name, claims[name][place]) for name, places in _HEADLINES.items() for place in places]
    rows = [(claim.text, f"[{claim.verdict}](docs/paper/{name}.md)", claim.example()) for name, claim in chosen]
    return markdown_table(("The paper says", "Here", "For example"), rows, left=3)


def _write(path: Path, text: str) -> None:
    with atomic_writer(path) as file:
        file.write(text.encode())


def _page(study: Study, results: Sequence[ResultSet], claims: Sequence[Claim], drawn: Mapping[str, str]) -> str:
    parts = [study_markdown(study, results, claims)]
    for name in study.figures:
        if drawn[name].startswith("not drawn"):
            parts.append(f"The figure `{name}` is {drawn[name]}\n")
        else:
            parts.append(f"![{drawn[name]}](figures/{name}.png)\n")
            parts.append(f"`focalcal paper figure {name} --out {name}.png` · [drawn data](figures/{name}.csv)\n")
    if study.tables:
        links = ", ".join(f"[{TABLES[name].title}](tables/{name}.md)" for name in study.tables)
        parts.append(f"Tables: {links}.\n")
    parts.append(f"Made by `focalcal paper study {study.name}`; all pages by `{_COMMAND}`.\n")
    return "\n".join(parts)


def _index(drawn: Mapping[str, str]) -> str:
    studies = [(f"[{study.title}]({study.name}.md)", study.about) for study in STUDIES.values()]
    tables = [(f"[{name}](tables/{name}.md)", table.title) for name, table in TABLES.items()]
    figures = [
        (name if text.startswith("not drawn") else f"[{name}](figures/{name}.png)", text)
        for name, text in drawn.items()
    ]
    return "\n".join(
        [
            "# The paper, end to end\n",
            "Every table, figure and study of *Calibrating Deep Neural Networks using Focal Loss* from the runs in "
            f"`results/`, made by `{_COMMAND}`. Nothing here is written by hand: run it again after adding results.\n",
            "## Studies\n",
            markdown_table(("study", "about"), studies, left=2) + "\n",
            "## Tables\n",
            markdown_table(("table", "about"), tables, left=2) + "\n",
            "## Figures\n",
            markdown_table(("figure", "shows"), figures, left=2) + "\n",
        ]
    )
