"""The five agents of run_9104, each run as a process of its own. What they do to wait, fail and go on is the public
client; what they say of themselves is what any agent runtime reports: alive, and busy or waiting.
"""

import asyncio
from typing import Any

from unknot import Agent, Context, DeadlockDetected
from unknot_gateway.cli.demo.liveness import Liveness

PAGE_S = 0.3
OCR_S = 3.0
"""The run's ninety seconds: one second here stands for thirty."""
PAGES_OF_B6 = 24
UNITS = {"bundle_b7": "EUR"}

# One event at a time, and handlers that block: what makes a knot possible, and what most agents are.
extractor_1 = Agent("extractor-1", blocking_waits="allow")
extractor_2 = Agent("extractor-2", blocking_waits="allow")
reconciler = Agent("reconciler", blocking_waits="allow")
writer = Agent("writer", blocking_waits="allow")
indexer = Agent("indexer")

live = {
    "extractor-1": Liveness("extractor-1", "11:16:40Z", 9_310),
    "extractor-2": Liveness("extractor-2", "11:16:41Z", 8_120),
    "indexer": Liveness("indexer", "11:16:43Z", 4_920),
    "reconciler": Liveness("reconciler", "11:16:39Z", 6_440),
    "writer": Liveness("writer", "11:16:44Z", 2_210),
}
clause_tables: dict[str, dict[str, Any]] = {}


@extractor_2.on("extract")
async def extract_b7(bundle: str, ctx: Context) -> dict[str, Any]:
    """Read the pages of *bundle*; on the last one the units are unclear."""
    me = live["extractor-2"]
    with me.says(f"working on {bundle}"):
        for _ in range(6):
            await asyncio.sleep(PAGE_S)
    try:
        with me.waits(f"units of {bundle}", of="reconciler"):
            units = await ctx.send_and_wait("reconciler", "units", bundle, timeout=20 * 60)
    except DeadlockDetected as knot:
        me.was_told(knot)
        units = "as printed"
    clause_tables[bundle] = {"clauses": 41, "units": units}
    me.goes_on(f"takes the units as printed; clause_table:{bundle} is there")
    return clause_tables[bundle]


@extractor_2.on("clause_table")
async def clause_table(bundle: str) -> dict[str, Any]:
    """The clause table of *bundle*, which extractor-2 produces."""
    return clause_tables[bundle]


@reconciler.on("reconcile")
async def reconcile(bundle: str, ctx: Context) -> dict[str, Any]:
    """Needs the clause table; a draft of it will do."""
    me = live["reconciler"]
    try:
        with me.waits(f"clause_table:{bundle}", of="extractor-2"):
            table = await ctx.send_and_wait("extractor-2", "clause_table", bundle, timeout=30 * 60)
    except DeadlockDetected as knot:
        me.was_told(knot)
        table = {"clauses": 38, "draft": True}
    me.goes_on("goes on with the draft clause table")
    return {"reconciled": table["clauses"], "draft": table.get("draft", False)}


@reconciler.on("units")
async def units(bundle: str) -> str:
    """Which units *bundle* is in."""
    return UNITS[bundle]


@writer.on("write")
async def write(bundle: str, ctx: Context) -> dict[str, Any]:
    """Wait for the scans that an outside OCR service reads, then ask for all else and write."""
    me = live["writer"]
    with me.waits(f"ocr:{bundle}", of="outside"):
        async with ctx.blocking_on("tool", f"ocr:{bundle}"):
            await asyncio.sleep(OCR_S)
    table = await ctx.send_and_wait("extractor-2", "clause_table", bundle, timeout=60)
    spelled = await ctx.send_and_wait("reconciler", "units", bundle, timeout=60)
    me.goes_on(f"OCR came back; summary of {table['clauses']} clauses written")
    return {"clauses": table["clauses"], "units": spelled}


@extractor_1.on("extract")
async def extract_b6(bundle: str, ctx: Context) -> dict[str, Any]:
    """Work through another bundle, page by page; each page is indexed."""
    indexed = 0
    with live["extractor-1"].says(f"working on {bundle}"):
        for page in range(PAGES_OF_B6):
            await asyncio.sleep(PAGE_S / 2)
            indexed += await ctx.send_and_wait(
                "indexer", "index", {"bundle": bundle, "page": page}, timeout=30
            )
    live["extractor-1"].goes_on(f"{bundle}: {indexed} pages extracted, each indexed by indexer")
    return {"indexed": indexed}


@indexer.on("index")
async def index(page: dict[str, Any]) -> int:
    """Index one page."""
    live["indexer"].status = f"indexing {page['bundle']}"
    await asyncio.sleep(PAGE_S / 10)
    return 1
