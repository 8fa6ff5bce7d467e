import unittest

from slugs import slug


class Slugs(unittest.TestCase):
    def test_words(self) -> None:
        self.assertEqual(slug("Hello World"), "hello-world")

    def test_punctuation(self) -> None:
        self.assertEqual(slug("Hello, World!"), "hello-world")

    def test_spaces(self) -> None:
        self.assertEqual(slug("  many   spaces "), "many-spaces")

    def test_accents(self) -> None:
        self.assertEqual(slug("Crème Brûlée"), "creme-brulee")
