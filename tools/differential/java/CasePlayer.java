import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.query.output.callback.QueryCallback;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import io.siddhi.query.api.definition.AbstractDefinition;
import io.siddhi.query.api.definition.Attribute;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/** Plays one case after the other, each on an app of its own. */
public final class CasePlayer implements UnaryOperator<String> {
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();

    private final ErrorLog errors = new ErrorLog();
    private final SiddhiManager manager = new SiddhiManager();

    /** Return what Siddhi answers to the case `line`, as JSON: `expect` or `error`, and `runtime_errors`. */
    @Override
    public String apply(String line) {
        JsonObject play = GSON.fromJson(line, JsonObject.class);
        JsonObject answer = new JsonObject();
        errors.clear();
        long start = play.has("start_time") ? play.get("start_time").getAsLong() : 0;
        VirtualTime.reset(start);
        SiddhiAppRuntime runtime;
        try {
            runtime = manager.createSiddhiAppRuntime(play.get("app").getAsString());
        } catch (Throwable refused) {
            answer.add("error", told(refused));
            return GSON.toJson(answer);
        }
        try {
            answer.add("expect", new Play(play, runtime, start).run());
        } finally {
            runtime.shutdown();
        }
        JsonArray seen = new JsonArray();
        errors.messages().forEach(seen::add);
        answer.add("runtime_errors", seen);
        return GSON.toJson(answer);
    }

    private static JsonObject told(Throwable refused) {
        JsonObject error = new JsonObject();
        boolean syntax = refused.getClass().getName().contains("SiddhiParserException");
        error.addProperty("kind", syntax ? "parse" : "create");
        error.addProperty("class", refused.getClass().getName());
        error.addProperty("message", String.valueOf(refused.getMessage()));
        return error;
    }

    /** One case on its app. */
    private final class Play {
        private final JsonObject document;
        private final SiddhiAppRuntime runtime;
        private final SiddhiClock clock;
        private final Map<String, AbstractDefinition> inputs = new LinkedHashMap<>();
        private final JsonObject expect = new JsonObject();

        Play(JsonObject document, SiddhiAppRuntime runtime, long start) {
            this.document = document;
            this.runtime = runtime;
            this.clock = new SiddhiClock(runtime, start);
            inputs.putAll(runtime.getStreamDefinitionMap());
            inputs.putAll(runtime.getWindowDefinitionMap());
        }

        JsonObject run() {
            JsonObject listen = document.getAsJsonObject("listen");
            listenToStreams(listen.getAsJsonArray("streams"));
            listenToQueries(listen.getAsJsonArray("queries"));
            runtime.start();
            JsonArray results = new JsonArray();
            JsonArray events = document.getAsJsonArray("events");
            for (int step = 0; step < events.size(); step++) {
                JsonObject event = events.get(step).getAsJsonObject();
                try {
                    take(event, step, results);
                } catch (Throwable failure) {
                    errors.add(failure.toString());
                }
            }
            if (results.size() > 0) {
                expect.add("results", results);
            }
            return expect;
        }

        private void take(JsonObject event, int step, JsonArray results) throws InterruptedException {
            if (event.has("advance_time")) {
                clock.moveTo(event.get("advance_time").getAsLong());
            } else if (event.has("query")) {
                results.add(ask(event.get("query").getAsString(), step));
            } else if (event.has("batch")) {
                String stream = event.get("stream").getAsString();
                JsonArray batch = event.getAsJsonArray("batch");
                Event[] chunk = new Event[batch.size()];
                for (int row = 0; row < chunk.length; row++) {
                    chunk[row] = event(stream, batch.get(row).getAsJsonObject());
                }
                if (clock.isPlayback()) {
                    clock.moveTo(chunk[0].getTimestamp() - 1);
                    clock.jumpTo(chunk[chunk.length - 1].getTimestamp());
                }
                input(stream).send(chunk);
            } else {
                String stream = event.get("stream").getAsString();
                Event alone = event(stream, event);
                if (clock.isPlayback()) {
                    clock.moveTo(alone.getTimestamp());
                }
                input(stream).send(alone.getTimestamp(), alone.getData());
            }
        }

        private InputHandler input(String stream) {
            return runtime.getInputHandler(stream);
        }

        private Event event(String stream, JsonObject event) {
            List<Attribute> attributes = inputs.get(stream).getAttributeList();
            JsonArray data = event.getAsJsonArray("data");
            Object[] values = new Object[attributes.size()];
            for (int place = 0; place < values.length; place++) {
                values[place] = Values.read(data.get(place), attributes.get(place).getType());
            }
            return new Event(event.get("timestamp").getAsLong(), values);
        }

        private void listenToStreams(JsonArray names) {
            JsonObject streams = new JsonObject();
            JsonObject schemas = new JsonObject();
            expect.add("streams", streams);
            expect.add("schemas", schemas);
            for (JsonElement name : names) {
                String stream = name.getAsString();
                AbstractDefinition definition = runtime.getStreamDefinitionMap().get(stream);
                if (definition == null) {
                    continue;
                }
                JsonArray rows = new JsonArray();
                streams.add(stream, rows);
                JsonArray attributes = new JsonArray();
                for (Attribute attribute : definition.getAttributeList()) {
                    JsonArray pair = new JsonArray();
                    pair.add(attribute.getName());
                    pair.add(attribute.getType().name().toLowerCase());
                    attributes.add(pair);
                }
                schemas.add(stream, attributes);
                runtime.addCallback(stream, new StreamCallback() {
                    @Override
                    public void receive(Event[] events) {
                        keep(rows, events);
                    }
                });
            }
        }

        private void listenToQueries(JsonArray names) {
            JsonObject queries = new JsonObject();
            expect.add("queries", queries);
            for (JsonElement name : names) {
                JsonObject answer = new JsonObject();
                JsonArray in = new JsonArray();
                JsonArray removed = new JsonArray();
                answer.add("in", in);
                answer.add("removed", removed);
                queries.add(name.getAsString(), answer);
                runtime.addCallback(name.getAsString(), new QueryCallback() {
                    @Override
                    public void receive(long timestamp, Event[] current, Event[] expired) {
                        keep(in, current);
                        keep(removed, expired);
                    }
                });
            }
        }

        private void keep(JsonArray rows, Event[] events) {
            if (events == null) {
                return;
            }
            for (Event event : events) {
                JsonArray row = new JsonArray();
                row.add(event.getTimestamp());
                row.add(values(event));
                rows.add(row);
            }
        }

        private JsonArray values(Event event) {
            JsonArray values = new JsonArray();
            for (Object value : event.getData()) {
                values.add(Values.written(value));
            }
            return values;
        }

        private JsonObject ask(String text, int step) {
            JsonObject result = new JsonObject();
            result.addProperty("step", step);
            try {
                Event[] found = runtime.query(text);
                if (found == null) {
                    result.add("rows", JsonNull.INSTANCE);
                    return result;
                }
                JsonArray rows = new JsonArray();
                for (Event event : found) {
                    rows.add(values(event));
                }
                result.add("rows", rows);
            } catch (Throwable refused) {
                result.add("error", told(refused));
            }
            return result;
        }
    }
}
