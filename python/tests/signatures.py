"""What the releases of vLLM ask of a tier: read from a wheel's source, kept as JSON.

The JSON files stand for vLLM in the tests that run without it.
"""

from __future__ import annotations

import ast
import json
import zipfile
from pathlib import Path
from typing import Any, Dict, List

HERE = Path(__file__).parent / "signatures"

# Of which module which classes; what a release does not have is left out.
CLASSES = {
    "vllm/v1/kv_offload/base.py": ["LookupResult", "Medium", "Locality", "OffloadingEvent", "ReqContext",
                                   "RequestOffloadingContext", "OffloadPolicy", "ScheduleEndContext",
                                   "OffloadingMetricMetadata", "OffloadingCounterMetadata", "OffloadingSpec"],
    "vllm/v1/kv_offload/tiering/base.py": ["SecondaryTierManager", "TransferJob", "JobMetadata", "JobResult"],
    "vllm/v1/kv_offload/tiering/async_lookup.py": ["AsyncLookupManager"],
    "vllm/v1/kv_offload/tiering/factory.py": ["SecondaryTierFactory"],
    "vllm/v1/kv_offload/config.py": ["OffloadingConfig", "OffloadingGroupConfig", "OffloadingModelConfig",
                                     "OffloadingCacheConfig", "OffloadingParallelConfig"],
    "vllm/distributed/kv_transfer/kv_connector/v1/offloading/metrics.py": ["OffloadingConnectorStats"],
    "vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py": ["OffloadingConnectorScheduler"],
}  # fmt: skip


def versions() -> List[str]:
    """Those recorded, oldest first."""
    return sorted((path.stem for path in HERE.glob("*.json")), key=lambda v: [int(n) for n in v.split(".")])


def read(version: str) -> Dict[str, Any]:
    """Class name to what is known of it."""
    return dict(json.loads((HERE / f"{version}.json").read_text()))


def write(version: str, wheel: zipfile.ZipFile) -> None:
    """Records a release."""
    HERE.mkdir(exist_ok=True)
    text = json.dumps(of_wheel(wheel), indent=1, sort_keys=True)
    (HERE / f"{version}.json").write_text(text + "\n")


def of_wheel(wheel: zipfile.ZipFile) -> Dict[str, Any]:
    """The same, from the source in a wheel."""
    found: Dict[str, Any] = {}
    names = set(wheel.namelist())
    for path, wanted in CLASSES.items():
        if path not in names:
            continue
        tree = ast.parse(wheel.read(path))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name in wanted:
                module = path[: -len(".py")].replace("/", ".")
                found[node.name] = {"module": module, **_class(node)}
    return found


def _class(node: ast.ClassDef) -> Dict[str, Any]:
    methods, fields, members = {}, {}, []
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            methods[item.name] = _method(item)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            if "ClassVar" not in ast.unparse(item.annotation):
                fields[item.target.id] = item.value is not None
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            members.append(item.targets[0].id)
    return {
        "bases": [ast.unparse(base) for base in node.bases],
        "methods": methods,
        "fields": fields,
        "members": members,
    }


def _method(node: ast.FunctionDef) -> Dict[str, Any]:
    arguments = node.args
    return {
        "parameters": [a.arg for a in arguments.posonlyargs + arguments.args],
        "defaults": len(arguments.defaults),
        "keywords": [a.arg for a in arguments.kwonlyargs],
        "marks": sorted(ast.unparse(d) for d in node.decorator_list),
    }
