"""Recipes: packaged YAML, one per run, and the schema that types and checks them."""

from focalcal.recipes.loading import load_recipe, recipe_names
from focalcal.recipes.recipe import Recipe

__all__ = ["Recipe", "load_recipe", "recipe_names"]
