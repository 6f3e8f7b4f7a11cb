"""The checks of a session store, by what they are about. `StoreConformance` has them all."""
