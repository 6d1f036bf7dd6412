"""Finding, downloading and reading files, against a server on this machine."""

import gzip
import hashlib
import http.server
import io
import os
import socket
import subprocess
import sys
import tarfile
import threading
import time

import pytest

from keras_attention.datasets import archives, files

CONTENT = bytes(range(256)) * 37
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ALTERED = CONTENT[:-1] + b"\x00"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/silent":
            self.server.released.wait(5)
            return
        if self.path == "/endless":
            self._endless()
            return
        body = ALTERED if self.path == "/altered" else CONTENT
        body = body[:-100] if self.path == "/short" else body
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body[:-50] if self.path == "/broken" else body)
        except ConnectionError:
            self.close_connection = True  # a probe hangs up before the end

    def _endless(self):
        """Sends 64 MiB without saying so, or until the client hangs up."""
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        self.server.sent.append(0)
        try:
            for _ in range(64):
                self.wfile.write(bytes(2**20))
                self.server.sent[-1] += 2**20
        except ConnectionError:
            pass

    def log_message(self, *args):
        """Keeps the tests' output quiet."""


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.asked, server.released = [], threading.Event()
    server.sent = []
    server.handle_error = lambda *args: None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(files.DATA_VARIABLE, raising=False)
    return tmp_path / "home" / "datasets"


@pytest.fixture
def closed_url():
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return f"http://127.0.0.1:{port}/good"


def _put(folder, relative, content):
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_data_folder_comes_first_and_is_not_checked(
    cache, tmp_path, monkeypatch, closed_url
):
    own = _put(tmp_path / "data", "set/file.bin", b"the user's own")
    _put(cache, "file.bin", CONTENT)
    monkeypatch.setenv(files.DATA_VARIABLE, str(tmp_path / "data"))
    assert files.find("set/file.bin", closed_url, SHA256) == own


def test_cache_comes_second_and_is_checked(cache, closed_url):
    cached = _put(cache, "file.bin", CONTENT)
    assert files.find("set/file.bin", closed_url, SHA256) == cached
    cached.write_bytes(ALTERED)
    with pytest.raises(files.DataNotFoundError, match=r"truncated or altered.*Delete"):
        files.find("set/file.bin", closed_url, SHA256)


def test_cache_may_hold_a_mirrors_file(cache, closed_url):
    cached = _put(cache, "file.bin", b"mirror")
    mirror = files.Source(closed_url, size=6)
    found = files.find("set/file.bin", closed_url, SHA256, mirrors=[mirror])
    assert found == cached


def test_download_lands_in_the_cache_once(cache, server):
    for _ in range(2):
        path = files.find("set/f.bin", f"{server.url}/good", SHA256, cache_name="x.bin")
        assert path == cache / "x.bin"
        assert path.read_bytes() == CONTENT
    assert server.asked == ["/good", "/good"]  # a probe and the download
    assert os.listdir(cache) == ["x.bin"]
    assert socket.getdefaulttimeout() is None


def test_damaged_cache_is_downloaded_anew(cache, server):
    cached = _put(cache, "f.bin", CONTENT[:-5])
    assert files.find("set/f.bin", f"{server.url}/good", SHA256) == cached
    assert cached.read_bytes() == CONTENT


@pytest.mark.parametrize("page", ["altered", "short"])
@pytest.mark.parametrize(
    "known", [{"sha256": SHA256}, {"size": len(CONTENT)}], ids=["sha256", "size"]
)
def test_wrong_download_is_refused_and_not_kept(cache, server, page, known):
    if page == "altered" and "size" in known:
        known = {"size": len(CONTENT) + 1}
    with pytest.raises(files.DamagedDataError, match="is not the expected file"):
        files.find("set/f.bin", f"{server.url}/{page}", **known)
    assert os.listdir(cache) == []


@pytest.mark.parametrize("known", [{"size": 9000}, {"size": 9000, "unpacked": True}])
def test_a_server_that_sends_too_much_is_cut_off(cache, server, known):
    with pytest.raises(files.DamagedDataError, match=r"it has more than \d+ bytes"):
        files.find("set/f.bin", f"{server.url}/endless", SHA256, **known)
    assert os.listdir(cache) == []
    for _ in range(100):  # the server notices after its buffers are full
        if len(server.sent) == 2:
            break
        time.sleep(0.01)
    assert server.sent[-1] < 2**25


def test_an_announced_size_is_refused_before_reading(cache, server):
    with pytest.raises(files.DamagedDataError, match="it has more than 10 bytes"):
        files.find("set/f.bin", f"{server.url}/good", size=10)
    assert os.listdir(cache) == []


def test_an_interrupted_download_leaves_nothing(cache, server, monkeypatch):
    def interrupt(source, file):
        file.write(CONTENT[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_fetch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.find("set/f.bin", f"{server.url}/good", SHA256)
    assert os.listdir(cache) == []


def test_the_part_of_a_killed_download_is_removed(cache, server):
    """Another process is killed in its download; a running one keeps its part."""
    cache.mkdir(parents=True)
    code = (
        "import runpy, pathlib, sys, time\n"
        "new = runpy.run_path(sys.argv[1])['new']\n"
        "file = new(pathlib.Path(sys.argv[2]))\n"
        "print(file.name, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, files.parts.__file__, str(cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            part = process.stdout.readline().strip()
            files.find("set/f.bin", f"{server.url}/good", SHA256)
            assert os.path.exists(part)
        finally:
            process.kill()
    assert os.path.exists(part)
    files.find("set/g.bin", f"{server.url}/good", SHA256)
    assert sorted(os.listdir(cache)) == ["f.bin", "g.bin"]


def test_what_is_packed_anew_is_the_same(tmp_path):
    source = files.Source("https://example.org", SHA256, len(CONTENT), unpacked=True)
    path = tmp_path / "f.gz"
    for level in (1, 9):
        packed = gzip.compress(CONTENT, level)
        path.write_bytes(packed)
        assert source.mismatch(path) is None
    path.write_bytes(packed[:-9])
    assert "is no whole gzip file" in source.mismatch(path)
    path.write_bytes(CONTENT)
    assert "is no whole gzip file" in source.mismatch(path)
    path.write_bytes(gzip.compress(CONTENT + b"x"))
    assert f"not {len(CONTENT)}" in source.mismatch(path)


def test_broken_connection(cache, server):
    with pytest.raises(files.DataNotFoundError, match=r"broke off .*: try again"):
        files.find("set/f.bin", f"{server.url}/broken", SHA256)
    assert os.listdir(cache) == []
    assert socket.getdefaulttimeout() is None


def test_no_network_fails_fast_and_lists_each_step(
    cache, tmp_path, monkeypatch, closed_url
):
    monkeypatch.setenv(files.DATA_VARIABLE, str(tmp_path / "nowhere"))
    start = time.perf_counter()
    with pytest.raises(FileNotFoundError) as caught:
        files.find("set/f.bin", closed_url, SHA256)
    assert time.perf_counter() - start < 5
    message = str(caught.value)
    assert isinstance(caught.value, files.DataNotFoundError)
    assert f"names a folder that is not there: {tmp_path / 'nowhere'}" in message
    assert f"Keras' cache has no file {cache / 'f.bin'}" in message
    assert f"{closed_url} cannot be reached: no network" in message
    assert f"Next: download {closed_url} by hand and put it at set/f.bin" in message


def test_unset_variable_and_absent_file_are_told_apart(
    cache, tmp_path, monkeypatch, closed_url
):
    with pytest.raises(files.DataNotFoundError, match="DATA is not set"):
        files.find("set/f.bin", closed_url, SHA256)
    monkeypatch.setenv(files.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(files.DataNotFoundError, match=r"has no file .*f.bin"):
        files.find("set/f.bin", closed_url, SHA256)


def test_silent_server_is_given_up(cache, server, monkeypatch):
    monkeypatch.setattr(files, "PROBE_SECONDS", 0.2)
    with pytest.raises(files.DataNotFoundError, match="cannot be reached"):
        files.find("set/f.bin", f"{server.url}/silent", SHA256)


def test_missing_page_gives_way_to_a_mirror(cache, server, closed_url):
    mirrors = [
        files.Source(closed_url, size=1),
        files.Source(f"{server.url}/good", size=len(CONTENT)),
    ]
    path = files.find("f.bin", f"{server.url}/missing", SHA256, mirrors=mirrors)
    assert path.read_bytes() == CONTENT
    with pytest.raises(files.DataNotFoundError, match="it answers 404"):
        files.find("g.bin", f"{server.url}/missing", SHA256)


def test_unwritable_cache(cache, server):
    cache.parent.parent.mkdir(exist_ok=True)
    cache.parent.write_bytes(b"a file where the folder should be")
    with pytest.raises(files.DataNotFoundError, match=r"cannot be written.*KERAS_HOME"):
        files.find("set/f.bin", f"{server.url}/good", SHA256)


def test_source_needs_a_check():
    with pytest.raises(ValueError, match=r"needs a `sha256` or a `size`.*Received"):
        files.find("f.bin", "http://127.0.0.1/f.bin")


def _tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for member in members:
            info, content = member if isinstance(member, tuple) else (member, b"")
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def _link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_read_members(tmp_path):
    members = [("top/a/b.txt", b"one"), ("c.txt", b"two"), ("top/d.txt", b"three")]
    members.append(_link("top/link.txt", "a/b.txt"))
    wanted = ["a/b.txt", "c.txt", "link.txt", "absent.txt"]
    expected = {"a/b.txt": b"one", "c.txt": b"two"}  # links are never followed
    for name, mode in (("x.tar.gz", "w:gz"), ("x.tar", "w")):
        path = _tar(tmp_path / name, members, mode)
        assert archives.read_members(path, wanted) == expected
    assert sorted(os.listdir(tmp_path)) == ["x.tar", "x.tar.gz"]  # nothing unpacked


@pytest.mark.parametrize(
    "member",
    [
        ("/etc/evil", b"x"),
        ("../evil", b"x"),
        ("a/../../evil", b"x"),
        ("a\\..\\..\\evil", b"x"),
        ("C:/evil", b"x"),
        _link("a/evil", "../../out"),
        _link("evil", "/etc/passwd"),
        _link("a/evil", "../out", tarfile.LNKTYPE),
        _link("evil", "", tarfile.CHRTYPE),
        _link("evil", "", tarfile.FIFOTYPE),
    ],
)
def test_unsafe_members_are_refused(tmp_path, member):
    path = _tar(tmp_path / "x.tar.gz", [("fine.txt", b"x"), member])
    with pytest.raises(files.UnsafeArchiveError, match=r"refused because of.*evil"):
        archives.read_members(path, ["fine.txt"])


def test_archive_that_swells_is_refused(tmp_path, monkeypatch):
    path = _tar(tmp_path / "x.tar.gz", [("big.txt", bytes(200_000))])
    monkeypatch.setattr(archives, "ARCHIVE_LIMIT", 100_000)
    with pytest.raises(files.UnsafeArchiveError, match="more than 100000 bytes"):
        archives.read_members(path, ["big.txt"])


def test_damaged_archives(tmp_path):
    path = _tar(tmp_path / "x.tar.gz", [("a.txt", os.urandom(5000))])
    whole = path.read_bytes()
    advice = "x.tar.gz is damaged or is no tar archive.*Delete it and download it again"
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    cases = [whole[:10], whole[:-9], whole[: len(whole) // 2], bytes(flipped)]
    cases += [b"", b"<html>not here</html>", gzip.compress(b"no tar"), whole[1:]]
    for content in cases:
        path.write_bytes(content)
        with pytest.raises(files.DamagedDataError, match=advice):
            archives.read_members(path, ["a.txt"])


def test_truncated_plain_tar(tmp_path):
    path = _tar(tmp_path / "x.tar", [("a.txt", bytes(5000))], "w")
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(files.DamagedDataError, match="is damaged"):
        archives.read_members(path, ["a.txt"])


def test_absent_archive(tmp_path):
    with pytest.raises(files.DataNotFoundError, match=r"no file .*x.tar.gz"):
        archives.read_members(tmp_path / "x.tar.gz", ["a.txt"])
