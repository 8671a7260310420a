"""The configuration of `mondrian sweep`: apart from the others, so that what varies is no choice among them."""
