import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.IntFunction;

import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.client.codec.StringCodec;

/** Lets many threads use a peer's locks. Each thread is a separate owner. */
final class Work {
    private final Peer peer;

    Work(Peer peer) {
        this.peer = peer;
    }

    /** Lets threads increment a number that only the lock protects. Returns how often they did. */
    long count(String key, int goal, int workers, int pauseMs) throws Exception {
        RBucket<String> number = peer.client().getBucket(key, StringCodec.INSTANCE);
        List<Long> counts = together(workers, worker -> () -> {
            RLock lock = peer.client().getLock(peer.name());
            for (long counted = 0; ; counted++) {
                peer.acquire(lock);
                try {
                    String found = number.get();
                    int now = found == null ? 0 : Integer.parseInt(found);
                    if (now >= goal) {
                        return counted;
                    }
                    number.set(String.valueOf(now + 1));
                } finally {
                    lock.unlock();
                }
                if (pauseMs > 0) {
                    Thread.sleep(ThreadLocalRandom.current().nextInt(pauseMs));
                }
            }
        });
        return counts.stream().mapToLong(Long::longValue).sum();
    }

    /** Lets threads acquire and release a lock. Returns how long they waited. */
    String turns(int tasks, boolean apart, int warmUpMs, int timeMs) throws Exception {
        long from = System.nanoTime() + warmUpMs * 1_000_000L;
        long until = from + timeMs * 1_000_000L;
        List<String> told = together(tasks, task -> () -> {
            Turns turns = peer.turns(apart ? peer.name() + "-" + task : peer.name());
            StringBuilder waits = new StringBuilder("task");
            while (true) {
                long asked = System.nanoTime();
                Runnable release = turns.acquire();
                long granted = System.nanoTime();
                release.run();
                long released = System.nanoTime();
                if (released - until > 0) {
                    return waits.toString();
                }
                if (released - from > 0) {
                    waits.append(' ').append((granted - asked) / 1000);
                }
            }
        });
        return String.join("\n", told) + "\nworked";
    }

    private static <T> List<T> together(int times, IntFunction<Callable<T>> work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(times);
        try {
            List<Future<T>> ends = new ArrayList<>();
            for (int i = 0; i < times; i++) {
                ends.add(threads.submit(work.apply(i)));
            }
            List<T> all = new ArrayList<>();
            for (Future<T> end : ends) {
                all.add(end.get());
            }
            return all;
        } finally {
            threads.shutdownNow();
        }
    }
}
