"""Settings of the task: the data sets and networks that a recipe can name, with their options."""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from focalcal.base.named_functions import is_function_name
from focalcal.recipes.settings import Count, Seed, Settings, Share, Whole, make_list, name_group, refuse_repeats

# A share of every class; a half and more would leave less to learn from than to measure.
_HeldOut = Annotated[float, Field(gt=0, lt=0.5)]
Workers = Annotated[int, Field(gt=0, le=256, strict=True)] | None
FunctionName = Annotated[str, Field(pattern=r"^[^:]+:[^:]+$")]
# cifar10_c is severity 5, the paper's; the others have their number behind them.
OodName = Literal["svhn", "cifar10_c", "cifar10_c_1", "cifar10_c_2", "cifar10_c_3", "cifar10_c_4"]


class ImageData(Settings):
    """A data set of images that has a name."""

    name: Literal["digits", "fashion_mnist", "cifar10", "cifar100", "tiny_imagenet"]
    split_seed: Seed = 0
    train_size: Count = None
    augment: Literal[True, False, "flip"] = True
    ood: Annotated[tuple[OodName, ...], BeforeValidator(make_list), AfterValidator(refuse_repeats)] = ()
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


class _PairData(Settings):
    """Sentence pairs."""

    split_seed: Seed = 0
    vocabulary: Whole = 10_000
    subwords: Literal["bpe", "unigram"] = "bpe"
    max_tokens: Whole = 256
    source: str = "en"
    target: str = "de"
    synthetic: Count = None


class Multi30kData(_PairData):
    """Captions of photographs in English and German."""

    name: Literal["multi30k"]


class Wmt14Data(_PairData):
    """News, debates and web pages in English and German."""

    name: Literal["wmt14"]
    vocabulary: Whole = 32_000


class ParallelData(_PairData):
    """A user's own parallel text: two files of lines per split, or parquet files."""

    name: Literal["parallel"]
    train: Annotated[tuple[str, ...] | None, BeforeValidator(make_list)] = None
    val: Annotated[tuple[str, ...] | None, BeforeValidator(make_list)] = None
    test: Annotated[tuple[str, ...] | None, BeforeValidator(make_list)] = None


class ImageFolderData(Settings):
    """A user's own images: one folder per class."""

    name: Literal["images"]
    split_seed: Seed = 0
    path: str | None = None
    size: Whole | None = None
    channels: Literal[1, 3] | None = None
    val_share: _HeldOut = 0.1
    test_share: _HeldOut = 0.1
    train_size: Count = None
    augment: Literal[True, False, "flip"] = False
    in_memory: bool | None = None
    workers: Workers = None


class ArrayData(Settings):
    """A user's own arrays: .npz files of inputs and labels."""

    name: Literal["arrays"]
    split_seed: Seed = 0
    path: str | None = None
    val_path: str | None = None
    test_path: str | None = None
    inputs: str = "x"
    labels: str = "y"
    layout: Literal["nchw", "nhwc"] | None = None
    val_share: _HeldOut = 0.1
    test_share: _HeldOut = 0.1
    augment: Literal[True, False, "flip"] = False


class FunctionData(Settings):
    """Data that a function of the user's own returns; all other keys are its arguments."""

    model_config = ConfigDict(extra="allow")

    name: FunctionName
    split_seed: Seed = 0


class OwnData(Settings):
    """Data that is passed to ``focalcal.train`` as objects."""

    name: Literal["own"]
    split_seed: Seed = 0


def _kind_of_name(group: Any) -> str:
    """Return the tag of a group of settings: its name is that of a function, or one that recipes know."""
    name = group.get("name") if isinstance(group, dict) else getattr(group, "name", None)
    return FUNCTION if is_function_name(name) else KNOWN


# Tags of pydantic, which appear in the places of problems.
KNOWN, FUNCTION = "known", "function"

Data = Annotated[
    Annotated[
        Annotated[
            ImageData
            | NewsgroupsData
            | SstData
            | TextData
            | Multi30kData
            | Wmt14Data
            | ParallelData
            | ImageFolderData
            | ArrayData
            | OwnData,
            Field(discriminator="name"),
            Tag(KNOWN),
        ]
        | Annotated[FunctionData, Tag(FUNCTION)],
        Discriminator(_kind_of_name),
    ],
    BeforeValidator(name_group),
]


class PaperModel(Settings):
    """A network of the paper for images."""

    name: Literal["resnet50", "resnet110", "wide_resnet_26_10", "densenet121"]


class SmallResNetModel(Settings):
    """A ResNet for CPUs."""

    name: Literal["resnet8", "resnet20"]
    width: Whole = 16


class MlpModel(Settings):
    """A multi-layer perceptron."""

    name: Literal["mlp"]
    hidden: tuple[Whole, ...] = (128,)
    dropout: Share = 0.0


class CnnModel(Settings):
    """A small convolutional network in the manner of LeNet."""

    name: Literal["cnn"]
    channels: tuple[Whole, Whole] = (32, 64)
    hidden: Whole = 128
    dropout: Share = 0.0


class GpCnnModel(Settings):
    """The Global Pooling CNN for texts."""

    name: Literal["gp_cnn"]
    channels: Whole = 128
    pool_stride: Whole = 5
    dropout: Share = 0.0
    freeze: bool = True
    initialization: Literal["glorot", "pytorch"] = "glorot"


class TreeLstmModel(Settings):
    """The binary Tree-LSTM."""

    name: Literal["tree_lstm"]
    hidden: Whole = 150
    dropout: Share = 0.5
    leaf_output_gate: bool = False
    output_gate: bool = True
    sparse: bool = True


class TransformerTinyModel(Settings):
    """A small Transformer, for small corpora."""

    name: Literal["transformer_tiny"]
    dropout: Share = 0.3
    norm: Literal["pre", "post"] = "post"


class TransformerBaseModel(Settings):
    """The base Transformer of Vaswani et al."""

    name: Literal["transformer_base"]
    dropout: Share = 0.1
    norm: Literal["pre", "post"] = "post"


class FunctionModel(Settings):
    """A network that a function of the user's own returns; all other keys are its arguments."""

    model_config = ConfigDict(extra="allow")

    name: FunctionName


class OwnModel(Settings):
    """A network that is passed to ``focalcal.train`` as an object."""

    name: Literal["own"]


Model = Annotated[
    Annotated[
        Annotated[
            PaperModel
            | SmallResNetModel
            | MlpModel
            | CnnModel
            | GpCnnModel
            | TreeLstmModel
            | TransformerTinyModel
            | TransformerBaseModel
            | OwnModel,
            Field(discriminator="name"),
            Tag(KNOWN),
        ]
        | Annotated[FunctionModel, Tag(FUNCTION)],
        Discriminator(_kind_of_name),
    ],
    BeforeValidator(name_group),
]


def list_networks(data: str) -> tuple[str, ...]:
    """List the networks that take the inputs of a data set: pixels, tokens, trees or sentence pairs.

    Examples:
        >>> list_networks("sst")
        ('tree_lstm', 'own')
    """
    kinds: tuple[type[Settings], ...] = (PaperModel, SmallResNetModel, MlpModel, CnnModel)
    if data in ("newsgroups", "text"):
        kinds = (GpCnnModel,)
    elif data == "sst":
        kinds = (TreeLstmModel,)
    elif data in ("multi30k", "wmt14", "parallel"):
        kinds = (TransformerTinyModel, TransformerBaseModel)
    elif data == "own" or is_function_name(data):
        kinds = (*kinds, GpCnnModel, TreeLstmModel, TransformerTinyModel, TransformerBaseModel)
    own: tuple[type[Settings], ...] = (OwnModel,)
    return tuple(name for kind in kinds + own for name in get_args(kind.model_fields["name"].annotation))
