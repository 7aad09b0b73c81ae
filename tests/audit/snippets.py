"""For each rule code that breaks it, and code that looks alike and does not. `# <-` marks the lines that are found."""

from textwrap import dedent

BAD = {
    "UNK001": [
        """
        import nats
        async def ask():
            nc = await nats.connect("nats://127.0.0.1")
            return await nc.request("a.b", b"")  # <-
        """,
        """
        from nats.aio.client import Client as NATS
        class Agent:
            def __init__(self, nc: NATS) -> None:
                self.nc = nc
            async def listen(self):
                js = self.nc.jetstream()
                pull = await js.pull_subscribe("a")
                await pull.fetch(1)  # <-
                sub = await self.nc.subscribe("b")
                await sub.next_msg(timeout=1)  # <-
        """,
        """
        import asyncio, nats
        async def ask(nc):
            return await asyncio.wait_for(nc.request("a", b""), 3)  # <-
        """,
    ],
    "UNK002": [
        """
        import asyncio
        class Box:
            def __init__(self):
                self.items: "asyncio.Queue[int]" = asyncio.Queue()
            async def take(self):
                return await self.items.get()  # <-
        """,
        """
        from asyncio import Queue, wait_for
        todo = Queue()
        async def take():
            return await wait_for(todo.get(), 1)  # <-
        """,
        """
        async def take(inbox):
            return await inbox.get()  # <-
        """,
        """
        import queue
        def take(todo: queue.Queue[int]):
            todo.get(timeout=3)  # <-
            todo.join()  # <-
        """,
        """
        import anyio
        async def take():
            send, receive = anyio.create_memory_object_stream[int](3)
            return await receive.receive()  # <-
        """,
        """
        import asyncio
        from collections import defaultdict
        boxes: dict[str, asyncio.Queue] = defaultdict(asyncio.Queue)
        async def take(name):
            for box in boxes.values():
                await box.get()  # <-
            return await boxes[name].get()  # <-
        """,
        """
        import asyncio
        from dataclasses import dataclass, field
        @dataclass
        class Box:
            items: asyncio.Queue = field(default_factory=asyncio.Queue)
        class Owner:
            box: Box | None
            async def take(self):
                await self.box.items.get()  # <-
        """,
    ],
    "UNK003": [
        """
        import asyncio
        async def wait(ready: asyncio.Event | None = None):
            ready = ready or asyncio.Event()
            await ready.wait()  # <-
        """,
        """
        import asyncio
        class Base:
            cond = asyncio.Condition()
        class Gate(Base):
            async def wait(self):
                async with self.cond:
                    await self.cond.wait_for(lambda: True)  # <-
        """,
        """
        async def wait(stop_event):
            await stop_event.wait()  # <-
        """,
        """
        import threading
        def wait(barrier: threading.Barrier, gone: threading.Event):
            barrier.wait()  # <-
            gone.wait(3)  # <-
        """,
        """
        import asyncio
        class Flag(asyncio.Event):
            pass
        async def wait():
            flag = Flag()
            await asyncio.gather(flag.wait(), asyncio.sleep(1))  # <-
        """,
    ],
    "UNK004": [
        """
        import asyncio
        async def wait():
            answer = asyncio.get_running_loop().create_future()
            await answer  # <-
        """,
        """
        import asyncio
        pending: dict[str, asyncio.Future[int]] = {}
        async def wait(name):
            await asyncio.wait_for(asyncio.shield(pending[name]), 3)  # <-
            return await pending.pop(name)  # <-
        """,
        """
        import asyncio
        async def wait(work, loop):
            return asyncio.run_coroutine_threadsafe(work(), loop).result()  # <-
        """,
        """
        import asyncio
        async def wait(threads):
            await asyncio.wrap_future(threads)  # <-
        """,
    ],
    "UNK005": [
        """
        import asyncio
        class Table:
            def __init__(self):
                self._lock = asyncio.Lock()
            async def change(self):
                async with self._lock:  # <-
                    await self.save()
            async def look(self):
                async with self._lock:  # <-
                    return 1
        """,
        """
        import asyncio
        turn = asyncio.Lock()
        async def change(save):
            await turn.acquire()  # <-
            try:
                await save()
            finally:
                turn.release()
        """,
        """
        import threading, subprocess
        turn = threading.Lock()
        def change():
            with turn:  # <-
                subprocess.run(["true"])  # <- UNK010
        """,
    ],
    "UNK006": [
        """
        import asyncio
        few = asyncio.Semaphore(3)
        async def work(do):
            async with few:  # <-
                await do()
            await few.acquire()  # <-
        """,
    ],
    "UNK007": [
        """
        import asyncio
        async def wait(job):
            while not job.done:
                await asyncio.sleep(0.1)  # <-
        """,
        """
        import asyncio
        async def wait(api, id):
            while True:
                job = await api.status(id)
                if job.state == "done":
                    return job
                await asyncio.sleep(1)  # <-
        """,
        """
        import time
        from pathlib import Path
        def wait():
            while not Path("done").exists():
                print("waiting")
                time.sleep(1)  # <-
        """,
        """
        import anyio
        async def wait(job):
            for _ in range(100):
                if job.is_done():
                    break
                await anyio.sleep(1)  # <-
        """,
    ],
    "UNK008": [
        """
        import time
        async def handle():
            time.sleep(1)  # <-
        """,
        """
        from time import sleep
        from unknot import Agent
        reviewer = Agent("reviewer")
        @reviewer.on("review")
        def review(draft):
            return slowly(draft)
        def slowly(draft):
            sleep(1)  # <-
        """,
    ],
    "UNK009": [
        """
        import requests, httpx
        from urllib.request import urlopen
        class Agent:
            http = requests.Session()
            async def handle(self):
                requests.get("http://x")  # <-
                httpx.post("http://x")  # <-
                self.more()
            def more(self):
                urlopen("http://x")  # <-
                self.http.get("http://x")  # <-
                with httpx.Client() as client:
                    client.get("http://x")  # <-
        """,
    ],
    "UNK010": [
        """
        import asyncio, os, subprocess
        async def run():
            made = await asyncio.create_subprocess_exec("true")
            await made.wait()  # <-
            await asyncio.wait_for(made.communicate(), 3)  # <-
            subprocess.run(["true"])  # <-
            os.system("true")  # <-
        def other():
            child = subprocess.Popen(["true"])
            child.wait()  # <-
        """,
        """
        async def end(process):
            await process.wait()  # <-
        """,
    ],
    "UNK011": [
        """
        def ask():
            return input("go on? ")  # <-
        """,
    ],
}

GOOD = [
    # dicts, matches, context variables, sessions of web clients: `get`, `wait` and `result` of something else
    """
    import contextvars, re
    now = contextvars.ContextVar("now")
    async def look(queue: dict, cache, session, request):
        queue.get("a"), now.get(), re.match("a", "b").group()
        await cache.get("key")
        await session.get("http://x")
        await cache_queue.get("key")
        request.wait()
        return request.result()
    """,
    # the name of a module is also that of a variable
    """
    import queue, requests
    async def look(requests):
        queue = {}
        requests.get("a")
        return queue.get()
    """,
    # not waiting, or told not to
    """
    import asyncio, os, threading
    items, turn, ready = asyncio.Queue(), threading.Lock(), asyncio.Event()
    async def look():
        items.get_nowait()
        await items.put(1)
        ready.set(), ready.is_set()
        turn.acquire(blocking=False), turn.acquire(False)
        os.waitpid(1, os.WNOHANG)
    """,
    # a lock that nobody waits under is never waited for
    """
    import asyncio, threading
    turn, other = threading.Lock(), asyncio.Lock()
    def count():
        with turn:
            return 1
    async def look():
        async with other:
            return 2
    """,
    # own work: tasks, also when they are called futures
    """
    import asyncio
    async def work(do, executor):
        task = asyncio.create_task(do())
        future = asyncio.ensure_future(do())
        mine: asyncio.Future = asyncio.ensure_future(do())
        thread_future = asyncio.get_running_loop().run_in_executor(None, do)
        await task, await future, await mine
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(do(), loop))
        return await thread_future
    def in_a_thread(do, loop):
        return asyncio.run_coroutine_threadsafe(do(), loop).result()
    """,
    # a future that is done, an answer that is only called one
    """
    import asyncio
    async def fail(ask):
        future = asyncio.get_running_loop().create_future()
        if not ask:
            future.set_exception(ValueError())
            return await future
        answer_future = await ask()
        return await answer_future
    """,
    # a future that was handed over is mostly done
    """
    import concurrent.futures
    def done(future: concurrent.futures.Future):
        return future.result()
    def all_of(futures):
        return [each.result() for each in concurrent.futures.as_completed(futures)]
    """,
    # a schedule, a retry, a service, one that yields, a loop over time
    """
    import asyncio, time
    async def every(do, stop, socket):
        while True:
            await do()
            await asyncio.sleep(60)
    async def again(do):
        for attempt in range(3):
            answer = await do()
            if answer.ok:
                return answer
            await asyncio.sleep(2 ** attempt)
    async def retry(do):
        while True:
            try:
                if await do():
                    return
            except OSError:
                await asyncio.sleep(1)
    class Service:
        async def run(self, do):
            while not self.stopped:
                await do()
                if self.is_stopping():
                    break
                await asyncio.sleep(1)
    async def read(socket):
        while True:
            data = await socket.read()
            if not data:
                break
            await asyncio.sleep(0)
    async def until(at):
        while time.monotonic() < at:
            await asyncio.sleep(0.1)
    """,
    # in a thread nobody is in the way
    """
    import asyncio, time, requests
    def slowly():
        time.sleep(1)
        return requests.get("http://x")
    async def handle():
        def also():
            time.sleep(1)
        await asyncio.to_thread(slowly)
        await asyncio.to_thread(also)
        await asyncio.to_thread(lambda: requests.get("http://x"))
    """,
    # inside of a wrapper
    """
    import asyncio
    items, ready = asyncio.Queue(), asyncio.Event()
    async def handle(ctx):
        async with ctx.blocking_on("agent", "writer"):
            await items.get()
            if True:
                await ready.wait()
        async with ctx.tool("ocr"), other():
            await ready.wait()
        await ctx.receive(items, by="writer")
        async with ctx.lock("browser-9"):
            pass
    """,
    # `input` is something else
    """
    def run(input):
        return input("a")
    """,
    """
    from terminal import input
    input("a")
    """,
    # what is bound to two things is not known
    """
    import asyncio
    def choose(flag, other):
        box = asyncio.Event()
        if flag:
            box = asyncio.Queue()
        return box.get()
    """,
]


def code(snippet: str) -> str:
    """As it stands in a file."""
    return dedent(snippet).lstrip()


def marked(snippet: str, rule: str) -> list[tuple[int, str]]:
    """The lines that are found in *snippet*, and by which rule: *rule* unless the mark names another."""
    found = []
    for number, line in enumerate(code(snippet).splitlines(), start=1):
        _, mark, other = line.partition("# <-")
        if mark:
            found.append((number, other.strip() or rule))
    return found
