import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Set;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A peer for Redisson's RLock: see ../../../../README.md. With `redisson`, the watchdog renews its locks, and the TTL is
 * the watchdog's timeout. With `redisson-fixed`, the locks end with the TTL. Its semaphores and its rate limiter know only `work`.
 */
public final class Peer {
    private static final Set<String> LIBRARIES =
        Set.of("redisson", "redisson-fixed", "redisson-semaphore", "redisson-expirable", "redisson-rate");

    private final RedissonClient client;
    private final String library;
    private final String name;
    private final long ttl;
    private final boolean renewed;

    private Peer(String library, String url, String name, long ttl) {
        if (!LIBRARIES.contains(library)) {
            throw new IllegalArgumentException("no library " + library + " here");
        }
        Config config = new Config().setLockWatchdogTimeout(ttl);
        // On a busy machine, hundreds of threads can't read their answers within the usual three seconds.
        config.useSingleServer().setAddress(url.replaceAll("/$", "")).setTimeout(20_000);
        this.client = Redisson.create(config);
        this.library = library;
        this.name = name;
        this.ttl = ttl;
        this.renewed = library.equals("redisson");
    }

    public static void main(String[] args) {
        try {
            if (args.length != 4) {
                throw new IllegalArgumentException("usage: peer LIBRARY REDIS_URL NAME TTL_MS");
            }
            new Peer(args[0], args[1], args[2], Long.parseLong(args[3])).obey();
            System.exit(0);
        } catch (Exception error) {
            System.out.println("error " + String.valueOf(error).replace('\n', ' '));
            System.exit(1);
        }
    }

    private void obey() throws Exception {
        System.out.println("ready");
        RLock lock = client.getLock(name);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "try" -> System.out.println(tryLock(lock) ? "held" : "busy");
                case "acquire" -> {
                    acquire(lock);
                    System.out.println("held");
                }
                case "release" -> System.out.println(release(lock));
                case "count" -> System.out.println("counted " + new Work(this).count(words[1], number(words[2]), number(words[3]), number(words[4])));
                case "work" -> System.out.println(new Work(this).turns(number(words[1]), words[2].equals("apart"), number(words[3]), number(words[4])));
                default -> throw new IllegalArgumentException("what is " + line + "?");
            }
        }
    }

    RedissonClient client() {
        return client;
    }

    String name() {
        return name;
    }

    void acquire(RLock lock) {
        if (renewed) {
            lock.lock();
        } else {
            lock.lock(ttl, TimeUnit.MILLISECONDS);
        }
    }

    /** What a task takes and gives back. */
    Turns turns(String name) {
        return switch (library) {
            case "redisson-semaphore" -> Turns.semaphore(client.getSemaphore(name));
            case "redisson-expirable" -> Turns.expirable(client.getPermitExpirableSemaphore(name), ttl);
            case "redisson-rate" -> Turns.rate(client.getRateLimiter(name), ttl);
            default -> {
                RLock lock = client.getLock(name);
                yield new Turns(() -> {
                    acquire(lock);
                    return lock::unlock;
                });
            }
        };
    }

    private boolean tryLock(RLock lock) throws InterruptedException {
        return renewed ? lock.tryLock() : lock.tryLock(0, ttl, TimeUnit.MILLISECONDS);
    }

    private static String release(RLock lock) {
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException notMine) {
            return "not-held";
        }
        return lock.isHeldByCurrentThread() ? "still-held" : "released";
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }
}
