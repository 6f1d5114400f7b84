"""Edge: several DNNs share one device with streams; periodic and random jobs have deadlines and model variants."""
