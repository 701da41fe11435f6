"""Which libraries an import or a command brings into memory: each waits only for what it needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROGRAM = """
import json, sys

for statement in json.load(sys.stdin):
    try:
        exec(statement, {})
    except SystemExit as ended:
        assert not ended.code, statement
    print("modules:", *sys.modules, flush=True)
"""

RUN = "main(['simulate', '--size', '2', '--rounds', '1', '--local-steps', '1', '--overwrite', "
COMMAND = "from dpeer.cli import main; "
PRIVACY = "main(['privacy', '--noise-multiplier', '5', '--rounds', '20', '--accountant', "

TABLE = (
    "from pathlib import Path; from dpeer.training import load_task; "
    "Path('t.csv').write_text('a,b,y\\n' + '1,2,u\\n3,4,v\\n' * 30); "
    "load_task('csv', 0, 2, 0, {'path': 't.csv', 'target': 'y'})"
)
WITH_TORCH = {
    "import dpeer.training; dpeer.training.TorchLearner": ({"torch"}, {"zmq", "click", "rich"}),
    TABLE: (set(), {"sklearn", "pyarrow"}),
    # The first optimizer of torch.optim would, and a mode that watches operations: 0.7 s and 73 MB in every peer.
    f"{COMMAND}{RUN}'--algorithm', 'dfedsmdc'])": ({"click"}, {"torch._dynamo", "torch._inductor"}),
    f"{COMMAND}{RUN}'--privacy', 'sample', '--noise-multiplier', '1', '--records', '200'])": (
        set(), {"torch._dynamo", "torch._inductor"},
    ),
    "import torch; torch.optim.SGD([torch.zeros(1)], lr=1.0)": ({"torch._dynamo"}, set()),
}  # fmt: skip
LIGHT: dict[str, tuple[set[str], set[str]]] = {
    # A probe asks every few seconds: it must not wait for graphs and transports.
    f"{COMMAND}main(['status', 'dpeer-run'])": ({"click"}, {"numpy", "scipy", "networkx", "zmq"}),
}
WITHOUT_TORCH = {
    "import dpeer; assert 'open_run' in dir(dpeer)": (set(), {"numpy", "pydantic", "click", "zmq"}),
    "import dpeer.topology": ({"numpy"}, {"zmq", "click"}),
    "import dpeer.privacy, dpeer.privacy.accounting": (set(), {"zmq", "dp_accounting", "scipy.optimize"}),
    "import dpeer.peer.peer, dpeer.peer.transports": ({"zmq"}, {"click"}),
    "import dpeer.training.state.file_names, dpeer.federation.run": (set(), set()),
    "import dpeer; dpeer.load_model": (set(), set()),
    "import dpeer.training.models": (set(), {"transformers"}),
    "import dpeer.cli.start, dpeer.cli.simulate, dpeer.cli.topology, dpeer.cli.algorithms": ({"click"}, {"matplotlib"}),
    "import dpeer.cli.schema": (set(), {"sklearn", "pyarrow"}),
    f"{COMMAND}{PRIVACY}'tight'])": (set(), {"dp_accounting"}),
    f"{COMMAND}{PRIVACY}'rdp'])": ({"dp_accounting"}, set()),
    f"{COMMAND}main(['report', 'dpeer-run'])": ({"matplotlib"}, set()),
    f"{COMMAND}main(['topology', 'show', '--plot', 'a.png'])": ({"matplotlib"}, set()),
}
"""Statements in the order in which one process executes them: libraries that each brings, and that none has brought."""


@pytest.mark.slow
def test_a_statement_brings_no_library_into_memory_that_it_does_not_need(tmp_path):
    for statements in (WITH_TORCH, LIGHT, WITHOUT_TORCH):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, text=True, input=json.dumps(list(statements)),
            capture_output=True, check=False, timeout=280, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        found = [{*line.split()} for line in ended.stdout.splitlines() if line.startswith("modules: ")]
        for (statement, (present, absent)), modules in zip(statements.items(), found, strict=True):
            assert present <= modules, statement
            assert (absent | (set() if statements is WITH_TORCH else {"torch"})) & modules == set(), statement
