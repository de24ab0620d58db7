"""Adopts cells: finds those of a card that was loaded, tries and proves them, and arms them in the engine."""
