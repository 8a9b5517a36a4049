import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Map;
import java.util.Set;

/**
 * Loads Siddhi's classes with their calls of the JVM's clock and executors replaced by VirtualTime's. Only the constant
 * pool of a class changes: the method references in question name another class of the same method names and types.
 */
public final class VirtualTimeLoader extends URLClassLoader {
    private static final String REPLACEMENT = "VirtualTime";
    private static final Map<String, String> REPLACED = Map.of(
            "java/lang/System", "currentTimeMillis", "java/lang/Thread", "sleep", "java/util/concurrent/Executors", "new");

    private static final Set<String> SHARED = Set.of("VirtualTime", "VirtualTimeLoader", "SiddhiDriver");

    public VirtualTimeLoader(URL[] places, ClassLoader parent) {
        super(places, parent);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        // What calls Siddhi must be loaded beside Siddhi's classes and not by the parent.
        if (name.indexOf('.') < 0 && !SHARED.contains(name)) {
            Class<?> loaded = findLoadedClass(name);
            return loaded != null ? loaded : findClass(name);
        }
        return super.loadClass(name, resolve);
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        String path = name.replace('.', '/') + ".class";
        try (InputStream source = getResourceAsStream(path)) {
            if (source == null) {
                throw new ClassNotFoundException(name);
            }
            byte[] code = source.readAllBytes();
            if (name.startsWith("io.siddhi.")) {
                code = rewritten(code);
            }
            return defineClass(name, code, 0, code.length);
        } catch (IOException error) {
            throw new ClassNotFoundException(name, error);
        }
    }

    /** Return the class file `code` with other targets of the replaced calls. */
    private static byte[] rewritten(byte[] code) throws IOException {
        Pool pool = new Pool(code);
        ByteArrayOutputStream out = new ByteArrayOutputStream(code.length + 64);
        DataOutputStream data = new DataOutputStream(out);
        data.write(code, 0, 8);
        data.writeShort(pool.count + 2);
        for (int entry = 1; entry < pool.count; entry++) {
            if (pool.end[entry] == 0) {
                continue; // the second half of a long or a double
            }
            if (pool.calls(entry)) {
                data.writeByte(10);
                data.writeShort(pool.count + 1);
                data.writeShort(pool.number(pool.start[entry] + 3));
            } else {
                data.write(code, pool.start[entry], pool.end[entry] - pool.start[entry]);
            }
        }
        data.writeByte(1);
        data.writeUTF(REPLACEMENT);
        data.writeByte(7);
        data.writeShort(pool.count);
        data.write(code, pool.end[pool.last], code.length - pool.end[pool.last]);
        return out.toByteArray();
    }

    /** The constant pool of a class file: where each entry starts and ends. */
    private static final class Pool {
        final int count;
        final int[] start;
        final int[] end;
        int last;
        private final byte[] code;

        Pool(byte[] code) {
            this.code = code;
            count = number(8);
            start = new int[count];
            end = new int[count];
            int at = 10;
            for (int entry = 1; entry < count; entry++) {
                start[entry] = at;
                at += size(at);
                end[entry] = at;
                last = entry;
                if (code[start[entry]] == 5 || code[start[entry]] == 6) {
                    entry++;
                }
            }
        }

        int number(int at) {
            return (code[at] & 0xff) << 8 | code[at + 1] & 0xff;
        }

        private int size(int at) {
            switch (code[at]) {
                case 1:
                    return 3 + number(at + 1);
                case 7: case 8: case 16: case 19: case 20:
                    return 3;
                case 15:
                    return 4;
                case 5: case 6:
                    return 9;
                default:
                    return 5;
            }
        }

        private String text(int entry) {
            try {
                return new DataInputStream(new ByteArrayInputStream(code, start[entry] + 1, end[entry] - start[entry] - 1))
                        .readUTF();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        /** Return whether the entry is a reference to a method that is replaced. */
        boolean calls(int entry) {
            int at = start[entry];
            if (code[at] != 10) {
                return false;
            }
            String wanted = REPLACED.get(text(number(start[number(at + 1)] + 1)));
            return wanted != null && text(number(start[number(at + 3)] + 1)).startsWith(wanted);
        }
    }
}
