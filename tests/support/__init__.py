"""What tests of several parts share; imported as `support`."""
