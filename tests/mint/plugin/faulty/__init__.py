"""Another package's cards, each with one real fault, for mints in child processes to meet."""
