"""What candidates and problems say, in a Markdown table."""

from weft.problem import sentences

LENGTH_MAX = 400


def table_cell(text):
    """One line that ends no cell, and no mark-up."""
    text = sentences.whole_sentences(text or "", LENGTH_MAX)
    return "".join("\\" + one if one in "\\`<|" else one for one in text)
