"""A run folder from a stranger: what its config.yaml names is not built."""

import pytest
from number_words import compose, corpus_options
from omegaconf import OmegaConf

from nmt.training.run_folder import data_of_run


@pytest.fixture
def folder(tmp_path):
    config = compose(*corpus_options(tmp_path / "text"))
    data = OmegaConf.to_container(config.data, resolve=True)

    def write(**changes):
        OmegaConf.save({"data": data | changes}, tmp_path / "config.yaml")
        return tmp_path

    return write


def test_the_corpus_of_a_run_is_built_from_its_config(folder):
    assert data_of_run(folder()).split("valid")["source"][0]


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_class_from_elsewhere_is_not_built(folder, tmp_path, is_inside):
    planted = {"_target_": "os.system", "command": f"touch {tmp_path}/ran"}
    inside = {"grammar": planted, "train": None, "valid": None, "test": None}
    with pytest.raises(ValueError, match="." if is_inside else "'os.system' is not allow"):
        data_of_run(folder(**(inside if is_inside else planted))).prepare_data()
    assert not (tmp_path / "ran").exists()
