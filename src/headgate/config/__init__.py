"""Configuration: `headgate.yaml`, the environment and flags become one checked value. No part is built here."""

from headgate.config.reading import Loaded, load_config
from headgate.config.schema import Config, ConfigError

__all__ = ["Config", "ConfigError", "Loaded", "load_config"]
