import pytest

from nmt.training.schedules import Cosine, InverseSquareRoot

COSINE = Cosine(updates=43, warmup=13, final_fraction=0.1)
INVERSE = InverseSquareRoot(warmup=13)


@pytest.mark.parametrize("schedule", [COSINE, INVERSE])
def test_warmup_is_linear_and_reaches_the_peak_at_its_last_update(schedule):
    factors = [schedule(update) for update in range(13)]
    assert factors == pytest.approx([(number + 1) / 13 for number in range(13)])
    assert factors[-1] == 1.0
    assert factors[0] > 0


@pytest.mark.parametrize("schedule", [COSINE, INVERSE])
def test_the_peak_is_reached_once_and_then_left(schedule):
    factors = [schedule(update) for update in range(12, 43)]
    assert factors == sorted(factors, reverse=True)
    assert factors.count(1.0) == 1


def test_cosine_is_halfway_down_in_the_middle_and_ends_at_the_asked_fraction():
    assert COSINE(13 + 15 - 1) == pytest.approx((1 + 0.1) / 2)
    assert COSINE(42) == pytest.approx(0.1)
    assert COSINE(59) == pytest.approx(0.1)  # a longer run does not climb again


def test_inverse_square_root_halves_when_the_updates_are_four_times_the_warmup():
    assert INVERSE(4 * 13 - 1) == pytest.approx(0.5)


def test_no_warmup_starts_near_the_peak():
    assert Cosine(updates=101, warmup=0)(0) == pytest.approx(1, abs=1e-3)


def test_a_run_shorter_than_its_warmup_only_climbs():
    assert [Cosine(updates=2, warmup=5)(update) for update in range(2)] == [0.2, 0.4]


@pytest.mark.parametrize(
    ("schedule", "options", "message"),
    [
        (Cosine, {"updates": 0, "warmup": 3}, "scheduler.updates is 0"),
        (Cosine, {"updates": 5, "warmup": -1}, "scheduler.warmup is -1"),
        (Cosine, {"updates": 5, "warmup": 3, "final_fraction": 1.5}, "final_fraction is 1.5"),
        (InverseSquareRoot, {"warmup": 0}, "scheduler.warmup is 0"),
    ],
)
def test_impossible_options_are_refused_by_name(schedule, options, message):
    with pytest.raises(ValueError, match=message):
        schedule(**options)
