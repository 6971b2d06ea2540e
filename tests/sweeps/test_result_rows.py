import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.sweeps.result_rows import COLUMNS, Row, read_rows, write_rows

_number = st.floats(-1e3, 1e3).map(lambda value: float(f"{value:.6g}"))
_maybe = st.none() | _number
_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
_rows = st.builds(
    Row,
    _text,
    _text,
    _text,
    st.integers(0, 9),
    st.sampled_from(["best", "last"]),
    _text,
    st.sampled_from(["pre", "post", ""]),
    _number,
    _maybe,
    _maybe,
    st.sampled_from(["basic", "percentile", ""]),
    _maybe,
)


@settings(deadline=None, max_examples=50)
@given(st.lists(_rows, max_size=5))
def test_rows_come_back_as_they_were_written(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("rows") / "table.csv"
    write_rows(file, rows)
    assert read_rows(file) == rows


def test_columns_are_those_of_the_design():
    expected = (
        "dataset,model,method,seed,selection,metric,temperature_scaling,value,low,high,interval_method,temperature"
    )
    assert ",".join(COLUMNS) == expected


def test_a_table_from_before_the_method_was_written_is_read(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text(
        "dataset,model,method,seed,selection,metric,temperature_scaling,value,low,high,temperature\n"
        "Digits,MLP,fl-3,0,last,ece,post,2.5,1.5,3.5,0.8\n"
        "Digits,MLP,fl-3,0,last,epoch,,3,,,\n"
    )
    with_interval, without = read_rows(file)
    assert (with_interval.low, with_interval.interval_method, with_interval.temperature) == (1.5, "basic", 0.8)
    assert (without.low, without.interval_method) == (None, "")


def test_a_table_without_another_column_is_refused(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("dataset,model,method,seed,selection,metric,temperature_scaling,value,low,high\n")
    with pytest.raises(ValueError, match="it has no column temperature"):
        read_rows(file)
