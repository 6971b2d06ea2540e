"""``python -m focalcal``: the command line, also for launchers that start modules (``torchrun -m focalcal …``)."""

from focalcal.cli import main

if __name__ == "__main__":
    main()
