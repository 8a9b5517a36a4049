import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;

/**
 * Plays cases on the real Siddhi: reads one case a line from standard input and writes what Siddhi answered, a line each.
 *
 * Arguments: the folder of this program's classes, and the folder with Siddhi's jars. The process ends when a case needs
 * more than MOST_CPU_S of processor time, or waits for LONGEST_S, as the thread that plays it cannot be stopped; its line
 * says `{"hung":true}`.
 */
public final class SiddhiDriver {
    private static final int MOST_CPU_S = 2;
    private static final int LONGEST_S = 120;

    private SiddhiDriver() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Siddhi's own output must not mix with the answers
        UnaryOperator<String> player = player(arguments[0], arguments[1]);
        Watched thread = new Watched();
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            String played = line;
            String answer = thread.run(() -> player.apply(played));
            if (answer == null) {
                write(answers, "{\"hung\":true}");
                Runtime.getRuntime().halt(3);
            }
            write(answers, answer);
        }
        Runtime.getRuntime().halt(0);
    }

    /** A thread whose use of the processor is watched: on a busy machine, time on the wall says little. */
    private static final class Watched {
        private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        private final AtomicLong id = new AtomicLong(Thread.currentThread().getId());
        private final ExecutorService executor = Executors.newSingleThreadExecutor();

        /** Return what the task gives, null if it does not end. */
        String run(Callable<String> task) throws Exception {
            long began = System.nanoTime();
            Future<String> answer = executor.submit(() -> {
                id.set(Thread.currentThread().getId());
                return task.call();
            });
            long used = threads.getThreadCpuTime(id.get());
            while (true) {
                try {
                    return answer.get(1, TimeUnit.SECONDS);
                } catch (TimeoutException late) {
                    boolean works = threads.getThreadCpuTime(id.get()) - used > TimeUnit.SECONDS.toNanos(MOST_CPU_S);
                    if (works || System.nanoTime() - began > TimeUnit.SECONDS.toNanos(LONGEST_S)) {
                        return null;
                    }
                }
            }
        }
    }

    private static void write(PrintStream answers, String line) {
        byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
        answers.write(bytes, 0, bytes.length);
        answers.flush();
    }

    @SuppressWarnings("unchecked")
    private static UnaryOperator<String> player(String classes, String jars) throws Exception {
        List<URL> places = new ArrayList<>();
        places.add(new File(classes).toURI().toURL());
        for (File jar : new File(jars).listFiles((folder, name) -> name.endsWith(".jar"))) {
            places.add(jar.toURI().toURL());
        }
        VirtualTimeLoader loader = new VirtualTimeLoader(places.toArray(new URL[0]), SiddhiDriver.class.getClassLoader());
        Thread.currentThread().setContextClassLoader(loader);
        return (UnaryOperator<String>) loader.loadClass("CasePlayer").getDeclaredConstructor().newInstance();
    }
}
