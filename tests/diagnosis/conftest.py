import numpy as np
import pytest

from focalcal.diagnosis import diagnose


@pytest.fixture
def examined(tmp_path):
    """Save predictions (or raw arrays), diagnose the file, and return the findings by name."""

    def run(data, val=None, reading=None, **arrays):
        path = tmp_path / "test.npz"
        if arrays:
            np.savez(path, **arrays)
        else:
            data.save(path)
        found = diagnose(path, val=val, **(reading or {}))
        return {finding.name: finding for finding in found.findings}

    return run


def severities(findings):
    return {name: finding.severity for name, finding in findings.items()}
