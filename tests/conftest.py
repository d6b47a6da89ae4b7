"""Fixtures for every test."""

import signal

import pytest
import torch
from models_for_tests import ALL_NAMES, tiny_model


def pytest_addoption(parser):
    parser.addoption(
        "--model",
        action="append",
        metavar="NAME",
        help="a file of conf/model that the tests of all models run on (default: each of them)",
    )


def pytest_generate_tests(metafunc):
    if "model_name" in metafunc.fixturenames:
        names = [*ALL_NAMES, *getattr(metafunc.module, "VARIANTS", ())]
        metafunc.parametrize("model_name", metafunc.config.getoption("model") or names)


# A runner in the background (`nohup`, `&`) ignores these, and all that tests start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def seed():
    """Makes every test draw the same random numbers, in whatever order the tests run."""
    torch.manual_seed(7)
    return 7


@pytest.fixture
def model(model_name):
    """Each of the models, small, without dropout, in evaluation mode."""
    return tiny_model(model_name)
