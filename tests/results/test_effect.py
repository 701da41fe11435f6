"""The words for the effect of federating."""

from dataclasses import asdict

from dpeer.results.effect import Effect, closing_lines, effect_of, effects_by_rank, headline, verdict_word


def of(verdict: str | None, **values: object) -> Effect:
    found = {
        "measure": "accuracy", "on": "test", "rows": 40, "joined": 0.9, "constant": 0.55, "alone": 0.8, "rounds": 5,
        "planned": 5, "gain": 0.1, "low": 0.025, "high": 0.2, "differ": 6, "verdict": verdict,
    }  # fmt: skip
    return Effect.of(found | values)


def line(number: int, verdict: str | None, **values: object) -> str:
    """A line that a peer's run ends with."""
    return closing_lines(of(verdict, **values))[number]


def test_a_run_ends_with_the_figures_and_one_sentence() -> None:
    assert closing_lines(of("improved")) == [
        "accuracy 0.9000 on 40 own test rows; always the most frequent class: 0.5500; local only: 0.8000",
        "gain +0.1000 (95 % interval +0.0250 to +0.2000): improved over local only",
    ]
    assert line(1, "worse").endswith(": worse than local only")
    assert line(1, "inconclusive", low=-0.1).endswith(
        ": inconclusive, the interval holds zero (40 test rows, of which 6 differ)"
    )
    assert line(1, "inconclusive", rows=8, low=-0.1).endswith(": inconclusive, 8 test rows are fewer than 10")
    assert line(1, "improved", rounds_mixed=3).endswith("over local only; bodies mixed in 3 of 5 rounds")
    assert "mixed" not in line(1, "improved", rounds_mixed=5)
    assert "accuracy 0.9000 (AUROC 0.9500) on" in line(0, "improved", auroc=0.95, alone_auroc=0.9)
    assert line(0, "improved", auroc=0.95, alone_auroc=0.9).endswith("local only: 0.8000 (AUROC 0.9000)")


def test_an_interval_without_zero_has_its_sentence_where_mcnemar_does_not_confirm_it() -> None:
    below = {"gain": -0.1, "low": -0.2, "high": -0.025, "differ": 4}
    worse = of("inconclusive", **below)
    assert closing_lines(worse)[1] == (
        "gain -0.1000 (95 % interval -0.2000 to -0.0250): probably worse than local only: the whole interval lies "
        "below zero, but McNemar's test does not confirm it: 0 rows are right only federated, 4 only with local only"
    )
    assert verdict_word(worse) == "probably worse"
    assert headline([worse, of("inconclusive", low=-0.1)]) == (
        "0 of 2 peers improved over local only; 2 inconclusive (1 probably worse)"
    )
    assert line(1, "inconclusive", differ=6).endswith(
        ": probably improved over local only: the whole interval lies above zero, but McNemar's test does not confirm "
        "it: 5 rows are right only federated, 1 only with local only"
    )
    assert verdict_word(of("inconclusive", differ=6)) == "inconclusive"
    assert line(1, "inconclusive", gain=-0.5, low=-1.0, high=-0.1, rows=6).endswith(
        ": the whole interval lies below zero, but 6 test rows are fewer than 10"
    )


def test_the_last_line_has_the_kept_model_and_both_losses() -> None:
    losses = {"validation_loss": 0.51239, "alone_validation_loss": 0.4}
    assert line(-1, "worse", kept="alone", **losses) == (
        "kept: the local-only model, validation loss 0.4; the federated one's is 0.5124"
    )
    assert line(0, "worse", kept="alone", **losses).startswith("federated model: accuracy 0.9000 on")
    assert line(-1, "improved", kept="joined", validation_loss=0.3, alone_validation_loss=0.4) == (
        "kept: the federated model, validation loss 0.3; the local-only one's is 0.4"
    )
    assert not any("kept" in one for one in closing_lines(of("improved")))
    blend = {"weight": 0.731, "blend": 0.925, "blend_validation_loss": 0.351}
    assert closing_lines(of("improved", kept="blend", **losses, **blend))[-1] == (
        "kept: the blend of both models, 0.73 of it federated: accuracy 0.9250, validation loss 0.351 (federated "
        "0.5124, local-only 0.4)"
    )
    assert line(0, "improved", kept="blend", **losses, **blend).startswith("federated model: accuracy 0.9000 on")
    assert closing_lines(of("improved", kept="joined", no_blend="no time", **losses))[-2:] == [
        "no blend: no time",
        "kept: the federated model, validation loss 0.5124; the local-only one's is 0.4",
    ]
    assert line(-1, None, no_blend="no time") == "no blend: no time"


def test_a_loss_is_called_one() -> None:
    first, second = closing_lines(of("inconclusive", measure="test_loss", on="validation", constant=0.95, low=-0.025))
    assert first.startswith("loss 0.9000 on 40 own validation rows; always the mean: 0.9500")
    assert second == (
        "gain +0.1000 of loss (95 % interval -0.0250 to +0.2000): inconclusive, the interval holds zero (40 validation "
        "rows)"
    )


def test_a_baseline_that_is_not_completed_has_its_rounds_its_reason_and_the_command_for_later() -> None:
    nothing = {"gain": None, "low": None, "high": None}
    first, second = closing_lines(of(None, **nothing, rounds=2, why="no time"))
    assert first.endswith("; local only after 2 of 5 rounds: 0.8000")
    assert second == "no comparison with local only: no time"
    (only,) = closing_lines(of(None, alone=None))
    assert "local only" not in only
    assert closing_lines(Effect.of({"why": "it has diverged"})) == ["no comparison with local only: it has diverged"]
    assert closing_lines(Effect.of({})) == []
    unfinished = of(None, **nothing, rounds=0, alone=None, why="no time")
    assert closing_lines(unfinished, "my run/rank-0")[-1] == (
        "no comparison with local only: no time; dpeer worth 'my run/rank-0' makes it later"
    )
    for other in (of("improved"), of(None, why="its figures are no means"), Effect.of({"why": "it has diverged"})):
        assert "dpeer worth" not in " ".join(closing_lines(other, "run/rank-0"))


def test_a_model_that_a_constant_answer_beats_is_called_useless() -> None:
    useless = "the model is no better than always the most frequent class"
    assert line(-1, "improved", joined=0.55) == line(-1, "improved", joined=0.55, auroc=0.6) == useless
    assert line(-1, "improved", measure="test_loss", joined=0.6) == "the model is no better than always the mean"
    assert line(-1, "improved", joined=0.55, auroc=0.85) == (
        f"{useless} at its threshold, but ranks rows (AUROC 0.8500): choose a threshold on its scores, or "
        "--class-weights balanced"
    )
    assert len(closing_lines(of("improved", joined=1.0, constant=1.0))) == 2, "one class only: nothing is wrong"


def test_the_headline_counts_peers() -> None:
    found = [of("improved"), None, of("improved"), of("worse"), of("inconclusive"), of(None)]
    assert headline(found) == "2 of 4 peers improved over local only; 1 worse; 1 inconclusive"
    assert headline([of("improved")]) == "1 of 1 peer improved over local only"
    assert headline([None, of(None)]) == ""
    assert [verdict_word(one) for one in found if one] == ["improved", "improved", "worse", "inconclusive", "-"]


def test_an_entry_is_read_as_it_was_written_and_a_damaged_one_does_no_harm() -> None:
    entry = asdict(Effect(measure="accuracy", rows=3, verdict="improved", gain=0.5))
    assert effect_of(entry) == Effect.of({"measure": "accuracy", "rows": 3, "verdict": "improved", "gain": 0.5})
    assert effect_of({"verdict": "great", "rows": -1, "gain": "much"}) == Effect()
    assert effect_of([1]) is None
    assert effects_by_rank([entry, None, 3]) == (Effect.of(entry), None, None)
    assert effects_by_rank("no") == ()
