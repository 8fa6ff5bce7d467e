"""How proven work comes to its branch."""
