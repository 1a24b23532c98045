"""How each backend runs the scenarios of `gradproof.testing`: one entry each."""
