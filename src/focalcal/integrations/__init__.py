"""Other frameworks: scikit-learn, torchmetrics, Lightning, Hugging Face and ONNX, each in a module of its own.

Nothing here is imported before it is used, and each module says which extra it needs if its framework is missing.
"""
