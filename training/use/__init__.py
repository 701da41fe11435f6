"""Using a trained model: built again without the training data, given new rows, measured and exported."""
