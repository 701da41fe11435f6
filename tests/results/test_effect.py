"""The words for the effect of federating."""

from dpeer.results.effect import (
    Effect,
    as_entry,
    effect_of,
    effects_by_rank,
    headline,
    majority_accuracy,
    verdict_word,
)
from dpeer.results.effect import closing_lines as lines


def told(verdict: str | None, **values: object) -> Effect:
    found = {
        "measure": "accuracy", "on": "test", "rows": 40, "joined": 0.9, "constant": 0.55, "alone": 0.8, "rounds": 5,
        "planned": 5, "algorithm": "local", "gain": 0.1, "low": 0.025, "high": 0.2, "differ": 6, "verdict": verdict,
    }  # fmt: skip
    return Effect.of(found | values)


def test_a_run_ends_with_the_figures_and_one_sentence() -> None:
    first, second = lines(told("improved"))
    assert first == ("accuracy 0.9000 on 40 own test rows; always the most frequent class: 0.5500; local only: 0.8000")
    assert second == "gain +0.1000 (95 % interval +0.0250 to +0.2000): improved over local only"
    assert lines(told("worse"))[1].endswith(": worse than local only")
    assert lines(told("inconclusive", low=-0.1))[1].endswith(
        ": inconclusive, the interval holds zero (40 test rows, of which 6 differ)"
    )
    assert lines(told("inconclusive", rows=8, low=-0.1))[1].endswith(": inconclusive, 8 test rows are fewer than 10")


def test_an_interval_that_leaves_zero_out_is_said_also_where_mcnemar_does_not_confirm_it() -> None:
    """One site of 48 was not told that its whole interval lay below zero."""
    worse = told("inconclusive", gain=-0.1, low=-0.2, high=-0.025, differ=4)
    assert lines(worse)[1] == (
        "gain -0.1000 (95 % interval -0.2000 to -0.0250): probably worse than local only: the whole interval lies "
        "below zero, but McNemar's test does not confirm it: 0 rows are right only federated, 4 only with local only"
    )
    assert verdict_word(worse) == "probably worse"
    assert headline([worse, told("inconclusive", low=-0.1)]) == (
        "0 of 2 peers improved over local only; 2 inconclusive (1 probably worse)"
    )
    better = told("inconclusive", differ=6)
    assert lines(better)[1].endswith(
        ": probably improved over local only: the whole interval lies above zero, but McNemar's test does not confirm "
        "it: 5 rows are right only federated, 1 only with local only"
    )
    assert verdict_word(better) == "inconclusive"
    few = told("inconclusive", gain=-0.5, low=-1.0, high=-0.1, rows=6)
    assert lines(few)[1].endswith(": the whole interval lies below zero, but 6 test rows are fewer than 10")
    other = told("inconclusive", gain=-0.1, low=-0.2, high=-0.025, differ=4, algorithm="dfedavgm")
    assert "probably worse than dfedavgm" in lines(other)[1]
    assert verdict_word(other) == "probably worse"
    assert headline([other]).endswith("1 inconclusive (1 probably worse)")


def test_the_last_line_says_which_model_is_kept_and_why() -> None:
    losses = {"validation_loss": 0.51239, "alone_validation_loss": 0.4}
    *_, last = lines(told("worse", kept="alone", **losses))
    assert last == "kept: the local-only model, validation loss 0.4; the federated one's is 0.5124"
    assert lines(told("worse", kept="alone", **losses))[0].startswith("federated model: accuracy 0.9000 on")
    *_, last = lines(told("improved", kept="joined", validation_loss=0.3, alone_validation_loss=0.4))
    assert last == "kept: the federated model, validation loss 0.3; the local-only one's is 0.4"
    assert not any("kept" in line for line in lines(told("improved")))


def test_few_rounds_with_bodies_are_said_beside_the_gain() -> None:
    assert lines(told("improved", rounds_mixed=3))[1].endswith(
        ": improved over local only; bodies mixed in 3 of 5 rounds"
    )
    assert "mixed" not in lines(told("improved", rounds_mixed=5))[1]


def test_auroc_is_said_where_the_task_gives_one() -> None:
    assert "accuracy 0.9000 (AUROC 0.9500) on" in lines(told("improved", auroc=0.95, alone_auroc=0.9))[0]
    assert lines(told("improved", auroc=0.95, alone_auroc=0.9))[0].endswith("local only: 0.8000 (AUROC 0.9000)")


def test_a_loss_is_called_one() -> None:
    first, second = lines(told("inconclusive", measure="test_loss", on="validation", constant=0.95, low=-0.025))
    assert first.startswith("loss 0.9000 on 40 own validation rows; always the mean: 0.9500")
    assert second == (
        "gain +0.1000 of loss (95 % interval -0.0250 to +0.2000): inconclusive, the interval holds zero (40 validation "
        "rows)"
    )


def test_what_is_not_completed_says_how_far_it_came_and_why() -> None:
    first, second = lines(told(None, gain=None, low=None, high=None, rounds=2, why="no time"))
    assert first.endswith("; local only after 2 of 5 rounds: 0.8000")
    assert second == "no comparison with local only: no time"
    (only,) = lines(told(None, alone=None))
    assert "local only" not in only
    assert lines(Effect.of({"why": "it has diverged"})) == ["no comparison with local only: it has diverged"]
    assert lines(Effect.of({})) == []


def test_a_comparison_that_can_be_made_later_names_the_command() -> None:
    unfinished = told(None, gain=None, low=None, high=None, rounds=0, alone=None, why="no time")
    assert lines(unfinished, "my run/rank-0")[-1] == (
        "no comparison with local only: no time; dpeer worth 'my run/rank-0' makes it later"
    )
    for other in (told("improved"), told(None, why="its figures are no means"), Effect.of({"why": "it has diverged"})):
        assert "dpeer worth" not in " ".join(lines(other, "run/rank-0"))


def test_a_model_that_a_constant_answer_beats_is_called_useless() -> None:
    assert lines(told("improved", joined=0.55))[-1] == "the model is no better than always the most frequent class"
    assert lines(told("improved", measure="test_loss", joined=0.6))[-1] == "the model is no better than always the mean"
    assert lines(told("improved", joined=0.55, auroc=0.6))[-1].endswith("always the most frequent class")
    assert lines(told("improved", joined=0.55, auroc=0.85))[-1] == (
        "the model is no better than always the most frequent class at its threshold, but tells rows apart (AUROC "
        "0.8500): choose a threshold on its scores, or --class-weights balanced"
    )
    assert len(lines(told("improved", joined=1.0, constant=1.0))) == 2, "one class only: nothing is wrong"


def test_the_headline_counts_peers() -> None:
    found = [told("improved"), None, told("improved"), told("worse"), told("inconclusive"), told(None)]
    assert headline(found) == "2 of 4 peers improved over local only; 1 worse; 1 inconclusive"
    assert headline([told("improved")]) == "1 of 1 peer improved over local only"
    assert headline([None, told(None)]) == ""


def test_another_baseline_is_named() -> None:
    found = [told(verdict, algorithm="dfedavgm") for verdict in ("improved", "worse", "inconclusive")]
    assert headline(found) == "1 of 3 peers improved over dfedavgm; 1 worse; 1 inconclusive"
    assert [verdict_word(one) for one in found] == ["improved", "worse", "inconclusive"]
    assert lines(found[1])[1].endswith(": worse than dfedavgm")


def test_the_majority_class_is_that_of_the_training_rows() -> None:
    assert majority_accuracy([3, 9, 1], [5, 2, 3]) == 0.2
    assert majority_accuracy([0, 0, 4], [5]) == 0.0, "a class that no test row has"
    assert majority_accuracy(None, [1]) is majority_accuracy([1], None) is majority_accuracy([1], [0, 0]) is None


def test_an_entry_is_read_as_it_was_written_and_a_damaged_one_does_no_harm() -> None:
    entry = as_entry(measure="accuracy", rows=3, verdict="improved", gain=0.5)
    assert effect_of(entry) == Effect.of(dict(entry))
    assert effect_of(dict(entry)) == Effect.of({"measure": "accuracy", "rows": 3, "verdict": "improved", "gain": 0.5})
    assert effect_of({"verdict": "great", "rows": -1, "gain": "much"}) == Effect()
    assert effect_of([1]) is None
    assert effects_by_rank([dict(entry), None, 3]) == (Effect.of(dict(entry)), None, None)
    assert effects_by_rank("no") == ()
