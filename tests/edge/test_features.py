"""Column constants, tables and kernels agree."""

from __future__ import annotations

import numpy as np

from slipstream.edge import features


def test_column_constants_follow_the_tables():
    for table in (features.CANDIDATE, features.GLOBAL):
        for place, name in enumerate(table.names):
            assert getattr(features, name.upper()) == place


def test_every_feature_is_explained_and_bounded():
    for table in (features.CANDIDATE, features.GLOBAL):
        assert len(set(table.names)) == len(table)
        for feature in table.features:
            assert feature.unit
            assert len(feature.meaning.split()) >= 3
            assert np.isfinite([feature.low, feature.high, feature.scale]).all()
            assert feature.low < feature.high


def test_hidden_columns_stand_last_so_that_indices_agree():
    for table in (features.CANDIDATE, features.GLOBAL):
        shown = len(table.observed)
        assert table.names[:shown] == table.observed.names
        assert not any(feature.observed for feature in table.features[shown:])
