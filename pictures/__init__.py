"""Recordings of ralph at work, as pictures: a real terminal, what a person would see, and nothing retouched."""
