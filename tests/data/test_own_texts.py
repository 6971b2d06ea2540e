"""A user's own texts, from csv and parquet; what is counted and what is refused."""

import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from focalcal.data.data_sets import load_data
from focalcal.data.own_texts import load_texts
from focalcal.data.text_sets import encode_texts
from focalcal.models.model_registry import build_model

CPU = torch.device("cpu")
ROWS = [("good fun", "yes"), ('a "very", long\nday', "no"), ("fun", "yes"), ("no fun at all", "no")] * 5


def write_csv(path, rows=ROWS, header="text,label", encoding="utf-8"):
    quoted = ['"' + text.replace('"', '""') + f'",{label}' for text, label in rows]
    path.write_bytes("\n".join([header, *quoted, ""]).encode(encoding))
    return path


def test_a_csv_is_split_in_tenths_by_the_seed(tmp_path):
    file = write_csv(tmp_path / "my.csv")
    data, again, other = (load_data("text", path=str(file), seed=seed) for seed in (0, 0, 1))
    assert data.facts["sizes"] == {"train": 16, "val": 2, "test": 2}
    assert data.class_names == ("no", "yes")
    ids = torch.cat([data.train.ids, data.evaluation["val"].ids, data.evaluation["test"].ids])
    assert sorted(ids.tolist()) == list(range(20))
    for samples in (data.train, *data.evaluation.values()):
        assert samples.labels.tolist() == [int(ROWS[i][1] == "yes") for i in samples.ids.tolist()]
    assert torch.equal(data.train.ids, again.train.ids)
    assert not torch.equal(data.train.ids, other.train.ids)


def test_words_go_through_quotes_and_line_ends(tmp_path):
    data = load_texts(path=write_csv(tmp_path / "my.csv"))
    lengths = {int(i): int(n) for i, n in zip(data.train.ids, data.train.lengths, strict=True)}
    assert {i % 4: n for i, n in lengths.items()} == {0: 2, 1: 4, 2: 1, 3: 4}
    assert data.facts["vocabulary"] == 9
    assert data.facts["vocabulary_in_glove"] == 0


def test_parquet_with_numbers_for_labels_and_other_columns(tmp_path):
    table = pa.table({"body": ["one two", None, "two", "three"] * 3, "stars": [10, 2, 10, 2] * 3, "more": [0.5] * 12})
    pyarrow.parquet.write_table(table, tmp_path / "my.parquet")
    data = load_texts(path=tmp_path / "my.parquet", text_column="body", label_column="stars")
    assert data.class_names == ("2", "10")
    assert data.facts["empty_texts"] == 3


def parquet(path, **columns):
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def test_parquet_with_categories_for_texts_and_labels(tmp_path):
    texts = pa.array(["one two", "two", "three"] * 5).dictionary_encode()
    labels = pa.array(["a", "b", "a"] * 5).dictionary_encode()
    data = load_texts(path=parquet(tmp_path / "my.parquet", text=texts, label=labels))
    assert data.class_names == ("a", "b")
    assert data.facts["empty_texts"] == 0


@pytest.mark.parametrize(
    "labels", [[0.5, 1.5], [float("nan"), 1.0], [[1], [2]], [{"a": 1}, {"a": 2}], [b"a", b"b"]], ids=str
)
def test_parquet_labels_are_names_or_whole_numbers(tmp_path, labels):
    file = parquet(tmp_path / "my.parquet", text=["one", "two"] * 10, label=labels * 10)
    with pytest.raises(ValueError, match=r"my.parquet: the column 'label' holds .*, not names or whole numbers"):
        load_texts(path=file)


def test_a_text_of_any_size_is_read(tmp_path):
    rows = [*ROWS, ("word " * 600_000, "yes")]
    data = load_texts(path=write_csv(tmp_path / "my.csv", rows), tokens=7)
    assert sum(data.facts["sizes"].values()) == 21


def test_every_class_is_learnt(tmp_path):
    rows = [(f"word{i}", f"class{i}") for i in range(12)] + [("more words", "class0")] * 18
    for seed in range(20):
        data = load_texts(path=write_csv(tmp_path / "my.csv", rows), seed=seed)
        assert set(data.train.labels.tolist()) == set(range(12))
        assert data.facts["sizes"] == {"train": 24, "val": 3, "test": 3}
        ids = torch.cat([data.train.ids, *(some.ids for some in data.evaluation.values())])
        assert sorted(ids.tolist()) == list(range(30))


def test_new_texts_are_encoded_in_the_words_of_the_data(tmp_path):
    data = load_texts(path=write_csv(tmp_path / "my.csv"))
    words = {word: row + 2 for row, word in enumerate(data.train.vocabulary)}
    encoded = encode_texts(["Fun, never seen: GOOD fun!", "", "nothing known"], data)
    assert encoded.words[0][encoded.words[0] != 0].tolist() == [words["fun"], words["good"], words["fun"]]
    assert encoded.words[1:][encoded.words[1:] != 0].tolist() == [1, 1]
    place = data.evaluation["val"].ids.tolist()
    same = encode_texts([ROWS[i][0] for i in place], data)
    expected = data.evaluation["val"].batch(torch.arange(len(place)), device=CPU, generator=None).inputs
    assert torch.equal(same.words, expected.words)
    assert same.left_out == expected.left_out


def test_what_cannot_be_encoded(tmp_path):
    data = load_texts(path=write_csv(tmp_path / "my.csv"))
    with pytest.raises(TypeError, match="texts must be a list of strings"):
        encode_texts("one text", data)
    with pytest.raises(ValueError, match="There are no texts to encode"):
        encode_texts([], data)
    with pytest.raises(ValueError, match="digits has no vocabulary"):
        encode_texts(["a"], load_data("digits"))


def test_files_of_one_name_are_told_apart(tmp_path):
    (tmp_path / "a").mkdir()
    train, other = write_csv(tmp_path / "d.csv"), write_csv(tmp_path / "a" / "d.csv")
    before = load_texts(path=train, val_path=other).facts["files"]
    write_csv(train, [("other words", label) for _, label in ROWS])
    assert load_texts(path=train, val_path=other).facts["files"] != before


def test_named_files_for_validation_and_test(tmp_path):
    train = write_csv(tmp_path / "a.csv")
    val = write_csv(tmp_path / "b.csv", [("fun", "yes"), ("never seen", "no"), ("", "no")])
    test = write_csv(tmp_path / "c.csv", [("fun", "no")])
    data = load_texts(path=train, val_path=val, test_path=test)
    assert data.facts["sizes"] == {"train": 20, "val": 3, "test": 1}
    assert data.evaluation["val"].labels.tolist() == [1, 0, 0]
    assert data.evaluation["val"].ids.tolist() == [20, 21, 22]
    assert data.facts["empty_texts"] == 1
    assert data.facts["texts_without_known_word"] == 1
    assert data.facts["coverage"].endswith(
        " begin at random. Of 24 texts 1 have no word and 1 none that is known: each is one unknown word."
    )
    words = data.evaluation["val"].batch(torch.arange(3), device=CPU, generator=None).inputs.words
    assert words[1:].tolist() == [[1], [1]]
    only_test = load_texts(path=train, test_path=test)
    assert only_test.facts["sizes"] == {"train": 18, "val": 2, "test": 1}


def test_word_vectors_of_the_user(tmp_path):
    (tmp_path / "my.2d.txt").write_text("fun 1 2\n")
    data = load_texts(path=write_csv(tmp_path / "my.csv"), glove=tmp_path / "my.2d.txt", dimension=2)
    assert data.facts["vocabulary_in_glove"] == 1
    assert [1, 2] in data.model_options["embeddings"].tolist()


def test_short_texts_go_through_the_network_and_are_learnt(tmp_path):
    data = load_texts(path=write_csv(tmp_path / "my.csv"), dimension=16, tokens=12)
    torch.manual_seed(0)
    net = build_model("gp_cnn", data.model_options["num_classes"], embeddings=data.model_options["embeddings"])
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.003)
    batch = data.train.batch(torch.arange(len(data.train)), device=CPU, generator=None)
    for _ in range(25):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(batch.inputs), batch.targets)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"words,label\na,b\n", r"my.csv, line 1: there is no column 'text' among words, label; name the columns"),
        (b"text,kind\na,b\n", r"my.csv, line 1: there is no column 'label' among text, kind"),
        (b"text,text,label\na,a,b\n", r"my.csv, line 1: there is more than one column 'text'"),
        (b"text,label\na,b\ncaf\xe9,c\n", r"my.csv, line 3 is not UTF-8"),
        (b"text,label\na,b\nc,\n", r"my.csv, row 2 has no label"),
        (b"text,label\na,b\nc,b\n", r"my.csv holds 1 different label"),
        (b"text,label\na,b\nc,d,e\n", r"my.csv cannot be read .*Expected 2 columns, got 3"),
        (b"text,label\na,b\nc,d\n", r"The texts to learn from are 2 of 2 classes, too few to hold out 2"),
        (b"text,label\n,b\n,d\n,d\n,d\n", r"The training texts of text contain no words"),
        (
            b"text,label\na,b\nc," + b"9" * 5000 + b"\n",
            r"my.csv, row 2 has a label of 5,000 characters; name the column",
        ),
        (b"", r"my.csv is empty"),
        (b"text,label", r"my.csv has no row"),
        (b"text,label\na,b\nc,d\0\n", r"my.csv, row 2 has a NUL character in its label"),
        (b"text,label\na,b\nc,d,e\n", r"my.csv cannot be read .*row 2: Expected 2 columns"),
    ],
)
def test_a_wrong_file_is_named_in_one_sentence(tmp_path, content, sentence):
    file = tmp_path / "my.csv"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        load_texts(path=file)


def test_wrong_paths_and_labels(tmp_path):
    train = write_csv(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"needs path, a .csv or .parquet file"):
        load_texts()
    with pytest.raises(ValueError, match=r"There is no file .*absent.csv"):
        load_texts(path=tmp_path / "absent.csv")
    with pytest.raises(ValueError, match=r"is neither .csv nor .parquet"):
        load_texts(path=tmp_path / "a.txt")
    with pytest.raises(ValueError, match=r"b.csv, row 2: the label 'perhaps' does not occur in a.csv"):
        load_texts(path=train, val_path=write_csv(tmp_path / "b.csv", [("fun", "yes"), ("fun", "perhaps")]))
    (tmp_path / "b.parquet").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"b.parquet cannot be read"):
        load_texts(path=tmp_path / "b.parquet")
    pyarrow.parquet.write_table(pa.table({"text": [1], "label": [1]}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"the column 'text' holds int64, not texts"):
        load_texts(path=tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"The column 'label' cannot hold both texts and labels"):
        load_texts(path=train, text_column="label")


@pytest.mark.parametrize("column", ["text", "label"])
def test_parquet_that_is_not_utf_8_is_named_with_its_row(tmp_path, column):
    columns = {"text": ["fun"] * 20, "label": ["yes", "no"] * 10}
    broken = pa.array([value.encode() for value in columns[column][:-1]] + [b"caf\xe9"], pa.binary())
    columns[column] = pa.Array.from_buffers(pa.string(), 20, broken.buffers())
    with pytest.raises(ValueError, match=rf"^my.parquet, row 20: the {column} is not UTF-8"):
        load_texts(path=parquet(tmp_path / "my.parquet", **columns))


def test_synthetic_texts_need_no_file():
    assert len(load_data("text", synthetic=4).train) == 4


@pytest.mark.parametrize(
    ("name", "given", "meant"), [("sst", "clases", "classes"), ("text", "text_colum", "text_column")]
)
def test_an_option_that_is_not_known_is_named(name, given, meant):
    with pytest.raises(ValueError, match=rf"^{name} has no option '{given}'; did you mean '{meant}'\?"):
        load_data(name, **{given: 3})
