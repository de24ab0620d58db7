"""The tasks that come with Restrike: pictures, video, sound, text. A module a field; libraries do it."""
