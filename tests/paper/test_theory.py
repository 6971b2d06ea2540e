import pytest

from focalcal.paper.claims import judge
from focalcal.paper.theory import bound_slack, check_theory, crossing


def test_the_theory_holds_where_it_should():
    claims = check_theory(points=400)
    (failed,) = [claim for claim in claims if claim.verdict == "does not hold"]
    assert "for every p0 in (0, 1)" in failed.text
    assert len(claims) == 10


def test_crossings_and_slack():
    assert crossing(1.0) == pytest.approx(0.36788, abs=1e-5)
    assert crossing(4.8506) == pytest.approx(0.2, abs=1e-4)
    assert bound_slack(1.0, 2, 500) >= 0


def test_a_claim_holds_if_it_holds_everywhere():
    assert judge("A.", [(True, "1"), (True, "2")]).evidence == "1; 2."
    mixed = judge("A.", [(True, "1"), (False, "2")])
    assert (mixed.verdict, mixed.evidence) == ("holds in 1 of 2", "1 (yes); 2 (no).")
    assert judge("A.", [], "no runs").evidence == "No runs."
