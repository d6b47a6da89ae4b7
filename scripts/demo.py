"""Serves a page to try models on: python scripts/demo.py CHECKPOINT... (needs nmt[demo]).

The address is 127.0.0.1 unless `--host` says otherwise: nobody else can reach it, and the page
reaches nobody else.
"""

import argparse
import socket
import sys
from collections.abc import Sequence

import torch

from nmt.checks import UserError, at_least, flag_main
from nmt.demo.app import load_models, make_app


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description="Serves a page to try models on.")
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="a .ckpt file each")
    parser.add_argument("--host", default="127.0.0.1", help="address to serve (%(default)s)")
    parser.add_argument("--port", type=int, default=7860, help="(%(default)s)")
    parser.add_argument("--device", default="auto", help="cpu, cuda, ... or auto (default)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (%(default)s)")
    options = parser.parse_args(argv)
    at_least("threads", options.threads, 1)
    torch.set_num_threads(options.threads)
    address = _bound(options.host, options.port)
    app = make_app(load_models(options.checkpoints, device=options.device))
    import uvicorn  # comes with gradio

    print(f"Open http://{options.host}:{address.getsockname()[1]} (Ctrl+C ends it).", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[address])


def _bound(host: str, port: int) -> socket.socket:
    """Takes the address, before models are loaded; nobody is answered yet.

    Raises:
        UserError: It cannot be had.
    """
    address = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        address.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        address.bind((host, port))
    except (OSError, OverflowError) as error:
        address.close()
        raise UserError(
            f"{host} port {port} cannot be served ({error}): choose another --host or --port."
        ) from error
    return address


if __name__ == "__main__":
    sys.exit(main())
