import java.util.ArrayList;
import java.util.List;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.config.Property;

/** Keeps the errors that Siddhi logs: events that it dropped, and failures inside it. */
final class ErrorLog extends AbstractAppender {
    private static final int MOST = 50;
    private static final int LONGEST = 300;

    private final List<String> messages = new ArrayList<>();

    ErrorLog() {
        super("cases", null, null, true, Property.EMPTY_ARRAY);
        start();
        LoggerContext context = (LoggerContext) LogManager.getContext(ErrorLog.class.getClassLoader(), false);
        LoggerConfig root = context.getConfiguration().getRootLogger();
        root.getAppenders().keySet().forEach(root::removeAppender);
        root.setLevel(Level.ERROR);
        root.addAppender(this, Level.ERROR, null);
        context.updateLoggers();
    }

    void clear() {
        messages.clear();
    }

    void add(String message) {
        if (messages.size() < MOST) {
            messages.add(message.length() > LONGEST ? message.substring(0, LONGEST) : message);
        }
    }

    List<String> messages() {
        return messages;
    }

    @Override
    public void append(LogEvent event) {
        Throwable thrown = event.getThrown();
        add(event.getMessage().getFormattedMessage() + (thrown == null ? "" : " [" + thrown + "]"));
    }
}
