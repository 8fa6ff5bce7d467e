"""Fuzzers for all that reads what ralph did not write: `make fuzz`. Short forms of them, with hypothesis, are tests."""
