"""Any published diffusers pipeline, called whole. Diffusers is imported when a checkpoint needs it."""
