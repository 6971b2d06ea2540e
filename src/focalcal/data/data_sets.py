"""The data sets by name: sizes, files, addresses, and how each is loaded."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalcal.base.named_functions import is_function_name
from focalcal.base.suggestions import did_you_mean
from focalcal.data.data_files import DataFile

if TYPE_CHECKING:  # a list of names should not take the second that importing torch takes
    from focalcal.data.data_types import DataSet

# Module and function, imported when the set is asked for: each takes seed, root and its options by keyword.
_LOADERS: dict[str, str] = {
    "digits": "focalcal.data.digits:load_digits",
    "fashion_mnist": "focalcal.data.fashion_mnist:load_fashion_mnist",
    "cifar10": "focalcal.data.cifar:load_cifar10",
    "cifar100": "focalcal.data.cifar:load_cifar100",
    "tiny_imagenet": "focalcal.data.tiny_imagenet:load_tiny_imagenet",
    "sst": "focalcal.data.sst:load_sst",
    "newsgroups": "focalcal.data.newsgroups:load_newsgroups",
    "images": "focalcal.data.own_images:load_image_folder",
    "arrays": "focalcal.data.own_arrays:load_arrays",
    "text": "focalcal.data.own_texts:load_texts",
    "multi30k": "focalcal.data.translation_sets:load_multi30k",
    "wmt14": "focalcal.data.translation_sets:load_wmt14",
    "parallel": "focalcal.data.translation_sets:load_parallel",
}
_IMAGE_SETS = ("digits", "fashion_mnist", "cifar10", "cifar100", "tiny_imagenet")
DATA_NAMES = tuple(_LOADERS)


def _fashion(name: str, size: int, md5: str) -> DataFile:
    return DataFile(
        f"fashion_mnist/{name}",
        url=f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}",
        size=size,
        md5=md5,
        system="/usr/share/datasets/fashion-mnist",
    )


def _parquet(path: str, repository: str, path_in_it: str) -> DataFile:
    return DataFile(path, hub=(repository, path_in_it))


FASHION_MNIST = (
    _fashion("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    _fashion("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
    _fashion("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
    _fashion("t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
)
CIFAR10 = tuple(
    _parquet(f"cifar10/{path}", "uoft-cs/cifar10", path)
    for path in ("plain_text/train-00000-of-00001.parquet", "plain_text/test-00000-of-00001.parquet")
)
CIFAR100 = tuple(
    _parquet(path, "uoft-cs/cifar100", path)
    for path in ("cifar100/train-00000-of-00001.parquet", "cifar100/test-00000-of-00001.parquet")
)
_SVHN_PATH = "cropped_digits/test-00000-of-00001.parquet"
SVHN = (_parquet(f"svhn/{_SVHN_PATH}", "ufldl-stanford/svhn", _SVHN_PATH),)
TINY_IMAGENET = (
    DataFile(
        "tiny_imagenet/tiny-imagenet-200.zip",
        url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        size=248_100_043,
        md5="90528d7ca1a48142e341f4ef8d21d0de",
    ),
)
CIFAR10_C = (DataFile("cifar10_c/gaussian_noise.npy"), DataFile("cifar10_c/labels.npy"))
# Severities 1 to 5 of the noise by the names of recipes; 5 is the paper's and has the plain name.
CIFAR10_C_SEVERITIES = {**{f"cifar10_c_{severity}": severity for severity in range(1, 5)}, "cifar10_c": 5}
# Their archive. So much is fetched only where it is asked for; without it the noise is made here.
CIFAR10_C_ARCHIVE = DataFile(
    "cifar10_c/CIFAR-10-C.tar",
    url="https://zenodo.org/records/2535967/files/CIFAR-10-C.tar",
    size=2_918_471_680,
    md5="56bf5dcef84df0e2308c6dcbcbbd8499",
)

SST = DataFile("sst/trainDevTestTrees_PTB.zip", url="https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip")
NEWSGROUPS = DataFile(
    "newsgroups/20_newsgroups.tar.gz",
    url="http://kdd.ics.uci.edu/databases/20newsgroups/20_newsgroups.tar.gz",
)
GLOVE = DataFile(
    "glove/glove.6B.zip",
    url="https://nlp.stanford.edu/data/glove.6B.zip",
    instead=("glove/*.100d.txt", "glove/*.100d.txt.gz"),
)


def _multi30k(name: str) -> dict[str, DataFile]:
    base = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
    files = {language: f"{name}.{language}.gz" for language in ("en", "de")}
    return {language: DataFile(f"multi30k/{file}", url=f"{base}/{file}") for language, file in files.items()}


# By split, then by language.
MULTI30K = {
    "train": _multi30k("train"),
    "val": _multi30k("val"),
    "test": _multi30k("test_2016_flickr"),
    "test_2017": _multi30k("test_2017_flickr"),
}
# By split, the parts of it.
WMT14 = {
    split: tuple(
        _parquet(f"wmt14/{path}", "wmt/wmt14", path)
        for path in (f"de-en/{name}-{part:05d}-of-{parts:05d}.parquet" for part in range(parts))
    )
    for split, name, parts in (("train", "train", 3), ("val", "validation", 1), ("test", "test", 1))
}


@dataclass(frozen=True)
class Entry:
    """A line of ``focalcal data list``.

    Attributes:
        name: Name in recipes.
        about: Description in a few words.
        classes: Number of classes.
        sizes: Sizes of train, validation and test, in words.
        files: All that it takes; none for what is bundled or the user's own.
        trainable: False for what is only evaluated, out of distribution.
        bundled: True where no file is needed.
        instead: Files that can be used instead, all of them together.
        made_from: Files of another set, from which it is made if it is not there.
    """

    name: str
    about: str
    classes: str
    sizes: str
    files: tuple[DataFile, ...] = ()
    trainable: bool = True
    bundled: bool = False
    instead: tuple[DataFile, ...] = ()
    made_from: tuple[DataFile, ...] = ()

    def present(self, root: Path | None = None) -> list[tuple[DataFile, Path | None]]:
        """List the files, each with its place, or None if it is not there."""
        others = [(file, file.locate(root)) for file in self.instead]
        if others and all(place is not None for _, place in others):
            return others
        return [(file, file.locate(root)) for file in self.files]

    @property
    def takes(self) -> str:
        """Files that must be there or downloaded, in a few words."""
        if not self.files:
            return "nothing: comes with scikit-learn" if self.bundled else "a file or folder of yours"
        if any(file.hub for file in self.files):
            return f"{len(self.files)} file(s) from the Hugging Face hub (pip install 'focalcal[download]')"
        size = sum(file.size or 0 for file in self.files)
        return f"{len(self.files)} file(s)" + (f", {size / 1e6:,.0f} MB" if size else "")


CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("digits", "8 × 8 digits of scikit-learn", "10", "1,078 / 269 / 450", bundled=True),
        Entry("fashion_mnist", "28 × 28 grey clothes, IDX files", "10", "54,000 / 6,000 / 10,000", FASHION_MNIST),
        Entry("cifar10", "32 × 32 photographs, parquet", "10", "45,000 / 5,000 / 10,000", CIFAR10),
        Entry("cifar100", "32 × 32 photographs, parquet", "100", "45,000 / 5,000 / 10,000", CIFAR100),
        Entry("tiny_imagenet", "64 × 64 photographs, zip", "200", "90,000 / 10,000 / 10,000", TINY_IMAGENET),
        Entry("newsgroups", "messages by newsgroup, with word vectors", "20", "19,997 in all", (NEWSGROUPS, GLOVE)),
        Entry("sst", "film reviews as trees, with word vectors", "2 or 3", "6,920 / 872 / 1,821", (SST, GLOVE)),
        Entry(
            "multi30k",
            "captions in English and German; subwords",
            "10,000",
            "29,000 / 1,014 / 1,000",
            tuple(file for files in MULTI30K.values() for file in files.values()),
        ),
        Entry(
            "wmt14",
            "news in English and German; subwords",
            "32,000",
            "4.5 M / 3,000 / 3,003",
            tuple(file for files in WMT14.values() for file in files),
        ),
        Entry("images", "images of your own, one folder per class", "any", "any"),
        Entry("arrays", "inputs and labels of your own, npz", "any", "any"),
        Entry("parallel", "sentences and translations of your own", "any", "any"),
        Entry("text", "texts and labels of your own, csv or parquet", "any", "any"),
        Entry("svhn", "house numbers, for out-of-distribution tests", "10", "26,032 test", SVHN, trainable=False),
        Entry(
            "cifar10_c",
            "CIFAR-10 test images with Gaussian noise; made from cifar10 where not here",
            "10",
            "10,000 test",
            (CIFAR10_C_ARCHIVE,),
            trainable=False,
            instead=CIFAR10_C,
            made_from=CIFAR10[1:],
        ),
    )
}


def load_data(name: str, *, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """Load a data set by its name, split and ready for training.

    Args:
        name: Digits, fashion_mnist, cifar10, cifar100, tiny_imagenet, or a text set (see the page on data); images or
            arrays of your own, or ``module:function``, a function of your own that returns the data.
        seed: Seed for the split into training and validation samples; the test samples are the official ones.
        root: Folder to look in and to download to; default: $FOCALCAL_DATA, then the cache.
        options: Options of the set. Image sets have ``train_size`` (number of training images, equal for all classes),
            ``augment`` (True: random crops and mirror images where they are usual; "flip": mirror images only),
            ``ood`` (names of sets to be evaluated out of distribution: svhn, cifar10_c, which is severity 5, and
            cifar10_c_1 to cifar10_c_4; for CIFAR) and ``synthetic`` (number of random images in each
            split, without reading a file).

    Returns:
        The splits, and facts about them for networks and runs.

    Raises:
        ValueError: There is no such set or option, a file is missing, or it is damaged.

    Examples:
        >>> data = load_data("digits", train_size=500)
        >>> len(data.train), sorted(data.evaluation), data.model_options["num_classes"]
        (500, ['test', 'val'], 10)
    """
    if is_function_name(name):
        from focalcal.data.own import call_data_function

        return call_data_function(name, seed, options)
    loader = _loader(name)
    _check_options(name, options, _image_options() if name in _IMAGE_SETS else _keywords(loader))
    return loader(seed=seed, root=None if root is None else Path(root), **options)


def find_entry(name: str) -> Entry:
    """Find the catalogue's entry for a data set, out-of-distribution ones included."""
    _check_name(name, CATALOGUE)
    return CATALOGUE[name]


def _check_name(name: str, known: Collection[str]) -> None:
    if not isinstance(name, str):
        raise TypeError(f"The name of a data set is a string, got {type(name).__name__}.")
    if name not in known:
        raise ValueError(f"There is no data set {name!r}{did_you_mean(name, known)}")


def _loader(name: str) -> Callable[..., DataSet]:
    if isinstance(name, str) and name in CATALOGUE and not CATALOGUE[name].trainable:
        raise ValueError(f"{name} is for evaluation only: name it in the option ood of cifar10 or cifar100.")
    _check_name(name, _LOADERS)
    module, function = _LOADERS[name].split(":")
    loader: Callable[..., DataSet] = getattr(importlib.import_module(module), function)
    return loader


def _image_options() -> list[str]:
    from focalcal.data.image_set import ImageOptions

    return [field.name for field in fields(ImageOptions)]


def _keywords(loader: Callable[..., DataSet]) -> list[str]:
    return [name for name in inspect.signature(loader).parameters if name not in ("seed", "root")]


def _check_options(name: str, options: dict[str, Any], known: list[str]) -> None:
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}{did_you_mean(option, known)}")
