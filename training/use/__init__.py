"""Use of a trained model: rebuilt without the training data, given new rows, measured and exported."""
