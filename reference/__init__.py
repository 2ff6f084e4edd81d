"""The pages of docs that are made from the code: `python -m reference` (or `make docs`) writes them anew."""
