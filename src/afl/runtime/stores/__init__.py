"""The stores: SQL (SQLite, PostgreSQL) and MongoDB, and how one is opened by its URL."""
