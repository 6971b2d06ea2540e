import json

from focalcal.base.files import file_sha256, null_for_nan, write_json


def test_written_json_has_no_nan(tmp_path):
    write_json(tmp_path / "a.json", {"a": [1, float("nan"), (2.5, float("-inf"))], "b": {"c": True}})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [1, None, [2.5, None]], "b": {"c": True}}
    assert null_for_nan("text") == "text"


def test_hash_of_an_empty_file(tmp_path):
    (tmp_path / "e").touch()
    assert file_sha256(tmp_path / "e") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
