import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.config.SiddhiAppContext;
import io.siddhi.core.util.snapshot.state.State;
import io.siddhi.core.util.snapshot.state.StateHolder;
import io.siddhi.core.util.timestamp.TimestampGenerator;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;

/**
 * Moves an app's clock as a live clock moves, so that each timer fires at its own time; Siddhi's own playback jumps, and
 * timers on the way then see the time at the end of the jump. Times without a timer are left out.
 */
final class SiddhiClock {
    private static final long FARTHEST_STEPS = 1_000_000_000L;
    private static final int MOST_STEPS = 20_000;

    private final SiddhiAppContext context;
    private final TimestampGenerator generator;
    private final List<StateHolder<State>> schedulers = new ArrayList<>();
    private long now;
    private int counted = -1;

    @SuppressWarnings("unchecked")
    SiddhiClock(SiddhiAppRuntime runtime, long start) {
        context = (SiddhiAppContext) read(runtime, "siddhiAppContext");
        generator = context.getTimestampGenerator();
        now = start;
        if (context.isPlayback()) {
            generator.setCurrentTimestamp(start);
        }
    }

    boolean isPlayback() {
        return context.isPlayback();
    }

    /** Move to `target`; timers due until then have fired, each at its own time. The clock never goes back. */
    void moveTo(long target) {
        if (target - now > FARTHEST_STEPS) {
            jumpTo(target);
            return;
        }
        for (int steps = 0; now < target; steps++) {
            if (steps > MOST_STEPS) {
                throw new IllegalStateException("too many timers between " + now + " and " + target);
            }
            // Of timers with one time in several partitions, Siddhi fires one per move of the clock.
            jumpTo(Math.max(now + 1, Math.min(target, nextTimer())));
        }
    }

    /** Move to `target` in one go. */
    void jumpTo(long target) {
        if (target < now) {
            return;
        }
        now = target;
        VirtualTime.setTime(now);
        if (context.isPlayback()) {
            generator.setCurrentTimestamp(now);
        }
        VirtualTime.runTasks();
    }

    private long nextTimer() {
        long next = VirtualTime.nextTask();
        if (!context.isPlayback()) {
            return next;
        }
        for (StateHolder<State> states : schedulers()) {
            Map<String, Map<String, State>> all = states.getAllStates();
            for (Map<String, State> ofPartition : all.values()) {
                for (State state : ofPartition.values()) {
                    Long due = (Long) ((Queue<?>) read(state, "toNotifyQueue")).peek();
                    if (due != null && due < next) {
                        next = due;
                    }
                }
            }
            states.returnAllStates(all);
        }
        return next;
    }

    /** Return what holds the timers of each of Siddhi's schedulers; partitions may add some at any time. */
    @SuppressWarnings("unchecked")
    private List<StateHolder<State>> schedulers() {
        List<Object> listeners = (List<Object>) read(generator, "timeChangeListeners");
        if (listeners.size() != counted) {
            counted = listeners.size();
            schedulers.clear();
            for (Object listener : listeners) {
                schedulers.add((StateHolder<State>) read(read(listener, "this$0"), "stateHolder"));
            }
        }
        return schedulers;
    }

    private static Object read(Object owner, String name) {
        for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(owner);
            } catch (NoSuchFieldException inherited) {
                continue;
            } catch (IllegalAccessException error) {
                throw new IllegalStateException(error);
            }
        }
        throw new IllegalStateException(owner.getClass() + " has no field " + name);
    }
}
