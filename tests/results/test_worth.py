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
    assert ending(told("unclear"))[1].endswith(
        ": whether joining helped cannot be told with 40 test rows, of which 6 differ"
    )


def test_auroc_is_said_where_the_task_gives_one() -> None:
    assert "accuracy 0.9000 (AUROC 0.9500) on" in ending(told("helped", auroc=0.95, alone_auroc=0.9))[0]
    assert ending(told("helped", auroc=0.95, alone_auroc=0.9))[0].endswith("alone: 0.8000 (AUROC 0.9000)")


def test_a_loss_is_called_one() -> None:
    first, second = ending(told("unclear", measure="test_loss", on="validation", constant=0.95))
    assert first.startswith("loss 0.9000 on 40 own validation rows; always the mean: 0.9500")
    assert second == (
        "gain +0.1000 of loss (95 % interval +0.0250 to +0.2000): whether joining helped cannot be told with 40 "
        "validation rows"
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
    assert headline(found) == "joining helped 2 of 4 peers; 1 would be better off alone; 1 cannot be told"
    assert headline([told("helped")]) == "joining helped 1 of 1 peer"
    assert headline([None, told(None)]) == ""


def test_another_baseline_is_named() -> None:
    found = [told(verdict, algorithm="dfedavgm") for verdict in ("helped", "alone", "unclear")]
    assert headline(found) == "1 of 3 peers did better than with dfedavgm; 1 did worse; 1 cannot be told"
    assert [verdict_word(one) for one in found] == ["better", "worse", "cannot be told"]
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
