"""How long a training's steps take with one allocation or another, learned from the steps that were seen."""
