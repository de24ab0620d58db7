"""The database of a server: its tables, its migrations, and how it is opened. Knows no rule of the queue."""
