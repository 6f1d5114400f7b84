"""What the built-in taskgraph scenarios are, once and for all: nobody can win by moving them."""

from __future__ import annotations

FROZEN = {
    "taskgraph/cholesky-10-2g2c": "a2e69ee6165759f47086573868b427f1e8c1a9e4d5bbc352b8839ae540b61847",
    "taskgraph/cholesky-4-2g2c": "b896414719c18a1798934a00cdd09cda056bfe561e07088bcaeed95fdf1dc620",
    "taskgraph/cholesky-8-2g2c": "cd72d354f71581e30c5a2eaa9fc6a906beb57cad8c0f03505925c122f179da1e",
    "taskgraph/lu-8-2g2c": "978762462f44d72d8e53f36680d1fc61b60725bc1ede5d9c952572bf28fb7df6",
    "taskgraph/noisy": "be07772c3a5703e2a7fcbda778fbc24586a6ac5f5987df305ce38916d9a9018b",
    "taskgraph/push-8-2g2c": "5705ebf2a747cc979b68c2abcda35e80a5581c3360de803ed99da73e919362f6",
    "taskgraph/qr-8-2g2c": "c50e6892dd7c79f451a957794fc10ee6ddcc880123f5a3a43a92cd9ba47e7b79",
    "taskgraph/spgemm": "5e475a4db7209824e92c96b0d1f2e432d6308cc812882caaf9faa24a790dbcea",
    "taskgraph/tight-memory": "b4aebfa23189e0c8f87a48436ef5b112b3bb7d0081ea0edd359b3055692782fc",
    "taskgraph/tiny": "01a41348d35b0b399ec4e055de06bf430eab8a831d91d93aa40bbcf6fbc7a89c",
    "taskgraph/unrolled": "c47191052b233a69a1c049bd81118d43022ab7c374beb6b0e2f1e725b154bc1b",
    "taskgraph/wait-for-reuse": "ab59dcc53ad52fff930c65714deae3dd4234cc6bc683794b8efef5efd88fdf0a",
}
"""Digest of each built-in: machine, arrivals, every graph that can arrive with its durations, and reward weights."""

WRITTEN = ("arrivals", "durations", "graphs", "mode", "processors", "reward")
"""Keys with defaults that every built-in states all the same: they decide results."""
