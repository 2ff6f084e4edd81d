"""The worker: claims tasks, has their handlers called, stores what they answer, and goes on with the runs."""
