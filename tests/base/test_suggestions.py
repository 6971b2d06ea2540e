from focalcal.base.suggestions import did_you_mean, nearest_name


def test_the_spelling_of_the_known_name_is_returned():
    assert nearest_name("RESNET-50", ["resnet50", "densenet121"]) == "resnet50"
    assert nearest_name(3.5, ["fl-3"]) is None
    assert did_you_mean("nothing like it", ["ece", "nll"]) == "; known are ece, nll."
