import com.google.gson.Gson;
import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * Feeds Siddhi made-up events as fast as it takes them, and says how long that took.
 *
 * Argument: the file with the events, as `benchmarks/peers/events.py` writes it. Reads one command a line from standard
 * input and answers with a line; see `Command`. Events are made before the clock runs, a block at a time.
 */
public final class PeerDriver {
    private static final int BLOCK = 50_000;

    private static final class Command {
        String app;
        boolean two;
        boolean cpu;
        int rows;
        int chunk;
        long events;
        double seconds;
    }

    private static final class Counter extends StreamCallback {
        long events;

        @Override
        public void receive(Event[] received) {
            events += received.length;
        }
    }

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final String[] symbols;
    private final double[] prices;
    private final long[] volumes;
    private final Counter counter = new Counter();
    private SiddhiAppRuntime runtime;
    private InputHandler[] inputs;
    private boolean byCpu;
    private long startMs;
    private long sent;
    private Event[] block;
    private Event[][][] chunks;

    private PeerDriver(Path file) throws Exception {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(file));
        int count = data.getInt();
        symbols = new String[count];
        prices = new double[count];
        volumes = new long[count];
        String[] names = new String[data.getInt()];
        for (int name = 0; name < names.length; name++) {
            names[name] = "S" + name;
        }
        for (int row = 0; row < count; row++) {
            symbols[row] = names[data.getInt()];
        }
        data.asDoubleBuffer().get(prices);
        data.position(data.position() + 8 * count);
        data.asLongBuffer().get(volumes);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what Siddhi prints must not mix with the answers
        PeerDriver driver = new PeerDriver(Path.of(arguments[0]));
        Gson json = new Gson();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer;
            try {
                answer = driver.run(json.fromJson(line, Command.class));
            } catch (Exception error) {
                answer = Map.of("error", String.valueOf(error));
            }
            answers.println(json.toJson(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> run(Command command) throws Exception {
        if (command.app != null) {
            return start(command);
        }
        long outputs = counter.events;
        long first = sent;
        long used = 0;
        long most = command.events > 0 ? command.events : Long.MAX_VALUE;
        long limit = command.events > 0 ? Long.MAX_VALUE : (long) (command.seconds * 1e9);
        while (sent - first < most && used < limit) {
            int count = (int) Math.min(BLOCK, most - (sent - first));
            make(count, command.chunk);
            long before = now();
            long deadline = limit == Long.MAX_VALUE ? limit : before + limit - used;
            if (command.chunk == 1) {
                sendSingly(deadline);
            } else {
                sendChunks(deadline);
            }
            used += now() - before;
        }
        return Map.of("events", sent - first, "ns", used, "outputs", counter.events - outputs);
    }

    private long now() {
        return byCpu ? threads.getCurrentThreadCpuTime() : System.nanoTime();
    }

    private Map<String, Object> start(Command command) throws Exception {
        SiddhiManager manager = new SiddhiManager();
        runtime = manager.createSiddhiAppRuntime(command.app);
        runtime.addCallback("Out", counter);
        runtime.start();
        startMs = System.currentTimeMillis(); // Siddhi starts output rates by the system clock, also under playback
        byCpu = command.cpu;
        InputHandler single = runtime.getInputHandler("S");
        inputs = command.two ? new InputHandler[] {single, runtime.getInputHandler("T")} : new InputHandler[] {single};
        for (int row = 0; row < command.rows; row++) {
            runtime.getInputHandler("T").send(startMs, new Object[] {"S" + row, (double) row, (long) row, startMs});
        }
        return Map.of("startMs", startMs);
    }

    /** Fill `block`, or `chunks` by place and stream. */
    private void make(int count, int chunk) {
        block = new Event[count];
        for (int row = 0; row < count; row++) {
            long number = sent + row;
            int place = (int) (number % prices.length);
            long time = startMs + number;
            block[row] = new Event(time, new Object[] {symbols[place], prices[place], volumes[place], time});
        }
        if (chunk == 1) {
            return;
        }
        int streams = inputs.length;
        int span = chunk * streams;
        chunks = new Event[(count + span - 1) / span][streams][];
        for (int place = 0; place < chunks.length; place++) {
            int left = Math.min(span, count - place * span);
            for (int stream = 0; stream < streams; stream++) {
                Event[] part = new Event[(left - stream + streams - 1) / streams];
                for (int row = 0; row < part.length; row++) {
                    part[row] = block[place * span + row * streams + stream];
                }
                chunks[place][stream] = part;
            }
        }
    }

    private void sendSingly(long deadline) throws Exception {
        int streams = inputs.length;
        for (int row = 0; row < block.length; row++) {
            Event event = block[row];
            inputs[(int) (sent % streams)].send(event.getTimestamp(), event.getData());
            sent++;
            if ((row & 255) == 255 && now() > deadline) {
                return;
            }
        }
    }

    private void sendChunks(long deadline) throws Exception {
        for (Event[][] parts : chunks) {
            for (int stream = 0; stream < parts.length; stream++) {
                inputs[stream].send(parts[stream]);
                sent += parts[stream].length;
            }
            if (now() > deadline) {
                return;
            }
        }
    }
}
