"""Cards, the boxes that hold them, and the deliverables among them."""
