"""What is wrong with a store and its surroundings: a check is a function that gives findings."""
