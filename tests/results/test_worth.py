"""The words for whether joining was worth it."""

from dpeer.results.worth import Worth, as_entry, ending, headline, majority, verdict_word, worth_by_rank, worth_of


def told(verdict: str | None, **values: object) -> Worth:
    found = {
        "measure": "accuracy", "on": "test", "rows": 40, "joined": 0.9, "constant": 0.55, "alone": 0.8, "rounds": 5,
        "planned": 5, "algorithm": "local", "gain": 0.1, "low": 0.025, "high": 0.2, "differ": 6, "verdict": verdict,
    }  # fmt: skip
    return Worth.of(found | values)


def test_a_run_ends_with_the_figures_and_one_sentence() -> None:
    first, second = ending(told("helped"))
    assert first == ("accuracy 0.9000 on 40 own test rows; always the most frequent class: 0.5500; alone: 0.8000")
    assert second == "gain +0.1000 (95 % interval +0.0250 to +0.2000): joining helped"
    assert ending(told("alone"))[1].endswith(": you would be better off alone")
    assert ending(told("unclear", low=-0.1))[1].endswith(
        ": inconclusive, the interval holds zero (40 test rows, of which 6 differ)"
    )
    assert ending(told("unclear", rows=8, low=-0.1))[1].endswith(": inconclusive, 8 test rows are fewer than 10")


def test_an_interval_that_leaves_zero_out_is_said_also_where_mcnemar_does_not_confirm_it() -> None:
    """One site of 48 was not told that its whole interval lay below zero."""
    worse = told("unclear", gain=-0.1, low=-0.2, high=-0.025, differ=4)
    assert ending(worse)[1] == (
        "gain -0.1000 (95 % interval -0.2000 to -0.0250): you would probably be better off alone: the whole interval "
        "lies below zero, but McNemar's test does not confirm it: 0 rows are right only joined, 4 only alone"
    )
    assert verdict_word(worse) == "probably alone"
    assert headline([worse, told("unclear", low=-0.1)]) == (
        "joining helped 0 of 2 peers; 2 inconclusive (1 probably better off alone)"
    )
    better = told("unclear", differ=6)
    assert ending(better)[1].endswith(
        ": joining probably helped: the whole interval lies above zero, but McNemar's test does not confirm it: 5 rows "
        "are right only joined, 1 only alone"
    )
    assert verdict_word(better) == "inconclusive"
    few = told("unclear", gain=-0.5, low=-1.0, high=-0.1, rows=6)
    assert ending(few)[1].endswith(": the whole interval lies below zero, but 6 test rows are fewer than 10")
    other = told("unclear", gain=-0.1, low=-0.2, high=-0.025, differ=4, algorithm="dfedavgm")
    assert "probably better with dfedavgm" in ending(other)[1]
    assert verdict_word(other) == "probably worse"
    assert headline([other]).endswith("1 inconclusive (1 probably worse)")


def test_the_last_line_says_which_model_is_kept_and_why() -> None:
    losses = {"validation_loss": 0.51239, "alone_validation_loss": 0.4}
    *_, last = ending(told("alone", kept="alone", **losses))
    assert last == "kept: the model trained alone, whose validation loss is 0.4; the joined model's is 0.5124"
    assert ending(told("alone", kept="alone", **losses))[0].startswith("joined model: accuracy 0.9000 on")
    *_, last = ending(told("helped", kept="joined", validation_loss=0.3, alone_validation_loss=0.4))
    assert last == "kept: the joined model, whose validation loss is 0.3; that of the model trained alone is 0.4"
    assert not any("kept" in line for line in ending(told("helped")))


def test_few_rounds_with_bodies_are_said_beside_the_gain() -> None:
    assert ending(told("helped", rounds_mixed=3))[1].endswith(": joining helped; bodies mixed in 3 of 5 rounds")
    assert "mixed" not in ending(told("helped", rounds_mixed=5))[1]


def test_auroc_is_said_where_the_task_gives_one() -> None:
    assert "accuracy 0.9000 (AUROC 0.9500) on" in ending(told("helped", auroc=0.95, alone_auroc=0.9))[0]
    assert ending(told("helped", auroc=0.95, alone_auroc=0.9))[0].endswith("alone: 0.8000 (AUROC 0.9000)")


def test_a_loss_is_called_one() -> None:
    first, second = ending(told("unclear", measure="test_loss", on="validation", constant=0.95, low=-0.025))
    assert first.startswith("loss 0.9000 on 40 own validation rows; always the mean: 0.9500")
    assert second == (
        "gain +0.1000 of loss (95 % interval -0.0250 to +0.2000): inconclusive, the interval holds zero (40 validation "
        "rows)"
    )


def test_what_is_not_completed_says_how_far_it_came_and_why() -> None:
    first, second = ending(told(None, gain=None, low=None, high=None, rounds=2, why="no time"))
    assert first.endswith("; alone after 2 of 5 rounds: 0.8000")
    assert second == "no comparison with this peer alone: no time"
    (only,) = ending(told(None, alone=None))
    assert "alone" not in only
    assert ending(Worth.of({"why": "it has diverged"})) == ["no comparison with this peer alone: it has diverged"]
    assert ending(Worth.of({})) == []


def test_a_model_that_a_constant_answer_beats_is_called_useless() -> None:
    assert ending(told("helped", joined=0.55))[-1] == "the model is no better than always the most frequent class"
    assert ending(told("helped", measure="test_loss", joined=0.6))[-1] == "the model is no better than always the mean"
    assert ending(told("helped", joined=0.55, auroc=0.6))[-1].endswith("always the most frequent class")
    assert ending(told("helped", joined=0.55, auroc=0.85))[-1] == (
        "the model is no better than always the most frequent class at its threshold, but tells rows apart (AUROC "
        "0.8500): choose a threshold on its scores, or --class-weights balanced"
    )
    assert len(ending(told("helped", joined=1.0, constant=1.0))) == 2, "one class only: nothing is wrong"


def test_the_headline_counts_peers() -> None:
    found = [told("helped"), None, told("helped"), told("alone"), told("unclear"), told(None)]
    assert headline(found) == "joining helped 2 of 4 peers; 1 would be better off alone; 1 inconclusive"
    assert headline([told("helped")]) == "joining helped 1 of 1 peer"
    assert headline([None, told(None)]) == ""


def test_another_baseline_is_named() -> None:
    found = [told(verdict, algorithm="dfedavgm") for verdict in ("helped", "alone", "unclear")]
    assert headline(found) == "1 of 3 peers did better than with dfedavgm; 1 did worse; 1 inconclusive"
    assert [verdict_word(one) for one in found] == ["better", "worse", "inconclusive"]
    assert ending(found[1])[1].endswith(": you would be better off with dfedavgm")


def test_the_majority_class_is_that_of_the_training_rows() -> None:
    assert majority([3, 9, 1], [5, 2, 3]) == 0.2
    assert majority([0, 0, 4], [5]) == 0.0, "a class that no test row has"
    assert majority(None, [1]) is majority([1], None) is majority([1], [0, 0]) is None


def test_an_entry_is_read_as_it_was_written_and_a_damaged_one_does_no_harm() -> None:
    entry = as_entry(measure="accuracy", rows=3, verdict="helped", gain=0.5)
    assert worth_of(entry) == Worth.of(dict(entry))
    assert worth_of(dict(entry)) == Worth.of({"measure": "accuracy", "rows": 3, "verdict": "helped", "gain": 0.5})
    assert worth_of({"verdict": "great", "rows": -1, "gain": "much"}) == Worth()
    assert worth_of([1]) is None
    assert worth_by_rank([dict(entry), None, 3]) == (Worth.of(dict(entry)), None, None)
    assert worth_by_rank("no") == ()
