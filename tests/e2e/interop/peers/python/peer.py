"""A peer around redis-py's Lock: see ../README.md."""

import random
import sys
import threading
import time

import redis
from redis.exceptions import LockError


def main(arguments):
    if len(arguments) != 4:
        raise ValueError("usage: peer LIBRARY REDIS_URL NAME TTL_MS")
    library, url, name, ttl_ms = arguments
    if library != "redis-py":
        raise ValueError(f"no library {library!r} here")
    client = redis.Redis.from_url(url)
    client.ping()
    lock = client.lock(name, timeout=int(ttl_ms) / 1000)
    tell("ready")
    for line in sys.stdin:
        match line.split():
            case ["try"]:
                tell("held" if lock.acquire(blocking=False) else "busy")
            case ["acquire"]:
                lock.acquire()
                tell("held")
            case ["release"]:
                tell(release(lock))
            case ["count", key, *numbers]:
                goal, workers, pause_ms = map(int, numbers)
                tell(f"counted {count(lock, client, key, goal, workers, pause_ms)}")
            case _:
                raise ValueError(f"what is {line!r}?")


def tell(text):
    print(text, flush=True)


def release(lock):
    try:
        lock.release()
        return "released"
    except LockError:
        return "not-held"


def count(lock, client, key, goal, workers, pause_ms):
    """Has workers add to a number that only the lock protects, and tells how often they did."""
    counts, failures = [0] * workers, []

    def turn(worker):
        # Each thread has its own token.
        with lock:
            number = int(client.get(key) or 0)
            if number < goal:
                client.set(key, number + 1)
                counts[worker] += 1
            return number < goal

    def work(worker):
        try:
            while turn(worker):
                time.sleep(random.uniform(0, pause_ms / 1000))
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(counts)


try:
    main(sys.argv[1:])
except Exception as failure:
    tell(f"error {failure!r}")
    sys.exit(1)
