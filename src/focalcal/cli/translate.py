"""``focalcal translate``: sentences to translations with a trained network, and BLEU where references are known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalcal.base.progress import note
from focalcal.cli.options import Json
from focalcal.cli.output import print_json, results

if TYPE_CHECKING:
    from focalcal.training import Run
    from focalcal.translation import BleuScore, Translations


def translate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run on sentence pairs.")],
    input: Annotated[
        Path | None, typer.Option(help="A file with one sentence per line, plain or .gz; - for stdin.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="A split of the run's own data instead: val, test, …")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Translations by people of --input, one per line: BLEU is measured.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses per sentence; 1 is greedy decoding.")] = 5,
    temperature: Annotated[float, typer.Option(help="Divide the logits of every step by this.")] = 1.0,
    length_penalty: Annotated[float, typer.Option(min=0, help="α of Wu et al.; 0 for none.")] = 0.6,
    out: Annotated[Path | None, typer.Option(help="Write the translations here instead of to stdout.")] = None,
    json: Json = False,
) -> None:
    """Translate sentences with the network of a run.

    Translations go to stdout, one line per line of the input, or to --out. With --split or --reference BLEU is measured
    by sacrebleu, cased and lower-cased, and printed with its signature: to stderr where translations go to stdout.

    Empty lines stay empty, lines that are longer than the network can read are cut, and both are counted on stderr.

    Examples:
      focalcal translate runs/multi30k --input sentences.en --beam 5 --temperature 1.1
      focalcal translate runs/multi30k --split test --out test.de
      focalcal translate runs/multi30k --input new.en --reference new.de --json
    """
    if (input is None) == (split is None):
        raise ValueError("Name either --input, a file of sentences, or --split, a part of the run's own data.")
    if input == reference == Path("-"):
        raise ValueError("stdin cannot be both --input and --reference; name a file for one of them.")
    if out is not None:
        from focalcal.base.files import check_destination

        check_destination(out, read=[path for path in (input, reference) if path is not None])
    from focalcal.training import open_run
    from focalcal.training.building import load_translator
    from focalcal.translation import measure_bleu
    from focalcal.translation import translate as translate_sentences

    trained = open_run(run)
    sentences, references = _sentences(trained, input, split, reference)
    model, vocabulary = load_translator(trained)
    found = translate_sentences(
        model, vocabulary, sentences, beam=beam, length_penalty=length_penalty, temperature=temperature
    )
    for sentence in found.notes():
        note(sentence)
    _print(found, None if references is None else measure_bleu(found.texts, references), out, json)


def _sentences(
    run: Run, file: Path | None, split: str | None, reference: Path | None
) -> tuple[list[str], list[str] | None]:
    from focalcal.data.parallel_text import pair_lines

    if split is not None:
        if reference is not None:
            raise ValueError("--reference belongs to --input; a split has its own references.")
        return _split_sentences(run, split)
    assert file is not None
    if reference is None:
        return _lines(file), None
    text = pair_lines(_lines(file), _lines(reference), (_name(file), _name(reference)))
    return text.source, text.target


def _lines(file: Path) -> list[str]:
    """Read the lines of a file, or for ``-`` those of stdin, by the same rules."""
    from focalcal.base.files import read_at_most
    from focalcal.data.data_files import LARGEST_UNPACKED
    from focalcal.data.parallel_text import read_lines, split_lines

    if file == Path("-"):
        content = read_at_most(sys.stdin.buffer, LARGEST_UNPACKED)
        if len(content) > LARGEST_UNPACKED:
            raise ValueError(f"stdin gave more than {LARGEST_UNPACKED:,} bytes; translate it in parts.")
        return split_lines(content, _name(file))
    if not file.is_file():
        raise ValueError(f"There is no file {file}; name a file with one sentence per line.")
    return read_lines(file)


def _name(file: Path) -> str:
    return "stdin" if file == Path("-") else file.name


def _split_sentences(run: Run, split: str) -> tuple[list[str], list[str]]:
    from focalcal.data.sentence_pairs import SentencePairs

    data = run.data()
    samples = data.train if split == "train" else data.evaluation.get(split)
    if not isinstance(samples, SentencePairs):
        known = ", ".join(["train", *data.evaluation])
        raise ValueError(f"The data of {run.path} has no split {split!r} of sentence pairs; it has {known}.")
    return list(samples.sources), list(samples.references)


def _print(found: Translations, bleu: BleuScore | None, out: Path | None, json: bool) -> None:
    if out is not None:
        from focalcal.base.files import atomic_writer

        with atomic_writer(out) as file:
            file.write("".join(f"{text}\n" for text in found.texts).encode())
    if json:
        measured = {} if bleu is None else {"bleu": vars(bleu)}
        counts = {name: getattr(found, name) for name in ("empty_lines", "cut_lines", "unknown_subwords")}
        print_json({**({} if out is not None else {"translations": found.texts}), **measured, **counts})
        return
    if out is None:
        console = results()
        for text in found.texts:
            console.print(text, soft_wrap=True)
    if bleu is not None:
        note(str(bleu)) if out is None else results().print(str(bleu), soft_wrap=True)
