"""How the presets were trained and are measured: a recipe each."""
