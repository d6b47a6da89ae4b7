"""Fixtures for every test."""

import pytest
import torch
from models_for_tests import MODEL_NAMES, tiny_model


@pytest.fixture(autouse=True)
def seed():
    """Makes every test draw the same random numbers, in whatever order the tests run."""
    torch.manual_seed(7)
    return 7


@pytest.fixture(params=MODEL_NAMES)
def model(request):
    """Each of the models, tiny, without dropout, in evaluation mode."""
    return tiny_model(request.param)
