"""What is measured: traces, metrics of a store, the use and the cost of models."""
