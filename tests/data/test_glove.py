"""Word vectors from text, gz, zip and folders; missing words, wrong lines, the cache."""

import gzip
import zipfile

import pytest
import torch
from safetensors.torch import load_file, save_file

from focalcal.data import glove
from focalcal.data.glove import WordVectors, find_vectors, read_vectors, spell

TEXT = "the 0.5 -1 2e-3\nof 1 2 3\n\u00e9t\u00e9 -4 -5 -6\n( 7 8 9\nof 0 0 0\n"
WANTED = ["of", "absent", "\u00e9t\u00e9", "the"]
EXPECTED = torch.tensor([[1.0, 2, 3], [0, 0, 0], [-4, -5, -6], [0.5, -1, 2e-3]])


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "small.3d.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def packed_gz(path):
    packed = path.with_suffix(".txt.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def packed_zip(path):
    packed = path.with_suffix(".zip")
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("small.50d.txt", "the 1\n")
        archive.write(path, path.name)
    return packed


@pytest.mark.parametrize("pack", [lambda path: path, packed_gz, packed_zip, lambda path: path.parent])
def test_only_wanted_words_in_their_order_from_every_kind_of_file(text_file, pack):
    read = read_vectors(pack(text_file), WANTED, dimension=3)
    assert torch.equal(read.vectors, EXPECTED)
    assert read.found.tolist() == [True, False, True, True]


@pytest.mark.parametrize("pack", [packed_gz, packed_zip])
def test_a_folder_with_a_packed_file(text_file, pack):
    pack(text_file)
    text_file.unlink()
    assert torch.equal(read_vectors(text_file.parent, WANTED, dimension=3).vectors, EXPECTED)


def test_missing_words_get_seeded_vectors_of_the_spread_of_the_found(text_file):
    words = ["the", "of", *(f"absent{i}" for i in range(3000))]
    read = read_vectors(text_file, words, dimension=3)
    filled = read.fill_missing(seed=1)
    assert torch.equal(filled[:2], read.vectors[:2])
    assert torch.equal(filled, read.fill_missing(seed=1))
    assert not torch.equal(filled, read.fill_missing(seed=2))
    spread = read.vectors[:2].std(correction=0)
    assert abs(float(filled[2:].std() / spread) - 1) < 0.05


def test_nothing_found_still_gives_vectors():
    nothing = WordVectors(torch.zeros(4, 3), torch.zeros(4, dtype=torch.bool))
    assert float(nothing.fill_missing(seed=0).abs().min()) > 0


def test_a_word_with_spaces_in_it_is_left_out(text_file):
    text_file.write_text(". . . 1 2 3\n. 4 5 6\n")
    read = read_vectors(text_file, ["."], dimension=3)
    assert read.vectors.tolist() == [[4, 5, 6]]


def test_too_few_numbers_are_named_with_file_and_line(text_file):
    text_file.write_text("the 1 2 3\nof 1 2\n")
    with pytest.raises(ValueError, match=r"^small.3d.txt, line 2: 2 numbers follow the word, not 3; "):
        read_vectors(text_file, ["of"], dimension=3)


def test_what_is_no_number(text_file):
    for wrong in ("x", "nan", "NA", "inf", "1e39", ""):
        text_file.write_text(f"the 1 2 3\nand 1 2 3\nof 1 {wrong} 2\n")
        with pytest.raises(ValueError, match=r"^small.3d.txt, line 3 holds a number that is not finite"):
            read_vectors(text_file, ["of", "the"], dimension=3)


@pytest.mark.parametrize("content", ["the 1 2 3 4\n", "the\t1\t2\n", "the,1,2\n", "no vectors here at all\n"])
def test_a_file_of_another_dimension_or_kind_is_refused_at_its_first_line(text_file, content):
    text_file.write_text(content)
    with pytest.raises(ValueError, match=r"^small.3d.txt, line 1: \d numbers follow the word, not 3"):
        read_vectors(text_file, ["the"], dimension=3)


def test_a_line_with_the_size_of_the_file_may_come_first(text_file):
    text_file.write_text("2 3\nthe 1 2 3\nof 4 5 6\n")
    assert read_vectors(text_file, ["of"], dimension=3).vectors.tolist() == [[4, 5, 6]]
    with pytest.raises(ValueError, match=r"^small.3d.txt has vectors of 3 numbers, not 7"):
        read_vectors(text_file, ["of"], dimension=7)


def test_the_zip_with_the_dimension_is_taken(text_file, tmp_path):
    folder = tmp_path / "zips"
    folder.mkdir()
    for name, member in (("a.zip", "other.5d.txt"), ("b.zip", "right.3d.txt")):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(member, TEXT)
    assert find_vectors(folder, 3).name == "b.zip"


def test_a_file_with_none_of_the_words_is_refused(text_file):
    with pytest.raises(ValueError, match=r"small.3d.txt has none of the 2 words that are looked for"):
        read_vectors(text_file, ["xyzzy", "plugh"], dimension=3)
    text_file.write_text("")
    with pytest.raises(ValueError, match=r"small.3d.txt has none of the 1 words"):
        read_vectors(text_file, ["the"], dimension=3)


def test_damaged_archives_are_one_sentence(text_file, tmp_path):
    whole = packed_zip(text_file).read_bytes()
    middle = len(whole) // 3
    flipped = whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 20]) + whole[middle + 20 :]
    packed = gzip.compress(text_file.read_bytes() * 100)
    broken = {
        "a.zip": b"no zip",
        "b.zip": whole[:-30],
        "c.zip": flipped,
        "a.gz": b"no gz",
        "b.gz": packed[:-12],
        "c.gz": packed[:20] + bytes(255 - byte for byte in packed[20:40]) + packed[40:],
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"^{name} (is damaged|has none|, line|holds)"):
            read_vectors(tmp_path / name, WANTED, dimension=3)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_zips_that_are_packed_in_another_way_are_read_and_their_damage_is_one_sentence(tmp_path, method):
    packed = tmp_path / "other.ZIP"
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("some.3d.txt", TEXT * 50)
        (member,) = archive.infolist()
    assert torch.equal(read_vectors(packed, WANTED, dimension=3).vectors, EXPECTED)
    content = packed.read_bytes()
    place = member.compress_size // 2 + 40
    packed.write_bytes(
        content[:place] + bytes(255 - byte for byte in content[place : place + 8]) + content[place + 8 :]
    )
    with pytest.raises(ValueError, match=r"^other.ZIP is damaged or cannot be read"):
        read_vectors(packed, WANTED, dimension=3)


def test_a_folder_is_searched_for_the_dimension_itself(text_file, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "custom.13d.txt").write_text("of " + "1 " * 13 + "\n")
    (folder / "glove.3d.txt").write_text("of 1 2 3\n")
    assert find_vectors(folder, 3).name == "glove.3d.txt"


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(text_file, tmp_path):
    (tmp_path / "file").write_text("")
    assert torch.equal(read_vectors(text_file, WANTED, dimension=3, cache=tmp_path / "file" / "x").vectors, EXPECTED)


def test_a_folder_without_vectors_and_a_zip_without_the_dimension(text_file, tmp_path):
    with pytest.raises(ValueError, match=r"^There are no word vectors at "):
        read_vectors(tmp_path / "nowhere", ["of"], dimension=3)
    with pytest.raises(ValueError, match=r"holds no file of 7-dimensional vectors, only small.50d.txt, small.3d.txt"):
        read_vectors(packed_zip(text_file), ["of"], dimension=7)


def test_the_cache_is_used_and_depends_on_file_words_and_dimension(text_file, tmp_path):
    cache = tmp_path / "cache"
    first = read_vectors(text_file, WANTED, dimension=3, cache=cache)
    (kept,) = cache.iterdir()
    save_file({"vectors": first.vectors + 1, "found": first.found}, kept)  # so that a use of it can be seen
    assert torch.equal(read_vectors(text_file, WANTED, dimension=3, cache=cache).vectors, EXPECTED + 1)
    read_vectors(text_file, WANTED[:2], dimension=3, cache=cache)
    assert len(list(cache.iterdir())) == 2
    text_file.write_text(TEXT.replace("of 1 2 3", "of 1 2 30"))
    assert float(read_vectors(text_file, WANTED, dimension=3, cache=cache).vectors[0, 2]) == 30


def test_the_cache_does_not_grow_without_end(text_file, tmp_path, monkeypatch):
    monkeypatch.setattr(glove, "_KEPT_VOCABULARIES", 2)
    for words in (["the"], ["of"], ["the", "of"], ["("]):
        read_vectors(text_file, words, dimension=3, cache=tmp_path / "cache")
    kept = [load_file(path)["vectors"].tolist() for path in (tmp_path / "cache").iterdir()]
    assert len(kept) == 2
    assert [[7, 8, 9]] in kept


def test_a_damaged_cache_is_read_anew(text_file, tmp_path):
    cache = tmp_path / "cache"
    read_vectors(text_file, WANTED, dimension=3, cache=cache)
    (kept,) = cache.iterdir()
    kept.write_bytes(b"nonsense")
    assert torch.equal(read_vectors(text_file, WANTED, dimension=3, cache=cache).vectors, EXPECTED)


@pytest.mark.parametrize(
    ("word", "expected"), [("The", "the"), ("-LRB-", "("), ("-rrb-", ")"), ("and\\/or", "and/or"), ("\\*", "*")]
)
def test_spelling(word, expected):
    assert spell(word) == expected
