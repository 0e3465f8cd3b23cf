"""The tier has what every supported release of vLLM asks of one."""

import inspect
import unittest

import signatures
import stub_vllm

VERSIONS = signatures.versions()


class Signatures(unittest.TestCase):
    def test_at_least_the_promised_releases_are_recorded(self):
        assert VERSIONS[0].startswith("0.25.") and "0.26.0" in VERSIONS and VERSIONS[-1] == "0.33.0"

    def test_every_abstract_method_is_there(self):
        for version in VERSIONS:
            with self.subTest(version):
                with stub_vllm.installed(version):
                    from spillway.vllm import SpillwayTier

                    assert not SpillwayTier.__abstractmethods__

    def test_methods_take_what_vllm_passes(self):
        for version in VERSIONS:
            with self.subTest(version):
                asked = signatures.read(version)["SecondaryTierManager"]["methods"]
                with stub_vllm.installed(version):
                    from spillway.vllm import SpillwayTier

                    for name, about in asked.items():
                        if name not in vars(SpillwayTier) or name == "__init__":
                            continue
                        parameters = [p for p in about["parameters"] if p not in ("self", "cls")]
                        bound = inspect.signature(getattr(SpillwayTier, name))
                        instance = [] if "classmethod" in about["marks"] else [None]
                        bound.bind(*instance, *parameters)  # by place
                        bound.bind(*instance, **dict.fromkeys(parameters))  # by name

    def test_the_whole_configuration_is_at_hand_where_a_tier_is_built(self):
        for version in VERSIONS:
            with self.subTest(version):
                record = signatures.read(version)
                in_spec = "vllm_config" in record["OffloadingSpec"]["methods"]["__init__"]["parameters"]
                in_scheduler = (
                    "vllm_config"
                    in record["OffloadingConnectorScheduler"]["methods"]["__init__"]["parameters"]
                )
                assert in_spec or in_scheduler

    def test_the_factory_finds_the_type_by_the_name_that_the_entry_point_registers(self):
        for version in VERSIONS:
            with self.subTest(version):
                with stub_vllm.installed(version) as classes:
                    import spillway.vllm

                    seen = []
                    classes["SecondaryTierFactory"].register_tier = staticmethod(
                        lambda *asked: seen.append(asked)
                    )
                    spillway.vllm.register()
                    assert seen == [("SpillwayTier", "spillway.vllm", "SpillwayTier")]

                    def twice(*asked):
                        raise ValueError("already registered")

                    classes["SecondaryTierFactory"].register_tier = staticmethod(twice)
                    spillway.vllm.register()


if __name__ == "__main__":
    unittest.main()
