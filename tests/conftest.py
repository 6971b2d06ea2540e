"""What all tests share."""

import torch

# Tests run side by side: threads that wait for each other's cores would only slow them down.
torch.set_num_threads(1)
