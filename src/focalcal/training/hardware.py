"""What a machine cannot do, said before anything begins."""

import os

import torch

from focalcal.recipes.settings import HardwareSettings

# Launchers that tell a process where the others are; without one of them it would wait for them for ever.
_LAUNCHERS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "LSB_JOBID", "MASTER_ADDR")


def check_hardware(hardware: HardwareSettings) -> None:
    """Refuse devices that are not there, and what does not work on those that are, in one sentence."""
    if hardware.strategy == "fsdp" and not (hardware.accelerator in ("auto", "cuda") and torch.cuda.is_available()):
        raise ValueError("FSDP shards a network over GPUs, and there is none here; use hardware.strategy=ddp.")
    if hardware.accelerator == "cuda" and not torch.cuda.is_available():
        raise ValueError("There is no CUDA device here; use hardware.accelerator=cpu, or auto.")
    if hardware.accelerator == "mps" and not torch.backends.mps.is_available():
        raise ValueError("There is no MPS device here; use hardware.accelerator=cpu, or auto.")
    if hardware.precision == "16-mixed" and _is_cpu(hardware):
        raise ValueError("hardware.precision=16-mixed is for GPUs, and this is a CPU; use bf16-mixed or 32.")
    if hardware.nodes > 1 and not any(name in os.environ for name in _LAUNCHERS):
        raise ValueError("hardware.nodes is for many machines: start the command with torchrun on each of them.")


def _is_cpu(hardware: HardwareSettings) -> bool:
    has_gpu = torch.cuda.is_available() or torch.backends.mps.is_available()
    return hardware.accelerator == "cpu" or (hardware.accelerator == "auto" and not has_gpu)
