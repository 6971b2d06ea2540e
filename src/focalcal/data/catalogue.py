"""What data sets there are, without reading one: sizes, files, addresses."""

from dataclasses import dataclass
from pathlib import Path

from focalcal.data.files import DataFile


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


@dataclass(frozen=True)
class Entry:
    """A line of ``focalcal data list``.

    Attributes:
        name: as recipes say it.
        about: what it is, in a few words.
        classes: how many.
        sizes: of train, validation and test, in words.
        files: all that it takes; none for what is bundled or the user's own.
        trainable: False for what is only evaluated, out of distribution.
        bundled: True where no file is needed.
        instead: files that do as well, all of them together.
        made_from: files of another set, of which it is made where it is not here.
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
        """Its files, each with its place, or None where it is not here."""
        others = [(file, file.located(root)) for file in self.instead]
        if others and all(place is not None for _, place in others):
            return others
        return [(file, file.located(root)) for file in self.files]

    @property
    def takes(self) -> str:
        """What must be there or downloaded, in a few words."""
        if not self.files:
            return "nothing: comes with scikit-learn" if self.bundled else "a file of yours"
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
