"""What the help of the commands says."""

from dpeer.federation.settings import Settings
from dpeer.training import MODELS


def test_the_help_names_every_model() -> None:
    text = Settings.model_fields["model"].description or ""
    assert text.rpartition(": ")[2].split(", ") == sorted(MODELS)
