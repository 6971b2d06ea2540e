"""The networks that a recipe can name, and the options of each."""

from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field

from focalcal.recipes.settings import Settings, Share, Whole, named


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


class OwnModel(Settings):
    """A network that is passed to ``focalcal.train`` as an object."""

    name: Literal["own"]


Model = Annotated[
    Annotated[
        PaperModel | SmallResNetModel | MlpModel | CnnModel | GpCnnModel | TreeLstmModel | OwnModel,
        Field(discriminator="name"),
    ],
    BeforeValidator(named),
]


def networks_for(data: str) -> tuple[str, ...]:
    """The networks that take the inputs of a data set: pixels, tokens or trees.

    Examples:
        >>> networks_for("sst")
        ('tree_lstm', 'own')
    """
    kinds: tuple[type[Settings], ...] = (PaperModel, SmallResNetModel, MlpModel, CnnModel)
    if data in ("newsgroups", "text"):
        kinds = (GpCnnModel,)
    elif data == "sst":
        kinds = (TreeLstmModel,)
    elif data == "own":
        kinds = (*kinds, GpCnnModel, TreeLstmModel)
    own: tuple[type[Settings], ...] = (OwnModel,)
    return tuple(name for kind in kinds + own for name in get_args(kind.model_fields["name"].annotation))
