"""Looking into packed datasets: whether they are sound, and what they were made of."""
