"""One goal, from the first look at the repository to the last word."""
