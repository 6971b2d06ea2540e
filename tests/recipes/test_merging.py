import pytest
from hypothesis import given
from hypothesis import strategies as st

from focalcal.recipes.merging import merge, nest

KEYS = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(st.integers(), st.booleans(), st.none(), st.lists(st.integers(), max_size=2))
GROUPS = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)
)


def leaves(group, prefix=""):
    for key, value in group.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        elif not isinstance(value, dict):
            yield prefix + key, value


def at(group, key):
    for part in key.split("."):
        group = group[part]
    return group


@given(GROUPS)
def test_merging_with_nothing_or_itself_changes_nothing(group):
    assert merge(group, {}) == group
    assert merge({}, group) == group
    assert merge(group, group) == group


@given(GROUPS, GROUPS)
def test_every_change_is_in_the_result_and_nothing_else_is_touched(base, changes):
    result = merge(base, changes)
    for key, value in leaves(changes):
        assert at(result, key) == value
    for key, value in base.items():
        if key not in changes:
            assert result[key] == value


@given(GROUPS, GROUPS, GROUPS)
def test_merging_leaves_its_arguments_as_they_were(base, changes, more):
    copies = [repr(group) for group in (base, changes, more)]
    merge(merge(base, changes), more)
    assert [repr(group) for group in (base, changes, more)] == copies


@given(GROUPS)
def test_dotted_keys_say_the_same_as_groups(group):
    by_dots = dict(leaves(group))
    assert dict(leaves(nest(by_dots))) == by_dots


@given(st.permutations(["optimizer=adam", "optimizer.lr=0.5", "optimizer.weight_decay=0.1", "epochs=3"]))
def test_the_order_of_changes_does_not_matter(texts):
    assert nest(texts) == {"optimizer": {"name": "adam", "lr": 0.5, "weight_decay": 0.1}, "epochs": 3}


@given(st.permutations(["optimizer.name=adam", "optimizer.lr=0.5"]))
def test_a_name_among_the_parts_keeps_the_others(texts):
    assert nest(texts) == {"optimizer": {"name": "adam", "lr": 0.5}}


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("cifar10", {"augment": False}, {"name": "cifar10", "augment": False}),
        ({"name": "cifar10", "ood": ["svhn"]}, "cifar10", {"name": "cifar10", "ood": ["svhn"]}),
        ({"name": "cifar10", "ood": ["svhn"]}, "digits", {"name": "digits"}),
        ({"augment": False}, "cifar10", {"name": "cifar10", "augment": False}),
        ({"name": "cifar10"}, None, None),
        (None, "digits", {"name": "digits"}),
    ],
)
def test_groups_that_have_a_name(old, new, result):
    assert merge({"data": old}, {"data": new}) == {"data": result}


def test_groups_without_a_name_are_left_to_the_check():
    assert merge({"hardware": {"threads": 1}}, {"hardware": "cpu"}) == {"hardware": "cpu"}


def test_lists_and_schedules_take_the_place_of_the_old():
    base = {"schedule": {"name": "steps", "factors": {150: 0.1, 250: 0.01}}, "logging": {"to": ["csv", "wandb"]}}
    result = merge(base, {"schedule": {"factors": {5: 0.5}}, "logging": {"to": ["csv"]}})
    assert result == {"schedule": {"name": "steps", "factors": {5: 0.5}}, "logging": {"to": ["csv"]}}
    assert merge(base, {"schedule": {"factors": {}}})["schedule"] == {"name": "steps", "factors": {}}
    assert merge(base, {"schedule": {}}) == base
