"""What is known of the standard library and of NATS: on which classes one waits, by which methods, who makes them."""

import re
from typing import Final

from unknot_gateway.audit.rules import EVENT, FUTURE, LOCK, NATS, PROCESS, QUEUE, SEMAPHORE

_CLASSES: Final = {
    "queue": ["asyncio.Queue", "asyncio.LifoQueue", "asyncio.PriorityQueue"],
    "thread queue": [
        *(f"queue.{name}" for name in ("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue")),
        *(f"multiprocessing.{name}" for name in ("Queue", "JoinableQueue", "SimpleQueue")),
    ],
    "stream": [
        "anyio.streams.memory.MemoryObjectReceiveStream",
        "anyio.abc.ObjectReceiveStream",
        "trio.MemoryReceiveChannel",
        "trio.abc.ReceiveChannel",
    ],
    "event": [f"{home}.Event" for home in ("asyncio", "anyio", "trio", "threading", "multiprocessing")],
    "condition": [
        f"{home}.Condition" for home in ("asyncio", "anyio", "trio", "threading", "multiprocessing")
    ],
    "barrier": ["asyncio.Barrier", "threading.Barrier", "multiprocessing.Barrier"],
    "lock": ["asyncio.Lock", "anyio.Lock", "trio.Lock", "trio.StrictFIFOLock"],
    "thread lock": [
        f"{home}.{name}" for home in ("threading", "multiprocessing") for name in ("Lock", "RLock")
    ],
    "semaphore": [
        f"{home}.{name}"
        for home in ("asyncio", "anyio", "trio", "threading", "multiprocessing")
        for name in ("Semaphore", "BoundedSemaphore", "CapacityLimiter")
    ],
    "future": ["asyncio.Future"],
    "task": ["asyncio.Task"],
    "thread future": ["concurrent.futures.Future"],
    "process": ["asyncio.subprocess.Process", "anyio.abc.Process", "subprocess.Popen"],
    "nats": ["nats.aio.client.Client"],
    "subscription": ["nats.aio.subscription.Subscription"],
    "jetstream": ["nats.js.JetStreamContext"],
}
KINDS: Final = {name: kind for kind, names in _CLASSES.items() for name in names}
"""Class, by the name it is imported by (see `canonical`), -> kind."""

# Kind and method -> rule.
WAITS: Final = {
    ("queue", "get"): QUEUE,
    ("queue", "join"): QUEUE,
    ("thread queue", "get"): QUEUE,
    ("thread queue", "join"): QUEUE,
    ("stream", "receive"): QUEUE,
    ("event", "wait"): EVENT,
    ("condition", "wait"): EVENT,
    ("condition", "wait_for"): EVENT,
    ("barrier", "wait"): EVENT,
    ("lock", "acquire"): LOCK,
    ("thread lock", "acquire"): LOCK,
    ("semaphore", "acquire"): SEMAPHORE,
    ("thread future", "result"): FUTURE,
    ("process", "wait"): PROCESS,
    ("process", "communicate"): PROCESS,
    ("nats", "request"): NATS,
    ("nats", "old_style_request"): NATS,
    ("subscription", "next_msg"): NATS,
    ("subscription", "fetch"): NATS,
}
HELD: Final = {"lock": LOCK, "thread lock": LOCK, "semaphore": SEMAPHORE}
"""Kinds that `with` and `async with` acquire."""
NOT_BLOCKING: Final = frozenset({"block", "blocking"})
"""Arguments that, when False, make an acquire return at once."""

# Function, or class and method -> class of what it returns (awaited, where it is a coroutine).
RETURNS: Final = {
    "asyncio.create_subprocess_exec": "asyncio.subprocess.Process",
    "asyncio.create_subprocess_shell": "asyncio.subprocess.Process",
    "anyio.open_process": "anyio.abc.Process",
    "asyncio.get_event_loop": "asyncio.AbstractEventLoop",
    "asyncio.get_running_loop": "asyncio.AbstractEventLoop",
    "asyncio.new_event_loop": "asyncio.AbstractEventLoop",
    "asyncio.AbstractEventLoop.create_future": "asyncio.Future",
    "asyncio.wrap_future": "asyncio.Future",
    **dict.fromkeys(["asyncio.create_task", "asyncio.ensure_future", "asyncio.gather"], "asyncio.Task"),
    **dict.fromkeys(
        [f"asyncio.AbstractEventLoop.{name}" for name in ("create_task", "run_in_executor")], "asyncio.Task"
    ),
    "asyncio.TaskGroup.create_task": "asyncio.Task",
    "asyncio.run_coroutine_threadsafe": "concurrent.futures.Future",
    "concurrent.futures.ThreadPoolExecutor.submit": "concurrent.futures.Future",
    "concurrent.futures.ProcessPoolExecutor.submit": "concurrent.futures.Future",
    "nats.connect": "nats.aio.client.Client",
    "nats.aio.client.Client.subscribe": "nats.aio.subscription.Subscription",
    "nats.aio.client.Client.jetstream": "nats.js.JetStreamContext",
    "nats.js.JetStreamContext.subscribe": "nats.aio.subscription.Subscription",
    "nats.js.JetStreamContext.pull_subscribe": "nats.aio.subscription.Subscription",
    "nats.js.JetStreamContext.pull_subscribe_bind": "nats.aio.subscription.Subscription",
}
RETURNED_BY_ANY: Final = {
    "create_future": "asyncio.Future",
    "create_task": "asyncio.Task",
    "run_in_executor": "asyncio.Task",
}
"""Methods that only event loops and groups of tasks have, whatever the object is called."""
SECOND_OF_PAIR: Final = {
    "anyio.create_memory_object_stream": "anyio.streams.memory.MemoryObjectReceiveStream",
    "trio.open_memory_channel": "trio.MemoryReceiveChannel",
}
"""Functions that return a pair: the class of its second."""

SLEEPS: Final = frozenset({"asyncio.sleep", "anyio.sleep", "trio.sleep", "time.sleep"})
THREAD_SLEEPS: Final = frozenset({"time.sleep"})
PROCESSES: Final = frozenset(
    f"subprocess.{name}"
    for name in ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")
) | {"os.system", "os.wait", "os.waitpid"}
_METHODS: Final = ("get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "send")
HTTP_CALLS: Final = frozenset(f"{module}.{name}" for module in ("requests", "httpx") for name in _METHODS) | {
    "urllib.request.urlopen",
    "urllib.request.urlretrieve",
    "urllib3.request",
}
HTTP_CLIENTS: Final = frozenset(
    {
        "requests.Session",
        "httpx.Client",
        "urllib3.PoolManager",
        "http.client.HTTPConnection",
        "http.client.HTTPSConnection",
    }
)
HTTP_METHODS: Final = frozenset({*_METHODS, "getresponse", "urlopen"})

COVERS: Final = frozenset({"blocking_on", "tool"})
"""Methods of a context whose `async with` tells unknot of whatever waits inside."""
AWAITERS: Final = frozenset(
    {
        *("wait_for", "shield", "gather", "wait", "create_task", "ensure_future", "run_until_complete"),
        *("run_coroutine_threadsafe", "start_soon", "run"),
    }
)
"""Functions and methods that await what they are given."""

AWAITED_FIRST: Final = frozenset({"asyncio.wait_for", "asyncio.shield", "typing.cast", "copy.copy"})
"""Functions that give back what their first argument gives."""

_HOMES: Final = {
    "asyncio.queues": "asyncio",
    "asyncio.locks": "asyncio",
    "asyncio.futures": "asyncio",
    "asyncio.events": "asyncio",
    "asyncio.tasks": "asyncio",
    "concurrent.futures._base": "concurrent.futures",
    "concurrent.futures.thread": "concurrent.futures",
    "requests.api": "requests",
    "requests.sessions": "requests",
    "anyio.streams.memory": "anyio.streams.memory",
    "nats.aio.client": "nats.aio.client",
    "multiprocessing.queues": "multiprocessing",
    "multiprocessing.synchronize": "multiprocessing",
}
_ALIASES: Final = {
    "nats.NATS": "nats.aio.client.Client",
    "nats.aio.client.NATS": "nats.aio.client.Client",
    "nats.js.client.JetStreamContext": "nats.js.JetStreamContext",
    "subprocess.Process": "subprocess.Popen",
}

# Without a known class: names that say what they are, where the call is awaited and has no argument that says else.
QUEUE_NAME: Final = re.compile(r"(?:queue|inbox|mailbox)$", re.IGNORECASE)
EVENT_NAME: Final = re.compile(r"(?:event|_evt)$", re.IGNORECASE)
FUTURE_NAME: Final = re.compile(r"(?:^|_)(?:fut|future)$", re.IGNORECASE)
PROCESS_NAME: Final = re.compile(r"(?:^|_)(?:proc|process|subprocess)$", re.IGNORECASE)
LOCK_NAME: Final = re.compile(r"(?:^|_)(?:lock|mutex)$", re.IGNORECASE)
SEMAPHORE_NAME: Final = re.compile(r"(?:^|_)(?:sem|semaphore|limiter)$", re.IGNORECASE)
NATS_NAME: Final = re.compile(r"(?:^|_)(?:nc|nats|nats_client|nats_connection)$", re.IGNORECASE)


def canonical(name: str) -> str:
    """The name under which the table knows what *name* imports."""
    module, _, last = name.rpartition(".")
    return _ALIASES.get(name) or (f"{_HOMES[module]}.{last}" if module in _HOMES else name)
