"""The trained policies that come with the taskgraph family do what the results page says, on a few episodes."""

from __future__ import annotations

import numpy as np
import pytest

import slipstream
from slipstream.policies.learned import shipped
from slipstream.taskgraph.generate import Settings, generate
