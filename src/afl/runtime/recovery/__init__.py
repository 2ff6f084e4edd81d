"""Work that nobody holds any more: found, judged and taken up again."""
