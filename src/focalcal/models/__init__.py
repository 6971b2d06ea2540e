"""Networks: those of the paper on focal loss and small ones, all with ``features`` and ``classifier``."""

from focalcal.models.model_registry import MODEL_NAMES, build_model, model_options

__all__ = ["MODEL_NAMES", "build_model", "model_options"]
