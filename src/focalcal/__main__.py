"""``python -m focalcal`` is ``focalcal``."""

from focalcal.cli import main

main()
