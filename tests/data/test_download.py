"""The downloader against a real server on this machine: with ranges, without, breaking off, and with wrong bytes."""

import hashlib
import http.server
import threading

import pytest

from focalcal.data.data_files import DataFile, MissingDataError
from focalcal.data.download import DownloadError, download

CONTENT = bytes(range(256)) * 4000


class Server(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; ``server.ranges`` and ``server.break_after`` say how well."""

    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        if self.path != "/file.bin":
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        limit = self.server.break_after.pop(0) if self.server.break_after else len(CONTENT)
        self.wfile.write(CONTENT[start:][:limit])

    def log_message(self, *arguments):
        """Nothing: the tests look at what was asked instead."""


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.asked, server.ranges, server.break_after = [], True, []
    server.url = f"http://127.0.0.1:{server.server_port}/file.bin"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


MD5 = hashlib.md5(CONTENT).hexdigest()


def test_a_file_arrives_whole_and_alone(server, tmp_path, capsys):
    target = tmp_path / "sub/file.bin"
    download(server.url, target, size=len(CONTENT), md5=MD5)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert capsys.readouterr().err == "focalcal: downloading file.bin …\n"


def test_a_broken_transfer_goes_on_where_it_stopped(server, tmp_path):
    server.break_after = [300_000, 200_000]
    download(server.url, tmp_path / "file.bin", size=len(CONTENT), md5=MD5)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=500000-"]


def test_what_arrived_waits_for_the_next_attempt(server, tmp_path):
    server.break_after = [100_000] * 3
    with pytest.raises(DownloadError, match="broke off after 300,000 of 1,024,000 bytes"):
        download(server.url, tmp_path / "file.bin", md5=MD5)
    assert not (tmp_path / "file.bin").exists()
    assert (tmp_path / "file.bin.part").stat().st_size == 300_000
    download(server.url, tmp_path / "file.bin", md5=MD5)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=300000-"


def test_a_server_without_ranges_sends_everything_again(server, tmp_path):
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    download(server.url, tmp_path / "file.bin", md5=MD5)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_thrown_away(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    download(server.url, tmp_path / "file.bin", md5=MD5)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("promise", [{"md5": "0" * 32}, {"size": 5_000_000, "md5": MD5}, {"size": 10}])
def test_other_bytes_than_published_are_refused_and_not_kept(server, tmp_path, promise):
    with pytest.raises(DownloadError, match=r"is not the published file|broke off"):
        download(server.url, tmp_path / "file.bin", **promise)
    assert not (tmp_path / "file.bin").exists()


def test_after_wrong_bytes_the_next_attempt_starts_afresh(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(DownloadError, match="not the published file"):
        download(server.url, tmp_path / "file.bin", md5=MD5)
    download(server.url, tmp_path / "file.bin", md5=MD5)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_without_a_published_checksum_that_of_what_came_is_written_down(server, tmp_path):
    download(server.url, tmp_path / "file.bin")
    assert (tmp_path / "file.bin.sha256").read_text().split()[0] == hashlib.sha256(CONTENT).hexdigest()


def test_two_at_once_bring_it_once(server, tmp_path):
    threads = [threading.Thread(target=download, args=(server.url, tmp_path / "file.bin")) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert len(server.asked) == 1
    assert not (tmp_path / "file.bin.part").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [(lambda url: url + "x", "answered 404"), (lambda url: "http://127.0.0.1:9/file.bin", "could not be downloaded")],
)
def test_what_cannot_be_had_is_asked_for_in_one_sentence(server, tmp_path, monkeypatch, change, words):
    monkeypatch.delenv("FOCALCAL_OFFLINE")
    file = DataFile("some/file.bin", url=change(server.url))
    with pytest.raises(MissingDataError, match=words) as caught:
        file.obtain(tmp_path)
    assert str(caught.value).endswith(f"at {tmp_path / 'some/file.bin'}.")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_downloaded_to_the_folder(server, tmp_path, monkeypatch):
    monkeypatch.delenv("FOCALCAL_OFFLINE")
    file = DataFile("some/file.bin", url=server.url, md5=MD5)
    assert file.locate(tmp_path) is None
    assert file.obtain(tmp_path) == tmp_path / "some/file.bin" == file.locate(tmp_path)
    file.obtain(tmp_path)
    assert len(server.asked) == 1


def test_a_folder_that_cannot_be_written_is_named(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match="could not be written to"):
        download(server.url, tmp_path / "file/file.bin")
