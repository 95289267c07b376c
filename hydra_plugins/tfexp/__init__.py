"""Hydra plugins of tfexp, found by Hydra's own discovery."""
