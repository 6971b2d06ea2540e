"""The hub's client against a server on this machine that answers as the hub does."""

import hashlib
import http.server
import os
import subprocess
import sys
import threading

import pytest

from focalcal.data.download import DownloadError, download_from_hub

CONTENT = b"parquet" * 1000
PLACE = "/datasets/some/set/resolve/main/folder/test.parquet"


class Hub(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        if self.answer():
            self.wfile.write(CONTENT)

    def answer(self):
        found = self.path == PLACE
        self.send_response(200 if found else 404)
        if found:
            self.send_header("ETag", f'"{hashlib.sha256(CONTENT).hexdigest()}"')
            self.send_header("X-Repo-Commit", "0" * 40)
        else:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", str(len(CONTENT)) if found else "0")
        self.end_headers()
        return found

    def log_message(self, *arguments):
        """Nothing."""


@pytest.fixture
def hub():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def fetched(hub, path, folder):
    """In a process of its own, as the client reads its address when it is imported."""
    program = (
        "import sys; from pathlib import Path; from focalcal.data.data_files import DataFile;"
        f"print(DataFile('set/{path}', hub=('some/set', '{path}')).obtain(Path(sys.argv[1])))"
    )
    settings = {**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(folder / "home"), "FOCALCAL_OFFLINE": "0"}
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)], env=settings, capture_output=True, text=True, timeout=120
    )


def test_a_file_of_the_hub_arrives_where_it_is_looked_for(hub, tmp_path):
    done = fetched(hub, "folder/test.parquet", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "set/folder/test.parquet")
    assert (tmp_path / "set/folder/test.parquet").read_bytes() == CONTENT


def test_what_the_hub_has_not_is_asked_for_in_one_sentence(hub, tmp_path):
    done = fetched(hub, "folder/other.parquet", tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert "could not be downloaded from the hub" in last
    assert last.endswith(f"at {tmp_path / 'set/folder/other.parquet'}.")


def test_without_a_network_the_answer_comes_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9 cannot be reached"):
        download_from_hub("some/set", "a.parquet", tmp_path / "set/a.parquet")


def test_without_the_client_its_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DownloadError, match=r"pip install 'focalcal\[download\]'"):
        download_from_hub("some/set", "a.parquet", tmp_path / "set/a.parquet")
