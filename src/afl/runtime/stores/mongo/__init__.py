"""The MongoDB store, a file per noun; `afl.runtime.mongo_store` is its public name."""
