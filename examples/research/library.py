"""The library: what the model may look things up in."""

BOOKS = {
    "Songs of the Sea": "Whales near Tonga took over a new song within two years. It came from the west.",
    "Animals in Numbers": "A blue whale is up to 30 meters long. A sperm whale dives for 90 minutes.",
    "The Long Winter": "Whales travel 8,000 kilometers a year between cold water and warm.",
}


def search(words: str, most: int = 2) -> list[dict[str, str]]:
    """Search all books for pages on a subject.

    Args:
        words: what to look for, one or two words
        most: how many pages at most
    """
    wanted = [word.lower().strip("?.,") for word in words.split()]
    found = [(sum(word in text.lower() for word in wanted), book, text) for book, text in BOOKS.items()]
    best = sorted((hit for hit in found if hit[0]), key=lambda hit: -hit[0])[:most]
    return [{"book": book, "page": text} for _, book, text in best]
