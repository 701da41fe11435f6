"""Data sets of images: MNIST, EMNIST, CIFAR, Tiny ImageNet, and folders of one's own."""
