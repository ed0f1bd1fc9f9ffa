"""A throw-away kind of question, as a folder of the engine would be."""
