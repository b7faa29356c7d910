import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RSemaphore;
import org.redisson.api.RateType;

/** What a task takes again and again: each acquire returns what gives it back. */
record Turns(Callable<Runnable> acquiring) {
    private static final int PERMITS = 5;
    /** The limit of a rate, in each TTL. */
    private static final int RATE = 1000;

    /** Nothing returns the permits of a client that crashed. */
    static Turns semaphore(RSemaphore semaphore) {
        semaphore.trySetPermits(PERMITS);
        return new Turns(() -> {
            semaphore.acquire();
            return semaphore::release;
        });
    }

    static Turns expirable(RPermitExpirableSemaphore semaphore, long ttl) {
        semaphore.trySetPermits(PERMITS);
        return new Turns(() -> {
            String permit = semaphore.acquire(ttl, TimeUnit.MILLISECONDS);
            return () -> semaphore.release(permit);
        });
    }

    static Turns rate(RRateLimiter limiter, long ttl) {
        limiter.trySetRate(RateType.OVERALL, RATE, Duration.ofMillis(ttl));
        return new Turns(() -> {
            limiter.acquire();
            return () -> {};
        });
    }

    Runnable acquire() throws Exception {
        return acquiring.call();
    }
}
