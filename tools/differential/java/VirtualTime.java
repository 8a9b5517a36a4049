import java.util.Collections;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.Delayed;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.FutureTask;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * The clock and the executors that Siddhi's classes see in place of the JVM's own: VirtualTimeLoader replaces their calls
 * of System.currentTimeMillis, Thread.sleep and Executors. Tasks run in the caller's thread, timed ones when the clock
 * reaches their time.
 */
public final class VirtualTime {
    private static final PriorityQueue<Timed> TASKS = new PriorityQueue<>();
    private static long now;
    private static long sequence;

    private VirtualTime() {
    }

    /** Set the clock and forget all timed tasks. */
    public static void reset(long start) {
        TASKS.clear();
        now = start;
    }

    /** Return the time of the earliest task, or Long.MAX_VALUE. */
    public static long nextTask() {
        return TASKS.isEmpty() ? Long.MAX_VALUE : TASKS.peek().due;
    }

    /** Move the clock; tasks that are due wait for `runTasks`. */
    public static void setTime(long time) {
        now = time;
    }

    /** Run the tasks that are due. */
    public static void runTasks() {
        while (!TASKS.isEmpty() && TASKS.peek().due <= now) {
            Timed task = TASKS.poll();
            task.run();
            if (task.period > 0 && !task.isCancelled()) {
                task.due += task.period;
                TASKS.add(task);
            }
        }
    }

    // ---- what Siddhi's classes call

    public static long currentTimeMillis() {
        return now;
    }

    public static void sleep(long ignored) {
        // Tasks run in the caller's thread, so there is nothing to wait for.
    }

    public static ExecutorService newSingleThreadExecutor() {
        return new Executor();
    }

    public static ExecutorService newCachedThreadPool(ThreadFactory ignored) {
        return new Executor();
    }

    public static ScheduledExecutorService newScheduledThreadPool(int ignored, ThreadFactory unused) {
        return new Executor();
    }

    private static final class Timed extends FutureTask<Object> implements ScheduledFuture<Object> {
        private final Runnable body;
        private final long period;
        private final long number = sequence++;
        private long due;

        Timed(Runnable body, long due, long period) {
            super(body, null);
            this.body = body;
            this.due = due;
            this.period = period;
        }

        @Override
        public void run() {
            if (!isCancelled()) {
                body.run();
            }
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            TASKS.remove(this);
            return super.cancel(mayInterrupt);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(due - now, TimeUnit.MILLISECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            Timed task = (Timed) other;
            if (due != task.due) {
                return Long.compare(due, task.due);
            }
            // Triggers, which repeat, come after timers of the same time, as under playback.
            boolean sameKind = period > 0 == task.period > 0;
            return sameKind ? Long.compare(number, task.number) : Long.compare(period, task.period);
        }
    }

    private static final class Executor extends AbstractExecutorService implements ScheduledExecutorService {
        private boolean shutdown;

        @Override
        public void execute(Runnable task) {
            task.run();
        }

        private Timed add(Runnable task, long delay, long period, TimeUnit unit) {
            Timed timed = new Timed(task, now + unit.toMillis(delay), unit.toMillis(period));
            if (!shutdown) {
                TASKS.add(timed);
            }
            return timed;
        }

        @Override
        public ScheduledFuture<?> schedule(Runnable task, long delay, TimeUnit unit) {
            return add(task, delay, 0, unit);
        }

        @Override
        public <V> ScheduledFuture<V> schedule(Callable<V> task, long delay, TimeUnit unit) {
            throw new UnsupportedOperationException("Siddhi schedules Runnables only");
        }

        @Override
        public ScheduledFuture<?> scheduleAtFixedRate(Runnable task, long delay, long period, TimeUnit unit) {
            return add(task, delay, period, unit);
        }

        @Override
        public ScheduledFuture<?> scheduleWithFixedDelay(Runnable task, long delay, long period, TimeUnit unit) {
            // Only the purge of aggregations does this, every 15 minutes of real time: no case takes that long.
            return new Timed(task, Long.MAX_VALUE, 0);
        }

        @Override
        public void shutdown() {
            shutdown = true;
        }

        @Override
        public List<Runnable> shutdownNow() {
            shutdown = true;
            return Collections.emptyList();
        }

        @Override
        public boolean isShutdown() {
            return shutdown;
        }

        @Override
        public boolean isTerminated() {
            return shutdown;
        }

        @Override
        public boolean awaitTermination(long timeout, TimeUnit unit) {
            return true;
        }
    }
}
