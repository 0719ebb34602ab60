"""A packed dataset as a tf.data pipeline."""
