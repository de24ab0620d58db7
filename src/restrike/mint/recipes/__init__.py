"""The two ways to compile a call. Each makes files in a folder, and makes a callable of those files again."""
