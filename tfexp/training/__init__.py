"""Running one config: data, model, Lightning, record. May import everything but ablation and the CLI."""
