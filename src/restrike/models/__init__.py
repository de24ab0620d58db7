"""The cards: what each model is made of and how it is denoised. Each is found by its entry point."""
