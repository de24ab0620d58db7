"""The embedded text-to-video model: a coloured shape that moves, grows or rests on a background."""
