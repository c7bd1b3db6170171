"""Declarative policies: rules in YAML, read with exact diagnostics, compiled to Lua, edited without loss."""
