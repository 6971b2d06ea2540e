"""A file of 400 MB is read in far less memory than that.

What the process itself allocates is its anonymous memory: pages of files that the system keeps in its cache can be
dropped at any time and are not counted.
"""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from focalcal.predictions import open_predictions

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

READ = """
import json, sys, threading, time
import torch
from focalcal.predictions import open_predictions

def allocated():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024

def watch():
    while running:
        peak[0] = max(peak[0], allocated())
        time.sleep(0.01)

file = open_predictions(sys.argv[1])
torch.set_num_threads(1)
before, running = allocated(), True
peak = [before]
watcher = threading.Thread(target=watch)
watcher.start()
rows, total = 0, 0.0
for block in file.blocks():
    rows += len(block)
    total += float(block.values.sum(dtype=torch.float64))
running = False
watcher.join()
print(json.dumps({"rows": rows, "total": total, "bytes": peak[0] - before}))
"""
CLASSES, ROWS = 100, 2**20  # 400 MB of float32
BOUND = 150 * 2**20  # of the 200 MB that evaluation may take in all


def read_in_another_process(path):
    done = subprocess.run([sys.executable, "-c", READ, path], check=True, capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout)


def assert_little_memory(path, total):
    result = read_in_another_process(path)
    assert result["rows"] == ROWS
    assert result["total"] == total
    assert result["bytes"] < BOUND


def test_safetensors(tmp_path):
    path = tmp_path / "preds.safetensors"
    values, labels = ROWS * CLASSES * 4, ROWS * 8
    header = {
        "labels": {"dtype": "I64", "shape": [ROWS], "data_offsets": [0, labels]},
        "logits": {"dtype": "F32", "shape": [ROWS, CLASSES], "data_offsets": [labels, labels + values]},
    }
    text = json.dumps(header).encode()
    with open(path, "wb") as file:  # zeros that take no room on the disk
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + labels + values)
    assert path.stat().st_size > 400 * 2**20
    assert_little_memory(path, total=0.0)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_npz(tmp_path, compression):
    path = tmp_path / "preds.npz"
    rows = np.ones((2**12, CLASSES), np.float32)
    with zipfile.ZipFile(path, "w", compression, compresslevel=1) as archive:
        with archive.open("labels.npy", "w") as member:
            np.lib.format.write_array(member, np.zeros(ROWS, np.uint8))
        with archive.open("logits.npy", "w", force_zip64=True) as member:
            shape = {"descr": "<f4", "fortran_order": False, "shape": (ROWS, CLASSES)}
            np.lib.format.write_array_header_1_0(member, shape)
            for _ in range(ROWS // len(rows)):
                member.write(rows.tobytes())
    assert_little_memory(path, total=float(ROWS * CLASSES))


def test_parquet_with_a_list_column(tmp_path):
    path = tmp_path / "preds.parquet"
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(ROWS * CLASSES, np.float32)), CLASSES)
    pq.write_table(pa.table({"logits": lists, "labels": np.zeros(ROWS, np.int64)}), path)
    assert open_predictions(path).num_classes == CLASSES
    assert_little_memory(path, total=float(ROWS * CLASSES))


def test_parquet_with_a_column_a_class_in_one_row_group(tmp_path):
    path = tmp_path / "preds.parquet"
    column = np.random.default_rng(0).integers(-(2**20), 2**20, ROWS).astype(np.float32)
    columns = {f"logits_{k}": column for k in range(CLASSES)}
    pq.write_table(pa.table({**columns, "labels": np.zeros(ROWS, np.int64)}), path)
    assert pq.ParquetFile(path).num_row_groups == 1
    assert_little_memory(path, total=float(column.sum(dtype=np.float64)) * CLASSES)
