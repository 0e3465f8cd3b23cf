"""What the tier does, against a pool in a dict and vLLM's recorded classes."""

import threading
import unittest
from types import SimpleNamespace

import engines
import fake_pool
import signatures
import stub_vllm

ROW = 4096
ROWS = 8


class Engine:
    """A tier over a small primary view, and the calls of a scheduler."""

    def __init__(self, classes, **options):
        from spillway.vllm import SpillwayTier

        self.classes = classes
        self.memory = bytearray(ROW * ROWS)
        self.view = memoryview(self.memory).cast("B", shape=(ROWS, ROW))
        config = engines.vllm_config(**options.pop("config", {}))
        self.options = dict(
            offloading_spec=engines.spec(classes, config), primary_kv_view=self.view, tier_type="SpillwayTier",
            socket="/nowhere", weights="w1", **options,
        )  # fmt: skip
        self.tier = self.build(SpillwayTier, config)
        self.client = fake_pool.made[-1]
        self.context = SimpleNamespace(req_id="r1")
        self.jobs = 0

    def build(self, tier, vllm_config):
        return tier(**self.options)  # vllm_config: a local of a caller, as in vLLM

    def fill(self, row, key):
        self.memory[row * ROW : (row + 1) * ROW] = (key * ROW)[:ROW]

    def holds(self, row, key):
        return self.memory[row * ROW : (row + 1) * ROW] == (key * ROW)[:ROW]

    def job(self, keys, rows, load):
        self.jobs += 1
        kind = self.classes.get("TransferJob") or self.classes["JobMetadata"]
        (name,) = {"chunk_ids", "block_ids"} & set(kind.__dataclass_fields__)
        return kind(job_id=self.jobs, keys=keys, is_promotion=load, req_context=self.context, **{name: rows})

    def store(self, keys, rows):
        for key, row in zip(keys, rows):
            self.fill(row, key)
        self.tier.submit_store(self.job(keys, rows, False))
        return list(self.tier.get_finished_jobs())

    def load(self, keys, rows):
        self.tier.submit_load(self.job(keys, rows, True))
        return list(self.tier.get_finished_jobs())

    def step(self):
        self.tier.on_schedule_end(SimpleNamespace(new_req_ids=[], preempted_req_ids=[]))

    def lookup(self, *keys):
        return [self.tier.lookup(key, self.context).name for key in keys]

    def find(self, *keys):
        assert set(self.lookup(*keys)) <= {"RETRY"}
        self.step()
        return self.lookup(*keys)


def descriptor(classes, **options):
    engine = Engine(classes, **options)
    engine.lookup(b"a")
    (pool,) = engine.client.spaces.values()
    return pool.descriptor


class Tier:
    """The tests, for one release of vLLM: ``version``."""

    version = ""

    def setUp(self):
        stub = stub_vllm.installed(self.version)
        classes = stub.__enter__()
        self.addCleanup(stub.__exit__, None, None, None)
        self.addCleanup(fake_pool.orders.clear)
        import spillway.vllm.tier as tier

        tier.Client = fake_pool.FakeClient
        self.engine = Engine(classes)

    def test_store_find_load(self):
        engine = self.engine
        (stored,) = engine.store([b"a", b"b"], [0, 1])
        assert stored.success and stored.job_id == 1
        assert engine.find(b"a", b"b", b"c") == ["HIT", "HIT", "MISS"]
        (loaded,) = engine.load([b"a", b"b"], [5, 6])
        assert loaded.success and engine.holds(5, b"a") and engine.holds(6, b"b")

    def test_a_step_asks_once_and_leases(self):
        engine = self.engine
        engine.store([b"a"], [0])
        engine.find(b"a", b"b", b"c")
        (pool,) = engine.client.spaces.values()
        assert pool.matches == 1 and pool.leases == [2.0]

    def test_prefetch_names_what_was_found(self):
        for wanted in (False, True):
            engine = Engine(self.engine.classes, prefetch=wanted)
            engine.store([b"a"], [0])
            engine.find(b"a", b"b")
            (pool,) = engine.client.spaces.values()
            assert pool.prefetched == ([[b"a"]] if wanted else [])

    def test_part_of_a_load_fails(self):
        engine = self.engine
        engine.store([b"a", b"b", b"c"], [0, 1, 2])
        assert engine.find(b"a", b"b", b"c") == ["HIT"] * 3
        (pool,) = engine.client.spaces.values()
        del pool.blocks[b"b"]
        (loaded,) = engine.load([b"a", b"b", b"c"], [3, 4, 5])
        assert not loaded.success
        if hasattr(loaded, "successful_keys"):
            assert set(loaded.successful_keys) == {b"a", b"c"}
        # Otherwise the scheduler would load it again and again.
        assert engine.lookup(b"a", b"b", b"c") == ["HIT", "MISS", "HIT"]

    def test_rows_are_vllms_only_after_release(self):
        engine = self.engine
        engine.store([b"a"], [0])
        engine.client.held = True
        engine.client.late = {b"a"}
        assert engine.load([b"a"], [1]) == []
        assert list(engine.tier.get_finished_jobs()) == []
        engine.client.jobs[-1].release()
        (loaded,) = engine.tier.get_finished_jobs()
        assert not loaded.success and getattr(loaded, "successful_keys", None) is None

    def test_drain_waits_and_results_follow(self):
        engine = self.engine
        engine.client.held = True
        engine.store([b"a"], [0])
        threading.Timer(0.05, engine.client.jobs[-1].release).start()
        engine.tier.drain_jobs()
        assert engine.client.jobs[-1].released
        assert [result.success for result in engine.tier.get_finished_jobs()] == [True]

    def test_a_dead_daemon_misses_and_drops(self):
        engine = self.engine
        engine.store([b"a"], [0])
        engine.client.alive = False
        assert engine.find(b"a") == ["MISS"]
        assert [r.success for r in engine.load([b"a"], [1])] == [False]
        assert [r.success for r in engine.store([b"b"], [2])] == [False]
        engine.client.alive = True
        engine.tier.on_request_finished(engine.context)
        assert engine.find(b"a") == ["HIT"]

    def test_a_refused_store_is_reported_at_once(self):
        engine = self.engine
        engine.client.refused = {b"b"}
        (stored,) = engine.store([b"a", b"b"], [0, 1])
        assert not stored.success

    def test_nothing_raises_into_the_engine(self):
        engine = self.engine
        engine.client.raising = OSError("a fault of ours")
        with self.assertLogs("spillway", "ERROR") as logged:
            assert engine.lookup(b"a") == ["MISS"]
            assert [r.success for r in engine.store([b"a"], [0])] == [False]
            assert [r.success for r in engine.load([b"a"], [0])] == [False]
            engine.tier.touch([b"a"], engine.context)
            engine.step()
            engine.tier.on_request_finished(engine.context)
            engine.tier.drain_jobs()
            engine.tier.shutdown()
        assert len(logged.records) == 1, "once is enough"

    def test_shutdown_twice_then_misses(self):
        engine = self.engine
        engine.store([b"a"], [0])
        engine.tier.shutdown()
        engine.tier.shutdown()
        assert engine.client.closed == 1
        assert engine.lookup(b"a") == ["MISS"]
        assert [r.success for r in engine.store([b"b"], [0])] == [False]
        engine.step()
        engine.view.release()  # vLLM releases its view then: nothing of ours may hold it

    def test_memory_that_cannot_be_passed_on_is_copied(self):
        engine = self.engine
        fake_pool.orders.append(lambda client: setattr(client, "anonymous", True))
        with self.assertLogs("spillway") as logged:
            copying = Engine(engine.classes, copy_bytes=2 * ROW)
        self.assertIn("blocks are copied", "".join(logged.output))
        assert [r.success for r in copying.store([b"a", b"b"], [0, 1])] == [True]
        assert [r.success for r in copying.store([b"c"], [2])] == [True]
        (loaded,) = copying.load([b"a", b"b", b"c"], [5, 6, 7])  # two frames: the third waits for no one
        assert (
            not loaded.success
            and copying.holds(5, b"a")
            and copying.holds(6, b"b")
            and not copying.holds(7, b"c")
        )
        (loaded,) = copying.load([b"c"], [7])
        assert loaded.success and copying.holds(7, b"c")
        copying.tier.shutdown()
        copying.view.release()

    def test_touches_go_at_the_end_of_a_step(self):
        engine = self.engine
        engine.store([b"a"], [0])
        engine.tier.touch([b"a", b"b"], engine.context)
        engine.tier.touch([b"a"], engine.context)
        (pool,) = engine.client.spaces.values()
        assert pool.touched == []
        engine.step()
        engine.step()
        assert [sorted(keys) for keys in pool.touched] == [[b"a", b"b"]]

    def test_events_tell_stored_and_removed(self):
        engine = self.engine
        from spillway.wire import EventKind

        telling = Engine(engine.classes, enable_kv_events=True, locality="LOCAL")
        telling.store([b"a", b"b"], [0, 1])
        (event,) = telling.tier.take_events()
        assert (event.keys, event.removed) == ([b"a", b"b"], False)
        telling.client.events.append(SimpleNamespace(kind=EventKind.REMOVED, keys=(b"a",)))
        (event,) = telling.tier.take_events()
        assert (event.keys, event.removed) == ([b"a"], True)
        assert list(engine.tier.take_events()) == []

    def test_statistics_are_those_defined(self):
        engine = self.engine
        assert engine.tier.get_stats() is None
        engine.store([b"a"], [0])
        engine.find(b"a", b"b")
        engine.load([b"a"], [1])
        counters = engine.tier.get_stats().counters
        prefix = "vllm:kv_offload_spillway_"
        assert counters == {prefix + name: n for name, n in
                            dict(lookup_keys=2, lookup_hits=1, loaded_blocks=1, stored_blocks=1).items()}  # fmt: skip
        assert set(counters) <= set(engine.tier.build_metric_definitions({}))
        assert engine.tier.get_stats() is None

    def test_unknown_options_are_refused(self):
        engine = self.engine
        with self.assertRaisesRegex(TypeError, "weigths"):
            Engine(engine.classes, weigths="w1")

    def test_another_configuration_is_another_namespace(self):
        engine = self.engine

        def identity(**config):
            return descriptor(engine.classes, config=config).id()

        same = identity()
        assert same == identity()
        for field, value in dict(model="org/other", revision="1" * 40, dtype="torch.float16", cache_dtype="fp8",
                                 block_size=32, tensor_parallel_size=4, pipeline_parallel_size=2, hf_overrides={"a": 1},
                                 quantization="fp8", prefix_caching_hash_algo="xxhash").items():  # fmt: skip
            assert identity(**{field: value}) != same, field
        assert descriptor(engine.classes, salt="tenant").id() != same

    def test_without_the_whole_configuration_vllms_extract_tells(self):
        engine = self.engine
        if "OffloadingConfig" not in engine.classes:
            self.skipTest("vLLM 0.25 hands over the whole")
        from spillway.vllm.descriptor import describe

        def identity(layer_names=("layer.0",), **config):
            spec = engines.spec(engine.classes, engines.vllm_config(**config))
            spec.config.groups[0].layer_names = layer_names
            return describe(spec, None, ROW, "w", "", b"s").id()

        same = identity()
        self.assertEqual(same, identity(revision="1" * 40))  # it is not in there
        self.assertNotEqual(same, identity(layer_names=("layer.0", "layer.1")))
        self.assertNotEqual(same, identity(block_size=32))
        self.assertNotEqual(same, identity(tensor_parallel_size=4))

    def test_the_seed_of_the_hashes_is_part_of_the_namespace(self):
        engine = self.engine
        import vllm.v1.core.kv_cache_utils as utils

        before = descriptor(engine.classes)
        utils.NONE_HASH = b"another"
        after = descriptor(engine.classes)
        assert before.hash_seed != after.hash_seed and before.id() != after.id()

    def test_an_engines_name_is_not_part_of_the_namespace(self):
        engine = self.engine
        if "OffloadingConfig" not in engine.classes:
            self.skipTest("vLLM 0.25 has its name elsewhere")
        config = engines.vllm_config()
        first, second = (engines.extract(engine.classes, config, engine_id=name) for name in ("one", "two"))
        from spillway.vllm.descriptor import describe

        made = [describe(SimpleNamespace(config=c), config, ROW, "w", "", b"s") for c in (first, second)]
        assert made[0] == made[1]

    def test_unknown_weights_keep_a_process_to_itself(self):
        engine = self.engine
        from spillway.vllm.descriptor import describe

        config = engines.vllm_config(model="nobody/nothing", revision=None)
        spec = engines.spec(engine.classes, config)
        with self.assertLogs("spillway") as logged:
            made = [describe(spec, config, ROW, "", "", b"s").revision for _ in range(2)]
        assert made[0] != made[1] and made[0].startswith("process-")
        self.assertIn("weights", logged.output[0])


for version in signatures.versions():
    name = "Tier" + version.replace(".", "_")
    globals()[name] = type(name, (Tier, unittest.TestCase), {"version": version})

if __name__ == "__main__":
    unittest.main()
