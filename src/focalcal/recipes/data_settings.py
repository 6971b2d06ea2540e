"""The data sets that a recipe can name, and the options of each."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from focalcal.recipes.settings import Count, Seed, Settings, Whole, listed, named, without_repeats

# cifar10_c is severity 5, the paper's; the others have their number behind them.
OodName = Literal["svhn", "cifar10_c", "cifar10_c_1", "cifar10_c_2", "cifar10_c_3", "cifar10_c_4"]


class ImageData(Settings):
    """A data set of images that has a name."""

    name: Literal["digits", "fashion_mnist", "cifar10", "cifar100", "tiny_imagenet"]
    split_seed: Seed = 0
    train_size: Count = None
    augment: bool | Literal["flip"] = True
    ood: Annotated[tuple[OodName, ...], BeforeValidator(listed), AfterValidator(without_repeats)] = ()
    synthetic: Count = None

    @model_validator(mode="after")
    def _ood_fits(self) -> Self:
        if self.ood and self.name not in ("cifar10", "cifar100"):
            raise ValueError(f"data.ood is for cifar10 and cifar100 only, not for {self.name}; leave it out")
        return self


class NewsgroupsData(Settings):
    """20 Newsgroups."""

    name: Literal["newsgroups"]
    split_seed: Seed = 0
    tokens: Whole = 1000
    words: Whole = 20_000
    glove: str | None = None
    dimension: Whole = 100
    trim: bool = True
    by_date: bool = False
    split: Literal["random", "authors"] = "random"
    vocabulary: Literal["training", "all"] = "training"
    missing_vectors: Literal["random", "zeros"] = "random"
    synthetic: Count = None

    @model_validator(mode="after")
    def _one_split(self) -> Self:
        if self.by_date and self.split != "random":
            raise ValueError("data.by_date and data.split=authors are two different splits; leave one of them out")
        return self


class SstData(Settings):
    """The Stanford Sentiment Treebank: 2 classes, or 3 in training with neutral left out of the answers."""

    name: Literal["sst"]
    split_seed: Seed = 0
    classes: Literal[2, 3] = 2
    glove: str | None = None
    dimension: Whole = 100
    synthetic: Count = None


class TextData(Settings):
    """A user's own texts: csv or parquet."""

    name: Literal["text"]
    split_seed: Seed = 0
    path: str | None = None
    val_path: str | None = None
    test_path: str | None = None
    text_column: str = "text"
    label_column: str = "label"
    tokens: Whole = 1000
    words: Whole = 20_000
    glove: str | None = None
    dimension: Whole = 100
    trim: bool = True
    synthetic: Count = None


class OwnData(Settings):
    """Data that is passed to ``focalcal.train`` as objects."""

    name: Literal["own"]
    split_seed: Seed = 0


Data = Annotated[
    Annotated[ImageData | NewsgroupsData | SstData | TextData | OwnData, Field(discriminator="name")],
    BeforeValidator(named),
]
