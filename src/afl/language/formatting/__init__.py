"""How the formatter works: tokens, logical lines, and the layout of a line that is too long.

Newlines carry no meaning in AFL, so a text with the same tokens in the same order means the same.
"""
