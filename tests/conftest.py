"""What all tests share."""

import os

import torch

# Tests that run side by side are given a narrow terminal; tables are then broken where nobody expects it.
os.environ.pop("COLUMNS", None)

# Tests run side by side: threads that wait for each other's cores would only slow them down.
torch.set_num_threads(1)
