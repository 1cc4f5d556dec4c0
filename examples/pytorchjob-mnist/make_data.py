"""Writes a data set of ten classes of 28 x 28 pixels, made up: for each class one pattern, and noise over it.

It stands for the Fashion-MNIST that the tutorial's reader already has on the volume.
"""

import os
import sys

import torch

IMAGES = 1200
CLASSES = 10
PIXELS = 28 * 28

folder = sys.argv[1]
torch.manual_seed(0)
patterns = torch.rand(CLASSES, PIXELS)
labels = torch.arange(IMAGES) % CLASSES
images = patterns[labels] + 0.5 * torch.randn(IMAGES, PIXELS)
os.makedirs(folder, exist_ok=True)
torch.save({"images": images, "labels": labels}, os.path.join(folder, "train.pt"))
print(f"{IMAGES} images are in {folder}", flush=True)
