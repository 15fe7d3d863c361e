"""kvdsl: plans for serving large language models, from `.kvspec` text to checked figures."""

__version__ = "0.1.0"
