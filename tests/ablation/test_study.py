"""What a study fills in by itself."""

import pytest

from tfexp.ablation.study import Study

NODE = {"name": "tiny", "factors": {"model/position": ["rope", "none"]}}
DIRECTIONS = {
    "loss": ({}, "lower"),
    "accuracy": ({"metric": "val/accuracy"}, "higher"),
    "bleu": ({"metric": "val/bleu"}, "higher"),
    "perplexity": ({"metric": "val/perplexity"}, "lower"),
    "said_otherwise": ({"metric": "val/accuracy", "direction": "lower"}, "lower"),
}


@pytest.mark.parametrize(("changes", "direction"), DIRECTIONS.values(), ids=DIRECTIONS)
def test_the_direction_follows_from_the_metric_unless_it_is_stated(changes, direction):
    assert Study.from_config({**NODE, **changes}).direction == direction
