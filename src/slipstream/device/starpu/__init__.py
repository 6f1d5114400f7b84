"""Engine of tiled task graphs inside StarPU 1.3: policies of this package decide in its `pop_task`."""
